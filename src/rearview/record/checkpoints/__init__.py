"""When a state is taken, what it is of, and how it gets off the training thread."""
