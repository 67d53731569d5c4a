"""Iterators of torch loaders: watched, carried in workers, rebuilt at a position. The face is `state.loaders`."""
