"""In a worker: how it becomes the program, and what stands in the place of recording while it runs. Reaches no catalog."""
