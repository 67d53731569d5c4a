"""What a person names where a run or a version may stand: `last`, a run's id or name, `v12ab34`.

A version id is `v` and at least four hexadecimal digits. A run may have such a name: then the run is meant, and that is said; a whole
version id is always the version. Must not know what is done with either.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rearview.cli.shown import screen, text
from rearview.errors import NoSuchRun, NotFound
from rearview.model import VersionId

if TYPE_CHECKING:
    from rearview.catalog.catalog import Catalog
    from rearview.catalog.runs import RunInfo

LEAST_DIGITS = 4
_WHOLE = 40
_VERSION = re.compile(r"v[0-9a-fA-F]+")


@dataclass(frozen=True, slots=True)
class Meant:
    """A run, or a version alone."""

    run: RunInfo | None
    version: VersionId | None
    """None: the run has none."""

    @property
    def of_run(self) -> RunInfo:
        """The run, where one was named."""
        assert self.run is not None
        return self.run


def meant(catalog: Catalog, ref: str) -> Meant:
    """The run or version of that name. Of two, the run; a line on standard error says so."""
    from rearview.versions import read

    looks = _VERSION.fullmatch(ref) is not None
    digits = len(ref) - 1
    if looks and digits == _WHOLE:
        return Meant(None, read.resolve(catalog.store, ref))
    try:
        run = catalog.run(ref)
    except NoSuchRun as problem:
        if looks and digits >= LEAST_DIGITS:
            return Meant(None, read.resolve(catalog.store, ref))
        if looks:
            said = f"no run is named {ref!r}, and a version is named by v and at least {LEAST_DIGITS} digits"
            raise NoSuchRun(f"{said}: `rearview versions` lists them") from problem
        raise
    if looks and digits >= LEAST_DIGITS:
        try:
            other = read.resolve(catalog.store, ref)
        except NotFound:
            pass  # no version begins so, or several do: the run's name is the better one
        else:
            screen.note(f"rearview: {text.escape(ref)} is the name of run {run.run}, which is taken; the version is {other}")
    return Meant(run, VersionId(run.version) if run.version else None)


def source_of(one: Meant) -> VersionId:
    """The version; of a run that has none, an error."""
    if one.version is None:
        raise NotFound(f"run {one.of_run.run} has no version: its source could not be taken when it began")
    return one.version
