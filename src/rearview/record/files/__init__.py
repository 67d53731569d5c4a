"""The files that a run reads and writes, and what is noted of them."""
