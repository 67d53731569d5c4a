"""Bytes at rest: layout, journals, objects. Knows file names, offsets and checksums; knows nothing of training."""
