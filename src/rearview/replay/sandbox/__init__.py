"""Where a replayed program runs: it sees the files of the user and can alter none of them."""
