"""The `rearview` command: one file per command, and the modules that turn facts into text for a person.

Knows terminals, files for other programs and exit codes. Must not know byte offsets, SQL or git.
"""
