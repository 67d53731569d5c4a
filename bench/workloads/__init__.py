"""Eight small trainings shaped like Table 3 of the Flor paper: two fine-tune a large frozen model, six train; all data is made up.

A module each, with `train(rv, epochs)` as a person would write it, and `EPOCHS`: about 15 s on two cores. Their shape is what the paper's
have: fine-tuning has a large state and short epochs (a checkpoint by the paper's means takes about 0.9 and 0.3 of an epoch), training has a
small state for the time its epochs take. `python -m bench.workloads NAME MEANS EPOCHS` runs one and prints what it measured.
"""

NAMES = ("rte", "cola", "cifr", "rsnt", "wiki", "jasp", "imgn", "rnnt")
"""As the paper calls them."""
