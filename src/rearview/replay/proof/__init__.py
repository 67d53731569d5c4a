"""Is what was replayed what was recorded, and how far can it be trusted? Pure."""
