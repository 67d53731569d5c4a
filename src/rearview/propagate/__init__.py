"""Carry a statement of one version of a file to another version of it. Pure: text in, text out."""
