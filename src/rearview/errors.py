"""Every failure rearview can report, and the exit code each one ends a command with.

    RearviewError                     6  anything else that failed
    ├── UsageError                    2  the command or call was wrong (also ValueError)
    │   ├── ArgError                  2  a value given for an rv.arg does not fit its default
    │   ├── ConfigError               2  an unknown or malformed setting
    │   └── QueryError                2  a where clause or SQL text that cannot be run
    │       └── QueryTimeout          6  a query that ran past its time limit
    ├── NotFound                      3  nothing matched (also LookupError)
    │   ├── NoStore                   3  no .rearview here or above
    │   └── NoSuchRun                 3  no run of that id or name
    ├── StoreError                    6  the store cannot be used
    │   ├── Damaged                   5  bytes are not what was written
    │   ├── NewerFormat               6  written by a later rearview
    │   └── RecordingFailed           6  a record could not be written (shown once, training goes on)
    ├── CheckpointError               6  a state could not be captured, kept or put back
    │   ├── NoCheckpoint              3  no checkpoint of that run or place (also LookupError)
    │   ├── PlaceNotReached           6  a resumed program ended before it came to the place of its checkpoint
    │   └── RestoreRefused            6  the live objects cannot take the recorded state; nothing was touched
    │       └── RestoredOtherwise     6  what was put back is not what was recorded
    ├── VersionError                  6  source could not be taken or read back
    ├── MissingLibrary                6  an extra is needed (also ImportError)
    └── Unstorable                    6  a value rearview cannot keep (said once, training goes on)

Exit codes of the `rearview` command:
0 fine (also a plan declined), 1 differences found or part of what was asked not answered, 2 usage, 3 nothing matched,
4 the user's code raised in a replay, 5 store damaged, 6 anything else that failed, 130 interrupted.

A message has three parts: what happened, to which thing, what to do now.
"""

from __future__ import annotations

EXIT_OK = 0
EXIT_DIFFERENCES = 1
EXIT_USAGE = 2
EXIT_NOTHING_MATCHED = 3
EXIT_USER_CODE_RAISED = 4
EXIT_DAMAGED = 5
EXIT_FAILED = 6
EXIT_INTERRUPTED = 130


class RearviewError(Exception):
    """The root: catch this to catch everything rearview raises on purpose."""

    exit_code = EXIT_FAILED


class UsageError(RearviewError, ValueError):
    """The command or call was wrong."""

    exit_code = EXIT_USAGE


class ArgError(UsageError):
    """A value given for an `rv.arg` does not fit the type of its default."""


class ConfigError(UsageError):
    """A setting that does not exist, or a value it cannot have."""


class QueryError(UsageError):
    """A where clause or an SQL text that cannot be run."""


class QueryTimeout(QueryError):
    """A query that ran past its time limit."""

    exit_code = EXIT_FAILED


class NotFound(RearviewError, LookupError):
    """Nothing matched what was asked for."""

    exit_code = EXIT_NOTHING_MATCHED


class NoStore(NotFound):
    """There is no store here or in any folder above."""


class NoSuchRun(NotFound):
    """No run has that id, id prefix or name, or several do."""


class StoreError(RearviewError):
    """The store cannot be used."""


class Damaged(StoreError):
    """Bytes in the store are not the bytes that were written."""

    exit_code = EXIT_DAMAGED


class NewerFormat(StoreError):
    """The store was written by a later version of rearview."""


class RecordingFailed(StoreError):
    """A record could not be written; the training goes on without it."""


class CheckpointError(RearviewError):
    """A state could not be captured, kept or put back."""


class NoCheckpoint(CheckpointError, NotFound):
    """No checkpoint of that run, or none at that place."""

    exit_code = EXIT_NOTHING_MATCHED


class PlaceNotReached(CheckpointError):
    """A program that was resumed ended, by itself, before it came to the place of its checkpoint: what it did is not the run's."""


class RestoreRefused(CheckpointError):
    """The live objects cannot take the recorded state; nothing was touched. `reasons` names each thing."""

    def __init__(self, reasons: list[str]) -> None:
        super().__init__("the recorded state was not restored, nothing was touched: " + "; ".join(reasons))
        self.reasons = reasons


class RestoredOtherwise(RestoreRefused):
    """What was put back is not what was recorded: the program does not go on from it. `reasons` names each thing."""

    def __init__(self, reasons: list[str]) -> None:
        CheckpointError.__init__(
            self, "the recorded state did not come back as it was, so the program does not go on from it: " + "; ".join(reasons)
        )
        self.reasons = reasons


class VersionError(RearviewError):
    """Source could not be taken, or could not be read back."""


class MissingLibrary(RearviewError, ImportError):
    """What was asked for needs a library that is not installed."""


class Unstorable(RearviewError, TypeError):
    """A value rearview cannot keep; said once by name and type."""
