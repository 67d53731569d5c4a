"""The one place that opens DuckDB: settings that keep queries harmless, a time limit, errors in our words.

Knows nothing of what is asked. The connection is in memory, reads only the folders it was given, and cannot be
configured any further once it is open.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rearview.errors import QueryError, QueryTimeout, StoreError

if TYPE_CHECKING:
    import duckdb

_MEMORY = "60%"


class FilesVanished(Exception):
    """A segment was merged away by another reader while we looked: list again and retry."""


def connect(folders: Sequence[Path], tmp: Path) -> duckdb.DuckDBPyConnection:
    """A connection that can read `folders` and nothing else of the file system."""
    import duckdb

    connection = duckdb.connect(
        config={
            "threads": min(8, os.cpu_count() or 1),
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "allow_community_extensions": False,
            "temp_directory": str(tmp),
        }
    )
    run = connection.execute
    run("SET python_enable_replacements = false")  # a query must not see the variables of the program that asks
    _without_progress_bar(connection)
    run(f"SET memory_limit = '{_MEMORY}'")
    run(f"SET allowed_directories = {literal([str(folder) for folder in folders])}")
    run("SET enable_external_access = false")
    run("SET lock_configuration = true")
    return connection


def scratch() -> duckdb.DuckDBPyConnection:
    """A connection of our own for making segments; never runs anything a user wrote."""
    import duckdb

    connection = duckdb.connect(
        config={"threads": min(4, os.cpu_count() or 1), "autoinstall_known_extensions": False, "autoload_known_extensions": False}
    )
    _without_progress_bar(connection)
    return connection


def _without_progress_bar(connection: duckdb.DuckDBPyConnection) -> None:
    """Turn the bar off where it is on. In a notebook without ipywidgets it is off, and cannot be touched at all."""
    row = connection.execute("SELECT current_setting('enable_progress_bar')").fetchone()
    if row and row[0]:
        connection.execute("SET enable_progress_bar = false")


def literal(value: object) -> str:
    """A value of ours as an SQL literal. What users wrote goes through the parser or a parameter instead."""
    if isinstance(value, list):
        return "[" + ", ".join(literal(item) for item in value) + "]"
    if isinstance(value, int):
        return str(int(value))
    return "'" + str(value).replace("'", "''") + "'"


def quoted(name: str) -> str:
    """A name as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


@contextmanager
def deadline(connection: duckdb.DuckDBPyConnection, seconds: float) -> Iterator[None]:
    """Interrupt whatever the connection does after so many seconds, and put DuckDB's errors into ours."""
    import duckdb

    expired = threading.Event()

    def interrupt() -> None:
        expired.set()
        connection.interrupt()

    timer = threading.Timer(seconds, interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (duckdb.InterruptException, RuntimeError) as problem:
        if expired.is_set():
            raise QueryTimeout(f"the query ran longer than {seconds:g} s and was stopped: narrow it, or raise the time limit") from None
        if isinstance(problem, duckdb.InterruptException):
            raise KeyboardInterrupt from None
        raise
    except duckdb.IOException as problem:
        raise FilesVanished(str(problem)) from problem
    finally:
        timer.cancel()
        timer.join()  # a thread that outlives the interpreter takes the connection, and the process, down with it


@contextmanager
def in_our_words(what: str) -> Iterator[None]:
    """Whatever DuckDB or the disk says that nobody expected leaves as an error of ours."""
    try:
        yield
    except FileNotFoundError:
        raise  # somebody removed it meanwhile: the caller looks again
    except OSError as problem:
        raise StoreError(f"{what} cannot be read: {problem.strerror}; see to the disk and its permissions, then ask again") from problem
    except Exception as problem:
        import duckdb

        if not isinstance(problem, duckdb.Error):
            raise
        text = str(problem).split("\n\nLINE ")[0].strip()
        raise StoreError(f"{what} cannot be queried: {text}; `rearview check` looks for what is wrong") from problem


def user_error(problem: Exception, what: str) -> QueryError:
    """DuckDB's complaint about something the user wrote, as ours."""
    text = str(problem).split("\n\nLINE ")[0].strip()
    text = re.sub(r"^[A-Z][A-Za-z ]* Error: ", "", text)  # which part of DuckDB complains is nothing to the user
    return QueryError(f"{what} cannot be run: {text}")


def fill(connection: duckdb.DuckDBPyConnection, table: str, columns: dict[str, str], rows: Sequence[Sequence[Any]]) -> None:
    """Make a temporary table of Python rows. `columns` is name to SQL type."""
    if not rows:
        listed = ", ".join(f"NULL::{kind} AS {name}" for name, kind in columns.items())
        connection.execute(f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT {listed} WHERE false")
        return
    lists = [list(column) for column in zip(*rows, strict=True)]
    listed = ", ".join(f"unnest(${k}::{kind}[]) AS {name}" for k, (name, kind) in enumerate(columns.items(), 1))
    connection.execute(f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT {listed}", lists)
