"""A module of the project that `everything.py` uses: its variables and its classes' attributes change while the training goes on."""

warmup = 0.0


class Counter:
    """Counts for everybody."""

    calls = 0
