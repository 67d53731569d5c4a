"""Real statements of real histories, placed: how many are right, how many would do damage. `python -m bench.propagate --mirror M`."""
