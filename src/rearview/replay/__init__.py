"""The conductor: what is run again, by whom, how it is proved, and where the answer goes."""
