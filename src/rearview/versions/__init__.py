"""Source versions: snapshots in the store's own git repository, taken without touching the user's."""
