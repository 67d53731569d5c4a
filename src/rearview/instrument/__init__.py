"""The user's program as text and syntax tree: what was added to it, where it runs, what it reads, and how it is changed to be replayed."""
