"""Worker processes: what each is given, started, watched, replaced, and what of their work counts."""
