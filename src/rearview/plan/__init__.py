"""Decides what to keep and what to run: values in, values out, no files."""
