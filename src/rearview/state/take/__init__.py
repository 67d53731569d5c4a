"""Live objects to nodes: one module for each family of objects. Nothing of the program is changed."""
