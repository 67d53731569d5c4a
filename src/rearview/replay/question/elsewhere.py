"""Today's statements in the versions that runs executed: each version once, corrected by hand where somebody said so.

The cells of a notebook are one text here (`joined`), and cells again in what runs. Knows versions as text. Must not know runs, but for
the cells that one executed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from rearview.errors import NotFound, VersionError
from rearview.instrument.added import Added, Changed, added_in_project
from rearview.instrument.modules import only_definitions, reachable
from rearview.model import VersionId
from rearview.propagate.place import Refused
from rearview.propagate.project import Site
from rearview.replay.question import cells, joined, notebooks, placing
from rearview.replay.question.joined import Joined, Standing
from rearview.replay.question.placing import Settled, Wanted
from rearview.replay.question.sources import Notebook, Now, Statements, decoded, encoded, python_of, since

Sites = tuple[Site, ...]


@dataclass(frozen=True, slots=True)
class Unasked:
    """No statement logs the names: nothing is asked of the run."""

    why: str


@dataclass(frozen=True, slots=True)
class _Then:
    """A recorded version: its files, and what its program begins with."""

    version: VersionId
    data: Mapping[str, bytes]
    texts: dict[str, str]
    """With the cells of a notebook as one."""
    now: dict[str, str]
    """The source as it is now, the same way."""
    entry: str | None
    cells: _Cells | None = None


@dataclass(frozen=True, slots=True)
class _Cells:
    """What a run of a notebook executed."""

    executed: dict[int, str]
    standing: Standing
    text: Joined
    first: int
    """The first cell whose statements log into the run."""

    def redefined(self, before: int, number: int) -> bool:
        """Whether an execution of a cell only defined what a later one defined anew, and nothing in between asked for it."""
        if only_definitions(self.executed[before]) is not None:
            return False
        names = joined.defined(self.executed[before])
        between = [text for one, text in self.executed.items() if before < one < number]
        return names <= joined.defined(self.executed[number]) and not names & joined.mentioned(between)


@dataclass(slots=True)
class Elsewhere:
    """Places the statements of the source as it is now."""

    now: Now
    _known: dict[tuple[VersionId, tuple[str, ...], str | None, Notebook | None], tuple[Statements, Sites] | Refused | Unasked] = field(
        default_factory=dict
    )
    _wanted: dict[tuple[int, tuple[str, ...]], list[Wanted]] = field(default_factory=dict)
    _texts: dict[str, dict[str, str]] = field(default_factory=dict)

    def placed_in(
        self, changed: Changed, version: VersionId, names: tuple[str, ...], entry: str | None, notebook: Notebook | None = None
    ) -> tuple[Statements, Sites] | Refused | Unasked:
        """The statements that log some names placed into another version, and where they went. Done once for each version.

        `changed`: in what today's source is another one.
        """
        key = version, names, entry, notebook
        if key not in self._known:
            self._known[key] = self._place_in(changed, version, names, entry, notebook)
        return self._known[key]

    def _place_in(
        self, changed: Changed, version: VersionId, names: tuple[str, ...], entry: str | None, notebook: Notebook | None
    ) -> tuple[Statements, Sites] | Refused | Unasked:
        then = self._then(version, entry, notebook)
        if isinstance(then, Refused):
            return then
        asked = self._asked(then, names)
        if isinstance(asked, Unasked):
            return asked
        if not asked:
            where = "the source as it is now" if notebook is None else "the notebook as it was saved last"
            return Unasked(f"no statement of {where} logs {', '.join(names)}")
        spoiled = [why for one in asked for name in one.names if (why := (changed.spoiled or {}).get(name))]
        if spoiled and version not in self.now.corrected:
            return Refused(spoiled[0])
        found = self._settled(then, asked)
        if isinstance(found, Refused):
            return found
        if then.cells is not None:
            return self._in_cells(then, then.cells, asked, found)
        return self._statements(then, found.added), found.spread.sites

    @staticmethod
    def _statements(then: _Then, added: Added) -> Statements:
        like = {path: one for path, one in then.data.items() if cells.number_of(path) is None}  # cells say nothing of an encoding
        files = {path: encoded(text, like.get(path, b"")) for path, text in (added.files or {}).items()}
        return Statements(then.version, added, files, {path: one for path, one in then.data.items() if path not in files})

    def _then(self, version: VersionId, entry: str | None, notebook: Notebook | None) -> _Then | Refused:
        try:
            data = python_of(self.now.store, version)
            then = _Then(version, data, {path: decoded(one) for path, one in data.items()}, self.now.texts(), entry)
            return then if notebook is None else self._with_cells(then, notebook)
        except (NotFound, VersionError) as problem:
            return Refused(f"its source cannot be read: {problem}")

    def _with_cells(self, then: _Then, notebook: Notebook) -> _Then:
        """With the executed cells, and with those of the notebook as it is now."""
        raw = notebooks.executed(self.now.store, notebook.run, then.version)
        executed = {number: cells.as_python(text) for number, text in raw.items()}
        today = self.now.cells_of(notebook, executed)
        standing = joined.standing(executed, today)
        text = joined.join(standing.last)
        known = _Cells(executed, standing, text, notebooks.first_of(self.now.store, notebook.run))
        current = joined.join(dict(enumerate(today, 1))).text if today else text.text
        if current not in self._texts:
            self._texts[current] = {**self.now.texts(), joined.PATH: current}
        data = {**then.data, **{path: one.encode("utf-8", "surrogateescape") for path, one in notebooks.files_of(executed).items()}}
        return replace(
            then, data=data, texts={**then.texts, joined.PATH: text.text}, now=self._texts[current], entry=joined.PATH, cells=known
        )

    def _asked(self, then: _Then, names: tuple[str, ...]) -> list[Wanted] | Unasked:
        """The statements that log the names: of the program that the run is one of, if it logs them; else of the one file that does."""
        key = id(then.now), names
        if key not in self._wanted:
            self._wanted[key] = placing.wanted(then.now, names)
        every = self._wanted[key]
        files = sorted({one.statement.file for one in every})
        if then.entry is None or len(files) <= 1:
            return every
        reached = reachable(then.now, then.entry)
        own = [one for one in every if one.statement.file in reached]
        if own:
            return own
        what = f"what logs {', '.join(names)} is in {' and in '.join(files[:4])}"
        return Unasked(f"{what}: the program of the run, which began with {then.entry}, is none of them by now")

    # -- by hand --------------------------------------------------------------------------------------------------------------

    def _settled(self, then: _Then, asked: list[Wanted]) -> Settled | Refused:
        """By hand where somebody said so; as in a version that somebody corrected, where the own way is not certain."""
        said = self.now.corrected.get(then.version)
        if said is not None:
            place = _place(then, str(said[0]), int(said[1]))
            return place if isinstance(place, Refused) else placing.settle(asked, then.now, then.texts, then.entry, place)
        own = placing.settle(asked, then.now, then.texts, then.entry)
        if isinstance(own, Settled) and own.spread.certain:
            return own
        every = (self._as_in(VersionId(like), asked, then) for like in self.now.corrected)
        alike = [one for one in every if isinstance(one, Settled)]
        doubtful = alike[0] if alike and isinstance(own, Refused) else own
        return next((one for one in alike if one.spread.certain), doubtful)

    def _as_in(self, like: VersionId, asked: list[Wanted], then: _Then) -> Settled | Refused:
        """Placed as somebody placed them in another version."""
        names = tuple(name for one in asked for name in one.names if name is not None)
        entry = then.entry if then.cells is None else None
        other = self._then(like, entry, None)
        if isinstance(other, Refused):
            return other
        if then.cells is not None:
            other = self._only_cells(other, then)
        corrected = self._settled(other, asked)
        if isinstance(corrected, Refused):
            return corrected
        texts = {**other.texts, **corrected.spread.files}
        return placing.settle(placing.wanted(texts, names), texts, then.texts, then.entry)

    def _only_cells(self, other: _Then, then: _Then) -> _Then:
        """A version of a notebook, whoever executed it."""
        executed = {number: cells.as_python(text) for number, text in notebooks.in_version(self.now.store, other.version).items()}
        standing = joined.standing(executed, [])
        text = joined.join(standing.last)
        known = _Cells(executed, standing, text, 0)
        return replace(other, texts={**other.texts, joined.PATH: text.text}, now=then.now, entry=joined.PATH, cells=known)

    # -- cells ----------------------------------------------------------------------------------------------------------------

    def _in_cells(self, then: _Then, known: _Cells, asked: list[Wanted], found: Settled) -> tuple[Statements, Sites] | Refused:
        """What was placed into the text of all cells, as cells."""
        text = found.spread.files.get(joined.PATH, known.text.text)
        changed = {number: one for number, one in known.text.split(text).items() if one != known.standing.last[number]}
        doubts: list[str] = []
        for number, one in list(changed.items()):
            for before, earlier in known.standing.before[number].items():
                if earlier == known.standing.last[number]:
                    changed[before] = one
                elif before >= known.first and not known.redefined(before, number) and then.version not in self.now.corrected:
                    again = self._in_earlier(then, known, asked, number, before)
                    if isinstance(again, Refused):
                        return again
                    changed[before], doubt = again
                    doubts += doubt
        current = {path: one for path, one in found.spread.files.items() if path != joined.PATH} | notebooks.files_of(changed)
        recorded = {path: one for path, one in then.texts.items() if path != joined.PATH} | notebooks.files_of(known.executed)
        added = added_in_project(recorded, {**recorded, **current})
        if isinstance(added, Changed):
            return Refused(f"it cannot be told apart from what ran there: {added}")
        statements = since(self._statements(then, added), known.first)
        if added.logs and not statements.added.logs:
            return Refused(f"it belongs into cell [{cells.number_of(added.logs[0].file)}], which was executed before the run began")
        sites = [joined.site_in_cell(site, known.text, text) for site in found.spread.sites]
        if doubts:
            sites = [replace(one, certain=False, why="; ".join(doubts)) if cells.number_of(one.file) in changed else one for one in sites]
        return statements, tuple(sites)

    @staticmethod
    def _in_earlier(then: _Then, known: _Cells, asked: list[Wanted], number: int, before: int) -> tuple[str, list[str]] | Refused:
        """A cell as it was when it was executed before, and edited since, with the statements in it; and what is doubtful about it."""
        earlier = known.standing.before[number][before]
        text = joined.join({one: earlier if one == number else its for one, its in known.standing.last.items()})
        found = placing.settle(asked, then.now, {**then.texts, joined.PATH: text.text}, then.entry)
        where = f"cell [{before}], which was executed once more as [{number}]"
        if isinstance(found, Refused) or number not in text.keys:
            return Refused(f"{where}: {found.why if isinstance(found, Refused) else 'it cannot be read as Python'}")
        doubts = [] if found.spread.certain else [f"{where}: its place there is not certain"]
        return text.split(found.spread.files.get(joined.PATH, text.text))[number], doubts


def _place(then: _Then, file: str, line: int) -> tuple[str, int] | Refused:
    """A place that somebody gave, in the text of all cells if it is in one."""
    number = cells.number_of(file)
    if then.cells is None or number is None:
        return file, line
    standing = then.cells.standing
    last = next((one for one, before in standing.before.items() if number in before), number)
    if last != number and standing.last[last] != standing.before[last][number]:
        return Refused(f"cell [{number}] was edited and executed once more as [{last}]: give a line of that")
    at = then.cells.text.line(last, line)
    return (joined.PATH, at) if at is not None else Refused(f"there is no line {line} in cell [{number}] of this version")
