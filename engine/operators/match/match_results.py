"""Matches as results: columns with the interface of a list of results (DESIGN), and Arrow tables.

Iteration makes a dict per result; sinks read the table.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from copy import copy
from functools import lru_cache
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa

from slackwater.edge_agent.records import CLOCK
from slackwater.engine.barrier.base import ReleasedMatches
from slackwater.engine.core.clocks.epochs import (
    CLOCK_STATUS,
    MIXED,
    STAMPED_BY,
    STATUSES,
    UNKNOWN_EPOCH,
)
from slackwater.engine.core.columns import VALID_PREFIX, VARIES_PREFIX
from slackwater.engine.core.errors import ContractViolation
from slackwater.engine.core.frame import ATTR_PREFIX
from slackwater.engine.core.operator import Result, ResultColumns
from slackwater.engine.core.released import Strings
from slackwater.engine.core.timeline import UNKNOWN
from slackwater.engine.operators.match.compiler.tables import Layout
from slackwater.engine.operators.match.store import LATE, REF_END, UNC_END, Store
from slackwater.engine.output.json_lines import json_text, one_kind, woven
from slackwater.engine.output.schema import (
    EVENT_FIELDS,
    MATCH_SCHEMA,
    MATCHES,
    MORE,
    MORE_OF_CLOCKS,
    as_json,
    decoded,
    one_of,
    same_for_all,
)
from slackwater.engine.query.expression import View, computed_values, join_value, python_values
from slackwater.engine.query.fields import (
    FIELDS,
    attributes_in,
    own_attribute,
    released_columns,
    result_attributes,
    shows_everything,
)
from slackwater.engine.query.plan import APART, RESULT, Attribute, Expression, SeqPlan
from slackwater.engine.query.values import NULL, Value

_CODED = ("stream", "source", "type")
_RELEASED_COLUMNS: Final = ("branch", "plus", "at", "known_at", "confirmed", "chance")
INTERNAL = "$"
"""First character of internal attribute names; no query can contain it."""
HALF_COLUMN = ATTR_PREFIX + "$half"
START_HALF = 1
END_HALF = 2
EVENT_COLUMNS = ("stream", "source", "seq", "type", "ts", "te", "ref")
CERTAINTIES = ("uncertain", "confirmed", "unknown")
UNCERTAINTY = "unc"
"""Column: uncertainty of an event's time [ns]; hidden, but read by statements over results."""


@lru_cache(maxsize=64)
def shown_attributes(layout: Layout) -> list[tuple[str, ...] | None]:
    """Return per step the user attributes that RETURN selects; None: all of the event."""
    if all(map(shows_everything, layout.branches)):
        return [None] * len(layout.steps)
    chosen = {a for plan in layout.branches for a in plan.returns}
    return [
        tuple(sorted({n for a in chosen if a.alias == step.alias and (n := own_attribute(a.name))}))
        for step in layout.steps
    ]


@lru_cache(maxsize=64)
def _computed_columns(layout: Layout) -> set[str]:
    """Return the columns that RETURN's expressions read, without user attributes."""
    used = [a for plan in layout.branches for one in plan.computed
            for a in attributes_in(one.expression) if own_attribute(a.name) is None]  # fmt: skip
    attributes = [a for plan in layout.branches for a in result_attributes(plan.checks)]
    return released_columns(
        used + [a for a in attributes if a.alias not in APART and a.name in FIELDS]
    )


def _distinct(rows: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct rows (of ``n``), ascending, and the place of each row there; -1 stays."""
    first = int(rows.min(where=rows >= 0, initial=n))
    if rows.size * 16 < n - first:
        distinct, which = np.unique(np.append(rows, -1), return_inverse=True)
        return distinct[1:], which.reshape(-1)[:-1].reshape(rows.shape) - 1
    # Places from the first row that occurs; the last place represents -1.
    at = np.where(rows < 0, -1, rows - first)
    occurs = np.zeros(n - first + 1, np.bool_)
    occurs[at] = True
    occurs[-1] = False
    place = np.cumsum(occurs) - 1
    place[-1] = -1
    return np.flatnonzero(occurs) + first, place[at]


class Matches(ResultColumns):
    """Results of one query and site, of the kind ``matches``.

    Each event is copied from the store once.

    Args:
        released: the matches.
        store: the store of their events.
        layout: the layout of the query.
        strings: the string table of the site.
        query: name of the query.
        site: name of the site.
    """

    kind = MATCHES

    def __init__(
        self, released: ReleasedMatches, store: Store, layout: Layout, strings: Strings, query: str,
        site: str
    ) -> None:  # fmt: skip
        self.released, self.layout, self.strings = released, layout, strings
        self.query, self.site = query, site
        distinct, self.which = _distinct(released.rows, store.n)
        """``which``: (results, steps), places in ``columns``; -1: the match lacks the step."""
        self.attr_types = {n: kind for n, kind in store.attr_types.items() if n[:1] != INTERNAL}
        names = [*EVENT_COLUMNS, UNCERTAINTY, CLOCK, CLOCK_STATUS, "epoch"]
        names += [*_computed_columns(layout) - {*EVENT_COLUMNS}]
        names += [LATE] if LATE in store.columns else []
        if MIXED in store.columns:
            names += [MIXED, STAMPED_BY]  # clocks of matches that become events
        for attr in self.attr_types:
            names += [ATTR_PREFIX + attr, VALID_PREFIX + attr, VARIES_PREFIX + attr]
        columns = {n: c[distinct] for n in names if (c := store.columns.get(n)) is not None}
        columns["te"] = store.columns[REF_END][distinct] - (columns["ref"] - columns["ts"])
        columns[UNCERTAINTY] = np.maximum(columns[UNCERTAINTY], store.columns[UNC_END][distinct])
        self.columns = columns
        self.output_attributes = shown_attributes(layout)
        half = store.columns.get(HALF_COLUMN)
        self.lacks: dict[str, np.ndarray] = {}
        """Per name of a time, which events lack it: halves of intervals."""
        if half is not None:
            self.lacks["te"] = half[distinct] == START_HALF
            self.lacks["ts"] = self.lacks["ref"] = half[distinct] == END_HALF

    @classmethod
    def tables(cls, pieces: Sequence[Matches]) -> Iterator[pa.Table]:
        return map(columns_table, pieces)

    def taken(self, rows: np.ndarray, plus: np.ndarray, at: np.ndarray) -> Self:
        """Return the results ``rows``, inserted (``plus``) or retracted at instants ``at``."""
        found, of = copy(self), self.released
        found.which = self.which[rows]
        found.released = ReleasedMatches(
            of.rows[rows], of.branch[rows], plus, at, of.known_at[rows], of.confirmed[rows],
            of.chance[rows],
        )  # fmt: skip
        return found

    def kept(self, rows: np.ndarray) -> Self:
        """Return a copy of the results ``rows`` with only their events."""
        found = self.taken(rows, self.released.plus[rows], self.released.at[rows])
        distinct, found.which = _distinct(found.which, len(self.columns["ref"]))
        found.columns = {name: column[distinct] for name, column in self.columns.items()}
        found.lacks = {name: column[distinct] for name, column in self.lacks.items()}
        return found

    def codes(self) -> np.ndarray:
        """Return the codes of all texts in use."""
        texts = [ATTR_PREFIX + name for name, kind in self.attr_types.items() if kind == "str"]
        names = [name for name in (*_CODED, CLOCK, STAMPED_BY, *texts) if name in self.columns]
        return np.concatenate([self.columns[name] for name in names])

    def packed(self) -> dict[str, Any]:
        """Results as plain data, without the rows of the store, which are no longer needed."""
        columns = [getattr(self.released, name) for name in _RELEASED_COLUMNS]
        return {
            "released": columns, "which": self.which, "columns": dict(self.columns),
            "lacks": dict(self.lacks), "types": dict(self.attr_types),
        }  # fmt: skip

    @classmethod
    def unpacked(
        cls, state: dict[str, Any], layout: Layout, strings: Strings, query: str, site: str
    ) -> Self:
        """Return the results of ``packed``; the other arguments are those of the constructor."""
        found = cls.__new__(cls)
        found.layout, found.strings, found.query, found.site = layout, strings, query, site
        no_rows = np.zeros((len(state["which"]), 0), np.int64)
        found.released = ReleasedMatches(
            no_rows, **dict(zip(_RELEASED_COLUMNS, state["released"], strict=True))
        )
        found.which, found.columns = state["which"], dict(state["columns"])
        found.lacks, found.attr_types = dict(state["lacks"]), dict(state["types"])
        found.output_attributes = shown_attributes(layout)
        return found

    def __len__(self) -> int:
        return len(self.released.at)

    def __iter__(self) -> Iterator[Result]:
        if not len(self):
            return
        released, bare = self.released, self._bare_events()
        attrs = {names: self._attrs(names) for names in set(self.output_attributes)}
        steps = [(step, attrs[names]) for step, names in enumerate(self.output_attributes)]
        further = [json.loads(text or "{}") for text in self.further().to_pylist()]
        facts = zip(
            released.plus.tolist(), released.at.tolist(), released.known_at.tolist(),
            certainties_of(released).tolist(), _chances(released).to_pylist(), self.which.tolist(),
            self.values(), self.statuses().tolist(), strict=True,
        )  # fmt: skip
        for plus, at, known_at, sure, chance, events, value, status in facts:
            result = {
                "op": "+" if plus else "-",
                "query": self.query,
                "site": self.site,
                "at": at,
                "known_at": known_at,
                "certainty": CERTAINTIES[sure],
                "probability": chance,
                "events": [
                    bare[events[step]]
                    | {"attrs": dict(names[events[step]])}
                    | further[events[step]]
                    for step, names in steps
                    if events[step] >= 0
                ],
            }
            if value is not None:
                result["value"] = value
            yield result | {CLOCK_STATUS: STATUSES[status]} if status else result

    def statuses(self) -> np.ndarray:
        """Return the worst clock status of each result's events at release: place in ``STATUSES``.

        An unknown clock only counts where it is compared with another clock.
        """
        known = self.columns.get(CLOCK_STATUS)
        found = np.zeros(len(self), np.int64)
        if known is not None:
            found = np.where(self.which >= 0, known[self.which], 0).max(axis=1, initial=0)
        return np.where(self.released.chance == UNKNOWN, STATUSES.index("unknown"), found)

    def values(self) -> list[dict[str, Any] | None]:
        """Return per result the values that RETURN computes; None if it computes nothing."""
        found: list[dict[str, Any] | None] = [None] * len(self)
        for mine, columns in self.value_columns():
            values = {
                label: python_values(value, len(mine), self.strings)
                for label, value in columns.items()
            }
            for place, *of_one in zip(mine.tolist(), *values.values(), strict=True):
                found[place] = dict(zip(values, of_one, strict=True))
        return found

    def value_columns(
        self, branches: Sequence[SeqPlan] | None = None
    ) -> Iterator[tuple[np.ndarray, dict[str, Value]]]:
        """Yield per branch its results and their computed values by label.

        The values are those of ``engine.query.expression.computed_values``. Branches without
        computed values are skipped. ``branches``: the branches of the query with other expressions.
        """
        for branch, plan in enumerate(branches or self.layout.branches):
            mine = np.flatnonzero(self.released.branch == branch)
            if not plan.computed or not len(mine):
                continue
            used = [a for one in plan.computed for a in attributes_in(one.expression)]
            yield mine, computed_values(plan, self._branch_views(branch, mine, used), len(mine))

    def _branch_views(
        self, branch: int, mine: np.ndarray, used: Sequence[Attribute]
    ) -> dict[str, View]:  # fmt: skip
        """Return by alias the events of the results ``mine``, which belong to ``branch``."""
        views = {}
        steps = self.layout.branches[branch].steps
        for plan_step, step in zip(steps, self.layout.places[branch], strict=True):
            if plan_step.negated:
                views[plan_step.alias] = View({}, lambda _name: None, {}, self.strings, absent=True)
            else:
                rows = self.which[mine, step]
                read = released_columns(a for a in used if a.alias == plan_step.alias)
                columns = {name: self.columns[name][rows] for name in read & self.columns.keys()}
                views[plan_step.alias] = View.of(columns, self.attr_types, self.strings)
        return views

    def attribute_values(self, attributes: Sequence[Attribute]) -> list[Value]:
        """Return per result the values of ``attributes``; alias RESULT means its probability."""
        return [
            Value("float", self.released.chance, None)
            if attribute.alias == RESULT
            else self._value(attribute)
            for attribute in attributes
        ]

    def history_keys(self, key: Sequence[Expression]) -> pa.Array:
        """Return per result the values of ``key`` as a JSON list."""
        parts: list[str | pa.Array] = ["["]
        for expression in key:
            value = self._value(expression)
            parts += [", " if len(parts) > 1 else "", json_text(_array(value, len(self), self))]
        return woven(*parts, "]") if key else same_for_all("[]", len(self)).cast(pa.string())

    def _value(self, expression: Expression) -> Value:
        """Return the value of each result; null if its branch lacks the events."""
        found, used = NULL, list(attributes_in(expression))
        for branch, plan in enumerate(self.layout.branches):
            mine = np.flatnonzero(self.released.branch == branch)
            present = {step.alias for step in plan.steps if not step.negated}
            if not len(mine) or not {a.alias for a in used} <= present:
                continue
            value = join_value(expression, self._branch_views(branch, mine, used))
            if value.kind == "null":
                continue
            if found.kind == "null":
                data = np.zeros(len(self), np.asarray(value.data).dtype)
                found = Value(value.kind, data, np.zeros(len(self), np.bool_))
            assert found.valid is not None
            found.data[mine] = value.data
            found.valid[mine] = True if value.valid is None else value.valid
        return found

    def _bare_events(self) -> list[dict[str, Any]]:
        columns: dict[str, list[Any]] = {}
        for name in EVENT_COLUMNS:
            values: list[Any] = self.columns[name].tolist()
            if name in _CODED:
                values = [self.strings.text(code) for code in values]
            if name in self.lacks:
                missing = self.lacks[name].tolist()
                values = [None if no else v for v, no in zip(values, missing, strict=True)]
            columns[name] = [None if name == "seq" and v < 0 else v for v in values]
        return [
            {"site": self.site, **dict(zip(columns, values, strict=True))}
            for values in zip(*columns.values(), strict=True)
        ]

    def further(self) -> pa.Array:
        """Return the optional fields of each event as a JSON object.

        ``clock``: the clock that stamped it, unless it is the source's own. Rows of a SELECT also
        have ``uncertainty_ns``, null if unknown, and ``late``.
        """
        columns, text = self.columns, self.strings.text
        clock, is_source = columns[CLOCK], columns[CLOCK] == columns["source"]
        if LATE not in columns and is_source.all():
            return pa.nulls(len(is_source), pa.string())
        if LATE not in columns:
            return decoded(clock, is_source, lambda code: as_json({CLOCK: text(code)}))
        unknown = columns["epoch"] == UNKNOWN_EPOCH
        named = decoded(clock, is_source, lambda code: ", " + as_json({CLOCK: text(code)})[1:-1])
        return woven(
            '{"uncertainty_ns": ', json_text(pa.array(columns[UNCERTAINTY], mask=unknown)),
            ', "late": ', json_text(pa.array(columns[LATE].astype(np.bool_))),
            named.cast(pa.string()).fill_null(""), "}",
        )  # fmt: skip

    def _attrs(self, names: tuple[str, ...] | None) -> list[dict[str, Any]]:
        """Return the attributes of each event, without missing ones."""
        found: list[dict[str, Any]] = [{} for _ in self.columns["ref"]]
        for name in sorted(self.attr_types) if names is None else names:
            if name not in self.attr_types:
                continue
            values = self.columns[ATTR_PREFIX + name].tolist()
            valid = self.columns[VALID_PREFIX + name].tolist()
            for attrs, value, known in zip(found, values, valid, strict=True):
                if known:
                    is_text = self.attr_types[name] == "str"
                    attrs[name] = self.strings.text(value) if is_text else value
        return found


def columns_table(matches: Matches) -> pa.Table:
    """Return the results as a table; ``position`` counts from 0.

    Raises:
        ContractViolation: an attribute is NaN or infinite, which JSON cannot represent.
    """
    released = matches.released
    n = len(released.at)
    computes = any(plan.computed for plan in matches.layout.branches)
    statuses = matches.statuses()
    columns = [
        pa.array(np.arange(n)),
        one_of(("-", "+"), released.plus),
        same_for_all(matches.query, n),
        same_for_all(matches.site, n),
        pa.array(released.at),
        pa.array(released.known_at),
        one_of(CERTAINTIES, certainties_of(released)),
        _chances(released),
        _events(matches),
        _computed(matches) if computes else pa.nulls(n, pa.string()),
        one_of(MORE_OF_CLOCKS, statuses, statuses == 0).cast(pa.string()),
    ]
    return pa.table(columns, names=MATCH_SCHEMA.names)


def certainties_of(released: ReleasedMatches) -> np.ndarray:
    """Return the place of each match in ``CERTAINTIES``."""
    return np.where(released.chance == UNKNOWN, 2, released.confirmed.astype(np.int64))


def _chances(released: ReleasedMatches) -> pa.Array:
    """Return the probabilities; null if unknown."""
    unknown = np.isnan(released.chance) | (released.chance == UNKNOWN)
    return pa.array(released.chance, mask=unknown if unknown.any() else None)


def _array(value: Value, n: int, matches: Matches) -> pa.Array:
    """Return the value of ``n`` matches as an array."""
    if value.kind == "null":
        return pa.nulls(n)
    absent = None if value.valid is None else ~value.valid
    if value.kind == "str":
        none = np.zeros(n, np.bool_)
        return decoded(value.data, none if absent is None else absent, matches.strings.text)
    return pa.array(value.data, mask=absent)


def _computed(matches: Matches) -> pa.Array:
    """Return the values that RETURN computes; null for results without any."""
    rows, before = np.full(len(matches), -1), 0
    parts = []
    for mine, columns in matches.value_columns():
        n = len(mine)
        parts.append({name: _array(one, n, matches) for name, one in columns.items()})
        rows[mine] = np.arange(before, before + n)
        before += n
    if not parts:
        return pa.nulls(len(matches), pa.string())
    found = pa.concat_arrays(one_kind(parts))
    in_order = len(parts) == 1 and before == len(matches)
    return found if in_order else found.take(pa.array(rows, mask=rows < 0))


def _events(matches: Matches) -> pa.Array:
    """Return one list of structs per result, one struct per step of its match."""
    present = matches.which >= 0
    row = pa.array(matches.which[present])
    n, text = len(row), matches.strings.texts.__getitem__
    fields = {
        name: decoded(matches.columns[name], matches.columns[name] < 0, text).take(row)
        for name in ("stream", "source", "type")
    }
    fields |= {
        name: pa.array(matches.columns[name], mask=matches.lacks.get(name)).take(row)
        for name in ("ts", "te", "ref")
    }
    seq = matches.columns["seq"]
    fields["seq"] = pa.array(seq, mask=seq < 0).take(row)
    fields["site"] = same_for_all(matches.site, n)
    fields["attrs"] = _attrs(matches, present, row)
    fields[MORE] = matches.further().cast(pa.string()).take(row)
    names = [*EVENT_FIELDS, MORE]
    events = pa.StructArray.from_arrays([fields[name] for name in names], names)
    ends = np.concatenate(([0], np.cumsum(present.sum(axis=1)))).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), events)


def _attrs(matches: Matches, present: np.ndarray, row: pa.Array) -> pa.Array:
    """Return the output attributes of each event as a struct, with null for missing ones."""
    by_step = [
        matches.attr_types.keys() if names is None else names for names in matches.output_attributes
    ]
    fields = {}
    for name in sorted(set[str]().union(*by_step) & matches.attr_types.keys()):
        of_step = np.array([name in names for names in by_step])
        values = _values(matches, name)
        if of_step.all():
            fields[name] = values.take(row)
        else:
            hidden = ~np.broadcast_to(of_step, present.shape)[present]
            fields[name] = values.take(pa.array(np.asarray(row), mask=hidden))
    if not fields:
        return same_for_all("{}", len(row))
    return pa.StructArray.from_arrays(list(fields.values()), names=list(fields))


def _values(matches: Matches, name: str) -> pa.Array:
    """Return an attribute of every event; null where it is missing."""
    values = matches.columns[ATTR_PREFIX + name]
    valid = matches.columns[VALID_PREFIX + name]
    if matches.attr_types[name] == "str":
        return decoded(values, ~valid, matches.strings.texts.__getitem__)
    if values.dtype.kind == "f" and not np.isfinite(values[valid]).all():
        raise ContractViolation(f"a result holds a NaN or an infinity as {name!r}")
    return pa.array(values, mask=~valid)
