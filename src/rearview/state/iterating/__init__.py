"""Iterators in layers, Python generators, progress bars: where they are, and back there. The face is `state.positions`."""
