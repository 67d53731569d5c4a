"""Going on with a run: which one, from where, with which files and which code, until it is where it was."""
