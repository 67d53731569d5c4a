"""`rv.background`: calls of the program made later, in order, by a thread of ours."""
