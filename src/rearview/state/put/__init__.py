"""Nodes back into live objects: one module for each family of kinds."""
