"""Bounds of spilling for a query: the look-back of events, and the keys that partition it."""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from slackwater.engine.core.errors import UserError
from slackwater.engine.core.released import Released, Strings
from slackwater.engine.core.units import parse_span
from slackwater.engine.kernels.tables import MULTIPLIER
from slackwater.engine.operators.match.compiler.tables import Layout, layout_of, relations_in
from slackwater.engine.operators.match.repetition.compiler import repeat_layout
from slackwater.engine.operators.match.store import comparable
from slackwater.engine.query.expression import View, column
from slackwater.engine.query.fields import released_columns
from slackwater.engine.query.pattern_settings import PurgeSettings
from slackwater.engine.query.plan import Attribute, Plan, SeqPlan
from slackwater.engine.query.repeat_plan import as_repetition
from slackwater.engine.query.shape import of_intervals, of_rows, of_trees

# Settings of spilling, and their short form
# ``FOLDER[,hot=..,chunk=..,parts=..,pending=..,wait=..]``; ``state`` instead of a folder means the
# state store of Spark.


_EXAMPLE: Final = "as in --spill /var/tmp/chunks,hot=10min,chunk=1min,pending=64,wait=10s"
STATE: Final = "state"
_DURATIONS: Final = {"hot": "hot_ns", "chunk": "chunk_ns", "wait": "wait_ns"}
_NUMBERS: Final = {"pending": ("of events", 10**9), "parts": ("of parts", 4096)}


@dataclass(frozen=True, slots=True)
class SpillSettings:
    """Settings of spilling; None: the default for the query (``spill_bounds``).

    ``folder``: folder of the chunks; None: the host's place, or memory. ``hot_ns``: how long events
    behind progress stay in memory. ``chunk_ns``: span of a chunk. Chunks are loaded when
    ``pending`` late events of one chunk wait, or the oldest one has waited ``wait_ns`` on the
    arrival clock (L09 VIII's activation thresholds). They are loaded in ``parts`` by key.
    """

    folder: Path | None = None
    hot_ns: int | None = None
    chunk_ns: int | None = None
    pending: int | None = None
    wait_ns: int | None = None
    parts: int | None = None


def parse_spill(text: str, time_unit: str = "ns") -> SpillSettings:
    """Parse settings from their short form.

    >>> parse_spill("/tmp/chunks,hot=1s,pending=5").hot_ns
    1000000000

    Args:
        text: a folder and, after commas, settings.
        time_unit: unit of durations written without one.

    Raises:
        UserError: no folder, an unknown or repeated setting, or a bad value.
    """
    folder, *settings = (part.strip() for part in text.split(","))
    if not folder or "=" in folder:
        raise UserError(f"spill {text[:40]!r}: name the folder of the chunks first, {_EXAMPLE}")
    found: dict[str, int] = {}
    for setting in settings:
        name, equals, value = (part.strip() for part in setting.partition("="))
        if not equals or name not in (*_DURATIONS, *_NUMBERS):
            raise UserError(f"spill setting {setting[:40]!r} is unknown; write {_EXAMPLE}")
        field = _DURATIONS.get(name, name)
        if field in found:
            raise UserError(f"spill: {name} is given twice")
        found[field] = _value(name, value, time_unit)
    return SpillSettings(None if folder == STATE else Path(folder), **found)


def _value(name: str, value: str, time_unit: str) -> int:
    if name in _NUMBERS:
        what, most = _NUMBERS[name]
        if not (value.isascii() and value.isdecimal() and 0 < int(value) <= most):
            raise UserError(f"spill: {name}={value[:20]} is no number {what} from 1 to {most}")
        return int(value)
    try:
        span = parse_span(value, time_unit, "a duration")
    except UserError as error:
        raise UserError(f"spill: {name}={value[:20]}: {error}") from error
    if span < 1 and name != "wait":
        raise UserError(f"spill: {name}={value[:20]}: must be longer than 0")
    return span


# Queries whose matches have one key each, and the keys of events as hashes.
#
# If equalities join all steps of every branch, events of different keys are never in one match, and
# a negated event only affects matches of its key. So the events of some keys can be matched alone
# (Grace hash join).


KEY: Final = "key"
"""The column of a store with the hashes of its events' keys, from 0 on."""
_KEYS: Final = 8
"""The most keys of a branch that are searched."""
_HALF: Final = np.uint64(32)
_POSITIVE: Final = np.uint64(2**63 - 1)
_TABLE: Final = 1 << 20


def keys_of(layout: Layout) -> list[dict[str, str]]:
    """Return the keys that all events of a match share: per key the attribute by event type.

    >>> from slackwater.engine.operators.match.compiler.tables import layout_of
    >>> from slackwater.engine.query import query
    >>> keys_of(layout_of(query("EVENT SEQ(A a, !C c, B b) WHERE a.x = b.y AND c.x = a.x")))
    [{'A': 'x', 'B': 'y', 'C': 'x'}]
    >>> keys_of(layout_of(query("EVENT SEQ(A a, A b) WHERE a.x = b.y")))
    []
    """
    first, *others = layout.branches
    found = _keys_of_branch(first)
    for branch in others:
        both = [
            one | other
            for one in found
            for other in _keys_of_branch(branch)
            if all(one[kind] == other[kind] for kind in one.keys() & other.keys())
        ]
        found = both[:_KEYS]
    return found


def _keys_of_branch(plan: SeqPlan) -> list[dict[str, str]]:
    type_of = {step.alias: step.type for step in plan.steps}
    found = []
    for group in plan.equalities:
        named = {(type_of[a.alias], a.name) for a in group if a.alias is not None}
        # An event that can be two steps must have the same key as both.
        if len({a.alias for a in group}) == len(type_of) and len(dict(named)) == len(named):
            found.append(dict(sorted(named)))
    return found


class Keys:
    """Computes the keys of events.

    Args:
        layout: of a query with keys (``keys_of``).
    """

    def __init__(self, layout: Layout) -> None:
        self._keys = keys_of(layout)
        self._hashes = np.empty(0, np.int64)
        """The hash of each text by code, as codes depend on other texts."""

    def of(self, released: Released, rows: np.ndarray) -> np.ndarray:
        """Return int64 per row of ``rows``: a hash of its key."""
        strings, types = released.strings, released.columns["type"][rows]
        self._learn(strings)
        found = np.zeros(len(rows), np.uint64)
        for key in self._keys:
            for kind, name in key.items():
                mine = np.flatnonzero(types == strings.find(kind))
                if len(mine):
                    value = self._value(released, rows[mine], name).view(np.uint64)
                    mixed = (found[mine] ^ value) * MULTIPLIER
                    found[mine] = mixed ^ (mixed >> _HALF)
        return (found & _POSITIVE).view(np.int64)

    def _value(self, released: Released, rows: np.ndarray, name: str) -> np.ndarray:
        """Return int64, equal for equal values; 0 for null."""
        names = released_columns([Attribute(name)])
        columns = {n: released.columns[n][rows] for n in names if n in released.columns}
        value = column(name, View.of(columns, released.attr_types, released.strings))
        if value.kind == "null":
            return np.zeros(len(rows), np.int64)
        same, tag = comparable(value)
        there = tag != 0 if value.valid is None else value.valid & (tag != 0)
        if value.kind == "str":
            same = self._hashes[np.where(there, same, 0)]
        return np.where(there, same, 0)

    def _learn(self, strings: Strings) -> None:
        known = len(self._hashes)
        if known < len(strings.texts):
            new = [zlib.crc32(text.encode()) for text in strings.texts[known:]]
            self._hashes = np.append(self._hashes, np.array(new, np.int64))


class KeyFilter:
    """A set of keys with false positives, but no false negatives.

    Args:
        keys: hashes; None: all keys.
    """

    def __init__(self, keys: np.ndarray | None) -> None:
        self._table: np.ndarray | None = None
        if keys is not None:
            self._table = np.zeros(_TABLE, np.bool_)
            self._table[_place(keys)] = True

    def among(self, columns: dict[str, np.ndarray], n: int) -> np.ndarray:
        """Return whether each of the first ``n`` events may have one of the keys."""
        if self._table is None or not n:
            return np.ones(n, np.bool_)
        return np.asarray(self._table[_place(columns[KEY][:n])])


def _place(keys: np.ndarray) -> np.ndarray:
    """Return the place of each key in the filter, by other bits than the part."""
    return (keys >> 32) % _TABLE


# Bounds of spilling for a query: the look-back of events, and defaults of settings.


_PENDING: Final = 64
_WAIT_NS: Final = 10 * 10**9
_PENDING_ALL: Final = 1 << 16
"""If every event waits, a turn loads all of WITHIN, so more events are awaited."""
_PARTS: Final = 4
"""The default maximum: each chunk has this many files."""


@dataclass(frozen=True, slots=True)
class SpillBounds:
    """``SpillSettings`` with all values.

    ``windows``: see ``windows_of``. ``together_ns``: the span of late events with one turn: a
    chunk, or WITHIN if every event waits, as each turn then loads about the same.
    """

    folder: Path | None
    within_ns: int
    hot_ns: int
    chunk_ns: int
    pending: int
    wait_ns: int
    parts: int
    windows: int
    together_ns: int


def spill_bounds(plan: Plan, spill: SpillSettings) -> SpillBounds:
    """Return the settings for a query, with defaults filled in.

    Raises:
        UserError: the query has no WITHIN; or it has parts but its events no key; or one of its
            matches may replace another.
    """
    repeated = as_repetition(plan)
    layout = layout_of(plan) if repeated is None else repeat_layout(repeated).layout
    if repeated is not None and repeated.chooses:
        raise UserError(
            f"query {plan.name!r}: SKIP and LIMIT choose among matches by all events before; leave "
            "them or --spill out"
        )
    within_ns = layout.branches[0].within_ns
    if within_ns is None:
        raise UserError(f"query {plan.name!r}: spill needs WITHIN, which says what is loaded again")
    keys = bool(keys_of(layout))
    if not keys and (spill.parts or 1) > 1:
        raise UserError(
            f"query {plan.name!r}: spill: parts={spill.parts} needs one key that all its events "
            "share; join every step by = in WHERE, with one attribute per type, or leave parts out"
        )
    windows = windows_of(plan, layout)
    looks_back = windows * within_ns
    if of_trees(plan) or of_intervals(plan):
        looks_back += within_ns  # an interval arrives at its end, and may have begun long before
    hot_ns = looks_back + looks_back // 4 if spill.hot_ns is None else spill.hot_ns
    chunk_ns, pending, wait_ns, parts = within_ns // 4, _PENDING, _WAIT_NS, 1
    if hot_ns < looks_back:
        chunk_ns, pending, wait_ns = min(chunk_ns, hot_ns), _PENDING_ALL, hot_ns
        parts = min(-(-looks_back // hot_ns), _PARTS) if keys else 1
    chunk_ns = max(chunk_ns, 1) if spill.chunk_ns is None else spill.chunk_ns
    return SpillBounds(
        spill.folder, within_ns, hot_ns, chunk_ns,
        pending if spill.pending is None else spill.pending,
        wait_ns if spill.wait_ns is None else spill.wait_ns,
        parts if spill.parts is None else spill.parts, windows,
        chunk_ns if hot_ns >= looks_back else max(chunk_ns, within_ns),
    )  # fmt: skip


def windows_of(plan: Plan, layout: Layout) -> int:
    """Return the largest distance, in WITHIN, between events that are relevant to one match.

    It is two if steps are negated at both ends, or if the interval of a half may have begun that
    long before.
    """
    if of_trees(plan):
        return 2
    repeated = as_repetition(plan)
    if repeated is not None:
        leading, trailing = repeat_layout(repeated).setting[["leading", "trailing"]][0].tolist()
        return 2 if leading and trailing else 1
    at_ends: set[str] = set()
    for number, step in enumerate(layout.tables.scopes["step"].tolist()):
        ends = relations_in(layout.tables, number)
        at_ends |= {
            side for side in ("left", "right") if (ends["strict"] == 0)[ends[side] == step].any()
        }
    return 2 if len(at_ends) == 2 else 1


def read_spill(
    text: str | None, time_unit: str, plans: Iterable[Plan], purge: PurgeSettings, *, on_spark: bool
) -> SpillSettings | None:
    """Return the settings of ``--spill``; None: there are none.

    Raises:
        UserError: a folder on Spark, no folder elsewhere, or one that is not empty; the query
            cannot spill with these settings; or see ``parse_spill``.
    """
    if text is None:
        return None
    spill = parse_spill(text, time_unit)
    if purge.name != "late":
        raise UserError("--spill goes with --purge late[:D] alone; leave out the other")
    if on_spark and spill.folder is not None:
        raise UserError(
            f"{spill.folder}: on Spark the chunks are in its state store; write --spill state, "
            "or leave out --spark"
        )
    if not on_spark and spill.folder is None:
        raise UserError("--spill state is Spark's; name a folder, or add --spark")
    if spill.folder is not None and spill.folder.is_file():
        raise UserError(f"{spill.folder}: is a file; give --spill a folder")
    if spill.folder is not None and any(path.is_file() for path in spill.folder.rglob("*")):
        raise UserError(f"{spill.folder}: has files in it; give --spill an empty or new folder")
    for plan in plans:
        if plan.windows or of_rows(plan):
            what = "windows" if plan.windows else "rows"
            raise UserError(f"query {plan.name}: --spill is for patterns; {what} keep no events")
        spill_bounds(plan, spill)
    return spill
