"""The table as SQL: what was logged, one column per name, outer-joined on common dimensions.

Shapes are worked from the deepest up. The rows of a shape are its names' records, the k-th call of one beside the k-th of
another. A row whose every value is already shown by the rows below it is dropped; any other row stays: nothing is lost,
nothing is multiplied. Inherited values depend on the place alone, so they are joined to places, not to rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rearview.catalog.asking.engine import fill
from rearview.catalog.tables.fields import Field
from rearview.catalog.tables.places import BEHIND, POSITION, RECORDED_POSITION, Names, Places, Shape
from rearview.catalog.tables.shapes import answers, column_order, is_above, logs_it, loop_columns
from rearview.catalog.tables.types import INT, spread

_WHOLE = "coalesce(try_cast({q}.first::HUGEINT + {it}::HUGEINT * {q}.step AS BIGINT), {it})"


_NOWHERE = (("place", "NULL::INTEGER"), ("it", "NULL::BIGINT"), ("ord", "NULL::UINTEGER"))


def listed(pairs: Iterable[tuple[str, str]]) -> str:
    """A select list."""
    return ", ".join(f"{expression} AS {column}" for column, expression in pairs)


def _among(column: str, numbers: Iterable[int]) -> str:
    return f"{column} IN ({', '.join(map(str, sorted(numbers)))})"


class Pivot:
    """One table, from the names asked for to a query over the connection.

    `query` gives run_ix, rp, pos, the place, it and ord of the record (null in a row of arguments), and every field's columns;
    `behind` too where replays have a part in it. `order` puts the rows as they happened.
    """

    def __init__(
        self,
        places: Places,
        known: Names,
        asked: Sequence[str],
        extra: Sequence[str] = (),
        only: set[int] | None = None,
        *,
        traced: bool = False,
    ) -> None:
        """With `traced`, the fields that were asked for also say where their values came from."""
        self.places = places
        self._traced = traced
        self.known = known
        self.only = only
        """Process indexes to look at; None for all."""
        wanted = [*asked, *(name for name in extra if name not in asked)]
        self.names = [self._name_field(k, name, k < len(asked)) for k, name in enumerate(wanted)]
        self.logged = [field for field in self.names if field.name in known.logged]
        found = {shape for field in self.logged for shape in known.logged[field.name]}
        self.shapes = sorted(found, key=lambda shape: (-len(shape), places.shape_rank[shape]))
        in_order = column_order(sorted(found, key=lambda shape: places.shape_rank[shape]))
        self.loops = [self._loop_field(k, name) for k, name in enumerate(in_order)]
        self._loop = {field.name: field for field in self.loops}
        self._rows: dict[Shape, str] = {}
        """Shape to a table or query of the rows that stay: place, it, pos, own columns, presence."""
        self._where: dict[Shape, str] = {}
        """Shape to a query of the places those rows are in."""
        self._rps: dict[Shape, set[int]] = {}
        self._args_made: set[str] = set()

    # Fields

    def _name_field(self, k: int, name: str, asked: bool) -> Field:
        codes: set[int] = set()
        raws = 0
        for occurrence in self.known.logged.get(name, {}).values():
            codes |= set(occurrence.counts)
            raws += occurrence.raws
        if name in self.known.args:
            for data in set(self.known.args[name].values.values()):
                code, _, _, _, raw = spread(data)
                codes.add(code)
                raws += raw is not None
        return Field(name, f"c{k}", frozenset(codes - {0}), raws > 0, asked, self._traced and asked)

    def _loop_field(self, k: int, name: str) -> Field:
        codes, raws = {INT}, 0
        called = 0
        for shape, occurrence in self.known.called.items():
            if loop_columns(shape)[-1] == name:
                codes |= set(occurrence.counts)
                raws += occurrence.raws
                called += 1
        return Field(name, f"l{k}", frozenset(codes), raws > 0)

    # Rows of one shape

    def query(self) -> str:
        """Everything as one query, unordered."""
        for shape in self.shapes:
            self._keep_rows(shape)
        selects = [self._select(shape) for shape in self.shapes]
        lonely = self._lonely_args()
        if lonely:
            selects.append(lonely)
        if not selects:
            pairs = [pair for field in (*self.loops, *self.names) for pair in field.nulls()]
            return f"SELECT {listed([('run_ix', '0'), ('rp', '0'), ('pos', '0::BIGINT'), *_NOWHERE, *pairs])} WHERE false"
        return " UNION ALL BY NAME ".join(selects)

    @property
    def order(self) -> str:
        """The ORDER BY of its rows."""
        return "rp, pos, behind NULLS FIRST" if any(self._is_replayed(shape) for shape in self.shapes) else "rp, pos"

    def _is_replayed(self, shape: Shape) -> bool:
        """Whether replays have values among the rows of a shape."""
        return any(self.known.logged[field.name][shape].replayed for field in self._own(shape))

    def _own(self, shape: Shape) -> list[Field]:
        return [field for field in self.logged if shape in self.known.logged[field.name]]

    def _source(self, fields: Sequence[Field], shape: Shape) -> str:
        """The records of some names at one shape: place, it, ord, era, seq, type, f, i, s, raw, n. Later attempts stand."""
        conditions = [f"bp.shape = {self.places.shapes[shape]}"]
        rps = set().union(*(self.known.logged[field.name][shape].rps for field in fields))
        if self.only is not None:
            conditions.append(_among("bp.rp", rps & self.only or {-1}))
        again = any(len(self.places.attempts.get(rp, ())) > 1 for rp in rps)
        again |= any(self.known.logged[field.name][shape].replayed for field in fields)
        latest = " QUALIFY lag(true) OVER (PARTITION BY place, it, ord, n ORDER BY era DESC, seq DESC) IS NULL" if again else ""
        records = self.places.records([field.name for field in fields])
        return (
            f"SELECT bp.place, r.it, r.ord, bp.era, r.seq, r.us, r.type, r.f, r.i, r.s, r.raw, r.n FROM ({records}) r JOIN bp USING (b) "
            f"WHERE {' AND '.join(conditions)}{latest}"
        )

    def _paired(self, shape: Shape) -> str:
        """The rows of a shape before any is dropped."""
        fields = self._own(shape)
        source = self._source(fields, shape)
        replayed = self._is_replayed(shape)
        if len(fields) == 1:
            pairs = [*fields[0].read(), (f"h_{fields[0].letter}", "true")]
            where = [("pos", POSITION), ("behind", BEHIND)] if replayed else [("pos", RECORDED_POSITION)]
            return f"SELECT place, it, ord, {listed([*where, *pairs])} FROM ({source})"
        first = [("pos", f"min({RECORDED_POSITION})")]
        if replayed:
            first = [(column, f"min([{POSITION}, {BEHIND}])[{k}]") for k, column in ((1, "pos"), (2, "behind"))]
        pairs = []
        for n, field in enumerate(fields):
            pairs += [(column, f"any_value({expression}) FILTER (WHERE n = {n})") for column, expression in field.read()]
            pairs.append((f"h_{field.letter}", f"bool_or(n = {n})"))
        return f"SELECT place, it, ord, {listed([*first, *pairs])} FROM ({source}) GROUP BY place, it, ord"

    def _keep_rows(self, shape: Shape) -> None:
        below = [deeper for deeper in self._rows if is_above(shape, deeper)]
        paired = self._paired(shape)
        rps = set().union(*(self.known.logged[field.name][shape].rps for field in self._own(shape)))
        if not below:
            self._rows[shape], self._rps[shape] = f"({paired})", rps
            self._where[shape] = f"SELECT DISTINCT place FROM ({self._source(self._own(shape), shape)})"
            return
        table = f"rows_{self.places.shapes[shape]}"
        conditions, joins = [], []
        for field in self._own(shape):
            shown = self._shown_below(field, shape, below)
            if shown is None:
                conditions.append(f"h_{field.letter} IS NOT TRUE")
            else:
                joins.append(f"LEFT JOIN {shown} s_{field.letter} USING (place, it)")
                conditions.append(f"(h_{field.letter} IS NOT TRUE OR s_{field.letter}.one)")
        run = self.places.connection.execute
        run(
            f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT q.* FROM ({paired}) q {' '.join(joins)} "
            f"WHERE NOT coalesce({' AND '.join(conditions)}, false)"
        )
        self._where[shape] = f"SELECT DISTINCT place FROM {table}"
        rows = run(f"SELECT DISTINCT rp FROM ({self._where[shape]}) JOIN place USING (place)").fetchall()
        self._rows[shape], self._rps[shape] = table, {rp for (rp,) in rows}

    def _shown_below(self, field: Field, shape: Shape, below: Sequence[Shape]) -> str | None:
        """A table of the (place, it) whose one value of a name is shown by rows further down; None if there are none."""
        level = len(shape)
        selects = []
        at = self.known.logged[field.name]
        for deeper in below:
            rps = answers(at, shape, deeper) & self._rps[deeper]
            if rps:
                selects.append(
                    f"SELECT a.a{level} AS place, a.i{level} AS it FROM ({self._where[deeper]}) "
                    f"JOIN ({self.ancestors(deeper)}) a USING (place) WHERE {_among('a.rp', rps)}"
                )
        if not selects:
            return None
        table = f"shown_{field.letter}_{self.places.shapes[shape]}"
        self.places.connection.execute(
            f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT DISTINCT place, it, true AS one FROM ({' UNION ALL '.join(selects)}) "
            f"JOIN ({self._single(field, shape)}) USING (place, it)"
        )
        return table

    def _single(self, field: Field, shape: Shape) -> str:
        """The iterations that have exactly one value of a name."""
        pairs = [(column, f"any_value({expression})") for column, expression in field.read()]
        return f"SELECT place, it, {listed(pairs)} FROM ({self._source([field], shape)}) GROUP BY place, it HAVING count(*) = 1"

    # Places with what they inherit

    def ancestors(self, shape: Shape) -> str:
        """place, rp, and for every level L above: a<L> the place, i<L> the iteration of it that this place is in."""
        depth = len(shape)
        pairs, joins, inner = [("place", "p.place"), ("rp", "p.rp")], [], "p"
        for level in range(depth - 1, -1, -1):
            pairs += [(f"a{level}", f"{inner}.parent_place"), (f"i{level}", f"{inner}.parent_it")]
            if level:
                joins.append(f"JOIN place q{level} ON q{level}.place = {inner}.parent_place")
                inner = f"q{level}"
        return f"SELECT {listed(pairs)} FROM place p {' '.join(joins)} WHERE p.shape = {self.places.shapes[shape]}"

    def _extended(self, shape: Shape) -> str:
        """Places of a shape with the values of the loops around them and every inherited name."""
        pairs = [("place", "a.place"), ("rp", "a.rp"), ("run_ix", "pr.run_ix")]
        joins = ["JOIN process pr ON pr.rp = a.rp"]
        columns = loop_columns(shape)
        for level in range(1, len(shape)):
            joins.append(f"JOIN place q{level} ON q{level}.place = a.a{level}")
            called = shape[:level] in self.known.called
            if called:
                joins.append(f"LEFT JOIN {self.places.called()} v{level} ON v{level}.place = a.a{level} AND v{level}.it = a.i{level}")
            pairs += self._loop_value(self._loop[columns[level - 1]], f"q{level}", f"a.i{level}", f"v{level}" if called else None)
        for field in self.names:
            pairs += self._inherited(field, shape, joins)
        return f"SELECT {listed(pairs)} FROM ({self.ancestors(shape)}) a {' '.join(joins)}"

    def _loop_value(self, field: Field, place: str, iteration: str, called: str | None) -> list[tuple[str, str]]:
        """What an iteration is called: its value where it has one, else its number."""
        number = f"CASE WHEN {place}.affine = 1 THEN {_WHOLE.format(q=place, it=iteration)} ELSE {iteration} END"
        if field.native is not None:
            return [(field.letter, f"coalesce({called}.i, {number})" if called else number)]
        if called is None:
            return [(c, str(INT) if c.endswith("t") else number if c.endswith("i") else e) for c, e in field.nulls()]
        has = f"{called}.type IS NOT NULL AND {place}.affine = 0"
        found = dict(field.read(called))
        other = {**dict(field.nulls()), f"{field.letter}t": str(INT), f"{field.letter}i": number}
        return [(column, f"CASE WHEN {has} THEN {found[column]} ELSE {other[column]} END") for column in found]

    def _inherited(self, field: Field, shape: Shape, joins: list[str]) -> list[tuple[str, str]]:
        """A name's value from the shapes above, or from the run's arguments; adds the joins it needs."""
        at = self.known.logged.get(field.name, {})
        aliases = []
        for upper, _ in sorted(at.items(), key=lambda item: len(item[0])):
            rps = answers(at, upper, shape) & self._rps[shape] if is_above(upper, shape) else set()
            if rps:
                alias = f"s{len(joins)}"
                level = len(upper)
                joins.append(
                    f"LEFT JOIN ({self._single(field, upper)}) {alias} ON {alias}.place = a.a{level} "
                    f"AND {alias}.it = a.i{level} AND {_among('a.rp', rps)}"
                )
                aliases.append(alias)
        if self._arg_rps(field, shape):
            alias = f"s{len(joins)}"
            hidden = logs_it(at, shape)
            unless = f" AND NOT {_among('a.rp', hidden)}" if hidden else ""
            joins.append(f"LEFT JOIN {self._arg_table(field)} {alias} ON {alias}.rp = a.rp{unless}")
            aliases.append(alias)
        pairs = []
        for column, null in field.nulls():
            pairs.append((f"x_{column}", f"coalesce({', '.join(f'{alias}.{column}' for alias in aliases)})" if aliases else null))
        return pairs

    # Arguments

    def _arg_rps(self, field: Field, shape: Shape) -> set[int]:
        """Processes in whose rows of a shape an argument shows."""
        if field.name not in self.known.args:
            return set()
        visible = self._rps[shape] - logs_it(self.known.logged.get(field.name, {}), shape)
        return visible & set(self.known.args[field.name].sources)

    def _arg_table(self, field: Field) -> str:
        """A table of what each process shows of an argument."""
        table = f"arg_{field.letter}"
        if table not in self._args_made:
            rows = []
            arg = self.known.args[field.name]
            for rp, source in arg.sources.items():
                code, number, whole, text, raw = spread(arg.values[source])
                rows.append((rp, 0, code, float(number) if number else None, int(whole) if whole else None, text, raw))
            kinds = {"rp": "INTEGER", "era": "BIGINT", "type": "UTINYINT", "f": "DOUBLE", "i": "BIGINT", "s": "VARCHAR", "raw": "BLOB"}
            fill(self.places.connection, f"{table}_", kinds, rows)
            self.places.connection.execute(f"CREATE OR REPLACE TEMP TABLE {table} AS SELECT rp, {listed(field.read())} FROM {table}_")
            self._args_made.add(table)
        return table

    def lonely(self) -> set[int]:
        """The processes that get a row for an argument that no other row shows: all that differ, else the lowest of the run."""
        apart: set[int] = set()
        agreed: set[int] = set()
        run_of = [run_ix for run_ix, _ in self.places.processes]
        for field in self.names:
            if field.name not in self.known.args:
                continue
            arg = self.known.args[field.name]
            shown = {arg.sources[rp] for shape in self.shapes for rp in self._arg_rps(field, shape)}
            kinds: dict[int, set[bytes]] = {}
            for rp, data in arg.values.items():
                kinds.setdefault(run_of[rp], set()).add(data)
            apart |= {rp for rp in arg.values if rp not in shown and len(kinds[run_of[rp]]) > 1}
            agreed |= {run_ix for run_ix, values in kinds.items() if len(values) == 1} - {run_of[rp] for rp in shown}
        alone = agreed - {run_of[rp] for rp in apart}
        lowest = {run_ix: rp for rp, run_ix in reversed(list(enumerate(run_of)))}
        return apart | {lowest[run_ix] for run_ix in alone}

    def _lonely_args(self) -> str | None:
        """A row for each argument that no other row shows."""
        lonely = self.lonely()
        if not lonely:
            return None
        pairs = [("run_ix", "r.run_ix"), ("rp", "r.rp"), ("pos", "-1::BIGINT"), *_NOWHERE]
        pairs += [pair for field in self.loops for pair in field.nulls()]
        joins = []
        for field in self.names:
            if field.name in self.known.args:
                table = self._arg_table(field)
                joins.append(f"LEFT JOIN {table} USING (rp)")
                pairs += [(column, f"{table}.{column}") for column in field.columns]
            else:
                pairs += field.nulls()
        rows = f"SELECT run_ix, rp FROM process WHERE {_among('rp', lonely)}"
        return f"SELECT {listed(pairs)} FROM ({rows}) r {' '.join(joins)}"

    # The rows that stay, complete

    def _select(self, shape: Shape) -> str:
        own = {field.letter for field in self._own(shape)}
        pairs = [("run_ix", "x.run_ix"), ("rp", "x.rp"), ("pos", "e.pos"), ("place", "e.place"), ("it", "e.it"), ("ord", "e.ord")]
        pairs += [("behind", "e.behind")] if self._is_replayed(shape) else []
        columns = loop_columns(shape)
        joins = [f"JOIN ({self._extended(shape)}) x USING (place)"]
        for field in self.loops:
            if field.name not in columns:
                pairs += field.nulls()
            elif field.name == columns[-1]:
                joins.append("JOIN place p ON p.place = e.place")
                called = shape in self.known.called
                if called:
                    joins.append(f"LEFT JOIN {self.places.called()} v ON v.place = e.place AND v.it = e.it")
                pairs += self._loop_value(field, "p", "e.it", "v" if called else None)
            else:
                pairs += [(column, f"x.{column}") for column in field.columns]
        for field in self.names:
            mine = field.letter in own
            pairs += [(c, f"coalesce(e.{c}, x.x_{c})" if mine else f"x.x_{c}") for c in field.columns]
        return f"SELECT {listed(pairs)} FROM {self._rows[shape]} e {' '.join(joins)}"
