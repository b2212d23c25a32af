"""The store of events that may still be part of a match: columns, one copy for all steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from slackwater.edge_agent.records import UNC_MAX_NS
from slackwater.engine.barrier.base import ORDER
from slackwater.engine.core.clocks.epochs import epochs_of
from slackwater.engine.core.columns import VALID_PREFIX, VARIES_PREFIX
from slackwater.engine.core.errors import ContractViolation
from slackwater.engine.core.frame import ATTR_PREFIX
from slackwater.engine.core.released import NO_EPOCH, Refuted, Released, Strings
from slackwater.engine.core.timeline import CHANCE, EPOCH_START, LONG_AGO, UNC_START
from slackwater.engine.kernels.jit import kernel
from slackwater.engine.kernels.records import FAR, copy_of, numbers_of
from slackwater.engine.operators.match.certainty.chances import EventTimes
from slackwater.engine.operators.match.compiler.records import EVENT
from slackwater.engine.operators.match.compiler.tables import Read
from slackwater.engine.operators.match.search.machine import ABSENT, FLOAT, INT, TEXT
from slackwater.engine.query.expression import View, view_value
from slackwater.engine.query.fields import attributes_in, own_attribute, released_columns
from slackwater.engine.query.plan import Attribute
from slackwater.engine.query.values import Value

# Conversion of columns to the records that the pattern kernels read.
#
# A kernel does this in one pass over the memory; NumPy needs one pass per field.


@kernel
def put(
    events: np.ndarray, ref: np.ndarray, ref_end: np.ndarray, unc: np.ndarray, epoch: np.ndarray,
    unc_end: np.ndarray, epoch_end: np.ndarray,
    order: np.ndarray, expires: np.ndarray, member: np.ndarray, horizon: np.ndarray,
    t_a: np.ndarray, clock: np.ndarray, doubted: np.ndarray,
) -> None:  # fmt: skip
    """Write columns to ``events`` (EVENT) of the same length.

    The columns are int64, except ``clock`` and ``doubted`` (int32).
    """
    for i in range(len(events)):
        event = events[i]
        event.ref, event.ref_end, event.unc = ref[i], ref_end[i], unc[i]
        event.unc_end, event.epoch_end = unc_end[i], epoch_end[i]
        event.epoch, event.order, event.expires = epoch[i], order[i], expires[i]
        event.member, event.horizon, event.t_a = member[i], horizon[i], t_a[i]
        event.clock, event.doubted = clock[i], doubted[i]


FIELDS: Final = (
    "ref", "unc", "epoch", "ts", "te", "arrival", "release", "seq", "source", "stream", "type",
    "clock",
)  # fmt: skip
EXPIRES: Final = "expires"
"""The last horizon at which the event may still be part of a new match."""
MEMBER: Final = "member"
"""Bit k: the event satisfies the conditions on step k alone."""
HORIZON: Final = "horizon"
"""The horizon of expiry at the event: progress minus the largest clock error [ns]."""
REF_END: Final = "ref_end"
"""``te`` on the engine's clock; equals ``ref`` for a point."""
UNC_END: Final = "unc_end"
"""Uncertainty of ``REF_END`` [ns]."""
EPOCH_END: Final = "epoch_end"
"""Clock epoch of ``REF_END``."""
T_A: Final = "t_a"
"""T_a of the site at the event."""
LATE: Final = "late"
"""Rows of a SELECT: the event was released after a later one."""
DOUBTED: Final = "doubted"
"""1: the event may not have happened: its ``CHANCE`` is not 1. 2: its values may differ as well, so
the truth of a condition on it is uncertain."""

_IN_RECORD: Final = tuple(EVENT.names or ())
"""Columns that are fields of EVENT, so that the kernel reads an event from adjacent memory."""
_TE: Final = "te"
"""Not stored: it follows from ``REF_END``, ``ref`` and ``ts``."""
_LEAST: Final = 1 << 6
_MANY: Final = 1 << 12
_HUGE: Final = 1 << 18
_WHOLE: Final = 1
_BROKEN: Final = 2
_TEXT: Final = 3
"""Tags of comparable values: integers, other numbers, texts; 0: null."""
_KINDS: Final = {"int": INT, "float": FLOAT, "str": TEXT, "null": ABSENT}


def widest_unc(released: Released) -> np.ndarray:
    """Return the larger uncertainty of start and end of each event [ns]."""
    unc = released.columns["unc"]
    return np.asarray(np.maximum(unc, released.columns.get(UNC_START, unc)))


class Registers(NamedTuple):
    """Arrays (registers, events): ``raw`` and ``ok`` of conditions, ``same`` and ``tag`` of keys.

    See ``engine.operators.match.search.state.Search``.
    """

    raw: np.ndarray
    ok: np.ndarray
    same: np.ndarray
    tag: np.ndarray


class Widening(NamedTuple):
    """Per event, the additional clock error [ns], and whether its error is now independent."""

    by: np.ndarray
    apart: np.ndarray


class Store:
    """Events in columns and records; the first ``n`` places are in use.

    ``columns``: ``FIELDS`` except ``te``, the columns of the constants above, and attributes, each
    with a mask. ``events``: EVENT, read by the kernel. An integer attribute that the kernel reads
    is stored once: its column and mask are views of its register.

    Args:
        conditions: what conditions read, by register.
        keys: attributes (names of the plan) that must be equal.
    """

    def __init__(self, conditions: Sequence[Read], keys: Sequence[str]) -> None:
        self.attr_types: dict[str, str] = {}
        self.n = 0
        self._names: tuple[Sequence[Read], Sequence[str]] = (conditions, keys)
        self._own_names = [
            [own_attribute(read) if isinstance(read, str) else None for read in names]
            for names in self._names
        ]
        self._shared: set[str] = set()
        """User attributes whose columns are views."""
        self._kinds = [np.full(len(names), ABSENT, np.int8) for names in self._names]
        self.kinds = self._kinds[0]
        """The current kinds of the registers of conditions; a kind may widen from int to float."""
        self._make(0, {})

    def _make(self, room: int, like: dict[str, np.ndarray]) -> None:
        """Make empty arrays of length ``room``, with the columns and types of ``like``."""
        self._room = room
        self.events = np.zeros(room, EVENT)
        for_conditions, for_keys = ((len(names), room) for names in self._names)
        self.registers = Registers(
            np.zeros(for_conditions, np.int64), np.zeros(for_conditions, np.bool_),
            np.zeros(for_keys, np.int64), np.zeros(for_keys, np.int8),
        )  # fmt: skip
        views = {name: view for attr in self._shared for name, view in self._views(attr).items()}
        self.columns = {
            name: np.zeros(room, known.dtype) for name, known in like.items()
            if name not in _IN_RECORD and name not in views
        }  # fmt: skip
        self.columns |= views | {name: self.events[name] for name in _IN_RECORD}

    def _views(self, attr: str) -> dict[str, np.ndarray]:
        """Return the register of an integer attribute as its column and mask.

        The result is empty if the kernel does not read the attribute.
        """
        conditions, keys = self._own_names
        if attr in keys:
            number = keys.index(attr)
            value, known = self.registers.same[number], self.registers.tag[number].view(np.bool_)
        elif attr in conditions:
            number = conditions.index(attr)
            value, known = self.registers.raw[number], self.registers.ok[number]
        else:
            return {}
        return {ATTR_PREFIX + attr: value, VALID_PREFIX + attr: known}

    def _take_over(self, room: int, rows: np.ndarray | slice, kept: int) -> None:
        """Move the events ``rows`` to new arrays of length ``room``; ``kept``: their number."""
        old, events, registers = self.columns, self.events, self.registers
        self._make(room, old)
        numbers_of(self.events)[:kept] = numbers_of(events)[rows]
        for name, known in old.items():
            if known.base is None:  # not a view
                self.columns[name][:kept] = known[rows]
        for was, new in zip(registers, self.registers, strict=True):
            new[:, :kept] = was[:, rows]

    def append(
        self, released: Released, rows: np.ndarray, attributes: set[str] | None,
        more: dict[str, np.ndarray],
    ) -> None:  # fmt: skip
        """Add ``rows`` of a batch.

        Args:
            released: the batch.
            rows: the rows to add.
            attributes: user attributes to keep; None: all.
            more: the columns of the constants above for these rows.
        """
        n = len(rows)
        of: np.ndarray | slice = rows
        if n == released.n and bool((rows == np.arange(released.n)).all()):
            of = slice(None)  # views; ``add`` copies them
        fresh = {name: released.columns[name][of] for name in FIELDS} | more
        fresh[UNC_END], fresh[EPOCH_END] = fresh["unc"], fresh["epoch"]
        if UNC_START in released.columns:
            fresh["unc"] = released.columns[UNC_START][of]
            fresh["epoch"] = released.columns[EPOCH_START][of]
        if "site" in released.columns:
            fresh["site"] = released.columns["site"][of]
        fresh[REF_END] = fresh.pop(_TE) + (fresh["ref"] - fresh["ts"])
        for attr in released.attr_types:
            name = ATTR_PREFIX + attr
            if name not in released.columns or (attributes is not None and attr not in attributes):
                continue
            valid = released.columns.get(VALID_PREFIX + attr)
            fresh[name] = released.columns[name][of]
            fresh[VALID_PREFIX + attr] = np.ones(n, np.bool_) if valid is None else valid[of]
            if (varies := released.columns.get(VARIES_PREFIX + attr)) is not None:
                fresh[VARIES_PREFIX + attr] = varies[of]
        self.add(fresh, released.attr_types, released.strings)

    def add(self, fresh: dict[str, np.ndarray], types: dict[str, str], strings: Strings) -> None:
        """Add events as columns of equal length; ``types``: types of at least their attributes."""
        for attr, kind in types.items():
            name = ATTR_PREFIX + attr
            if name in fresh:
                self.attr_types[attr] = kind
                if kind == "float":
                    fresh[name] = fresh[name].astype(np.float64, copy=False)
                if attr in self._shared and kind not in {"int", "null"}:
                    self._part(attr)
        start, self.n = self.n, self.n + len(fresh[ORDER])
        if self.n > self._room:
            # Large arrays get much room, as untouched pages take no memory and copying takes time.
            # Small arrays share pages, and ten thousand sites have ten thousand stores.
            room = (2 if self.n < _MANY else 16 if self.n < _HUGE else 4) * self.n
            self._take_over(max(room, _LEAST), slice(start), start)
        for name, column_of in fresh.items():
            if name not in _IN_RECORD:
                self._column(name, column_of.dtype, start)[start : self.n] = column_of
        none = np.zeros(self.n - start, np.int32)
        fields = [(fresh.get(name, none), EVENT[name]) for name in _IN_RECORD]
        put(self.events[start : self.n], *(np.ascontiguousarray(*field) for field in fields))
        for name in self.columns.keys() - fresh.keys() - set(_IN_RECORD):
            self.columns[name][start : self.n] = 0
        self._fill(np.arange(start, self.n), strings)

    def taken(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        """Return copies of the columns of ``rows``, for ``add``."""
        return {name: known[: self.n][rows] for name, known in self.columns.items()}

    def part(self, rows: np.ndarray, strings: Strings) -> Store:
        """Return a new store with copies of ``rows``."""
        conditions, keys = self._names
        found = Store(conditions, keys)
        found.add(self.taken(rows), self.attr_types, strings)
        return found

    def _part(self, attr: str) -> None:
        """Give the attribute a column of its own instead of a view."""
        for name in self._views(attr):
            self.columns[name] = self.columns[name].copy()
        self._shared.remove(attr)

    def _column(self, name: str, dtype: np.dtype[Any], n: int) -> np.ndarray:
        """Return the column ``name``, created or widened if needed; ``n``: events with values."""
        known = self.columns.get(name)
        if known is None and dtype == np.int64 and name.startswith(ATTR_PREFIX):
            attr = name.removeprefix(ATTR_PREFIX)
            fits = self.attr_types.get(attr) == "int" and VALID_PREFIX + attr not in self.columns
            if fits and (views := self._views(attr)):
                self._shared.add(attr)
                self.columns |= views
                return self.columns[name]
        if known is None:
            self.columns[name] = np.zeros(self._room, dtype)
        elif known.dtype != dtype and np.promote_types(known.dtype, dtype) != known.dtype:
            wider = np.zeros(self._room, np.promote_types(known.dtype, dtype))
            wider[:n] = known[:n]
            self.columns[name] = wider
        return self.columns[name]

    def _fill(self, rows: np.ndarray, strings: Strings) -> None:
        """Fill the registers of new rows."""
        if not len(rows):
            return
        new, r = slice(int(rows[0]), self.n), self.registers
        for which, names in enumerate(self._names):
            for number, read in enumerate(names):
                node = Attribute(read) if isinstance(read, str) else read
                view = self.view(new, released_columns(attributes_in(node)), strings)
                value = view_value(node, view)
                kind, known = _KINDS[value.kind], int(self._kinds[which][number])
                if kind == ABSENT:
                    continue
                if known not in (ABSENT, kind):
                    if {known, kind} != {INT, FLOAT}:
                        raise ContractViolation(f"{read!r} is text and a number")
                    if known == INT and not which:
                        past = r.raw[number, : rows[0]]
                        past[:] = past.astype(np.float64).view(np.int64)
                    kind = FLOAT
                self._kinds[which][number] = kind
                data, valid = value.data, value.valid
                if which:
                    same, tag = comparable(value)
                    r.same[number, new] = same
                    r.tag[number, new] = tag if valid is None else np.where(valid, tag, 0)
                else:
                    as_kept = data.astype(np.float64).view(np.int64) if kind == FLOAT else data
                    r.raw[number, new] = as_kept
                    r.ok[number, new] = True if valid is None else valid

    def refuted(self, refuted: Refuted) -> Widening:
        """Return the additional uncertainty of each event after a refutation of clock bounds."""
        by, apart = np.zeros(self.n, np.int64), np.zeros(self.n, np.bool_)
        if not self.n:
            return Widening(by, apart)
        events, ts = self.events[: self.n], self.columns["ts"][: self.n]
        epochs = epochs_of(events["epoch"]), epochs_of(events[EPOCH_END])
        te = ts + (events["ref_end"] - events["ref"])
        columns = (refuted.clock, refuted.epoch, refuted.by, refuted.first, refuted.last)
        for clock, number, more, first, last in zip(*map(np.ndarray.tolist, columns), strict=True):
            mine = (events["clock"] == clock) & (te >= first) & (ts <= last)
            if number == NO_EPOCH:
                apart |= mine
            else:
                # An event near a clock step has NO_EPOCH and may belong to this epoch.
                its = [(epoch == number) | (epoch == NO_EPOCH) for epoch in epochs]
                mine &= its[0] | its[1]
            by[mine] += more
        return Widening(np.minimum(by, UNC_MAX_NS), apart)

    def expire(self, horizon: int) -> None:
        """Make events that expired before ``horizon`` no step, even if their errors grow later."""
        events = self.events[: self.n]
        gone = events["expires"] < horizon
        events["expires"][gone], events["member"][gone] = LONG_AGO, 0

    def widen(self, doubts: Widening) -> None:
        """Increase the uncertainty of events."""
        events, by = self.events[: self.n], doubts.by
        for unc, epoch in (("unc", "epoch"), (UNC_END, EPOCH_END)):
            events[unc][:] = np.minimum(events[unc] + by, UNC_MAX_NS)
            events[epoch][doubts.apart] = NO_EPOCH
        # Equal uncertainties of the two ends would mean a shared error; make them differ.
        alike = doubts.apart & (events["ref"] != events["ref_end"])
        alike &= events["unc"] == events[UNC_END]
        events["unc"][alike] += np.where(events["unc"][alike] < UNC_MAX_NS, 1, -1)
        lasts = (events["expires"] > LONG_AGO) & (events["expires"] < FAR)
        events["expires"][lasts] += by[lasts]

    def keep(self, mask: np.ndarray) -> np.ndarray:
        """Drop every event except those in ``mask``.

        Returns:
            The new place of each event, or -1.
        """
        rows = np.flatnonzero(mask)
        number = np.full(self.n, -1)
        number[rows] = np.arange(len(rows))
        self.n = len(rows)
        self._take_over(max(2 * self.n, _LEAST), rows, self.n)
        return number

    def clock(self, rows: np.ndarray) -> EventTimes:
        """Return the times of ``rows`` with their uncertainties, epochs and clocks."""
        c = self.columns
        start = c["ref"], c["unc"], c["epoch"], c["clock"]
        return EventTimes(*start, c[REF_END], c[UNC_END], c[EPOCH_END]).take(rows)

    def chances(self, rows: np.ndarray) -> np.ndarray:
        """Return the probability that the events happened (``CHANCE``); 1 at the place -1."""
        known = self.columns.get(CHANCE)
        found = np.ones(rows.shape)
        return found if known is None else np.where(rows >= 0, known[rows], found)

    def view(self, rows: np.ndarray | slice, names: set[str], strings: Strings) -> View:
        """Return a view of the columns ``names`` of ``rows`` for predicates, including ``te``."""
        c = self.columns
        found = {name: c[name][rows] for name in names if name in c}
        if _TE in names:
            found[_TE] = c[REF_END][rows] - (c["ref"][rows] - c["ts"][rows])
        return View.of(found, self.attr_types, strings)

    def codes(self) -> np.ndarray:
        """Return the codes of texts in use: of columns, and of registers with computed texts.

        All int32 columns except ``DOUBTED`` hold codes.
        """
        columns = [
            known[: self.n] for name, known in self.columns.items()
            if known.dtype == np.int32 and name != DOUBTED
        ]  # fmt: skip
        for number in np.flatnonzero(self.kinds == TEXT):
            raw, ok = self.registers.raw[number, : self.n], self.registers.ok[number, : self.n]
            columns.append(raw[ok].astype(np.int32))
        return np.unique(np.concatenate(columns))

    def snapshot(self) -> dict[str, Any]:
        """State as plain data."""
        n, columns = self.n, self.columns
        return {  # without the columns that are views
            "columns": {name: c[:n].copy() for name, c in columns.items() if c.base is None},
            "shared": sorted(self._shared),
            "events": copy_of(self.events[: self.n]),
            "attr_types": dict(self.attr_types),
            "n": self.n,
            "kinds": [kinds.copy() for kinds in self._kinds],
            "registers": [matrix[:, : self.n].copy() for matrix in self.registers],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a snapshot."""
        self.attr_types, self.n = dict(state["attr_types"]), state["n"]
        self._kinds = [kinds.copy() for kinds in state["kinds"]]
        self.kinds = self._kinds[0]
        self._shared = set(state["shared"])
        self._make(self.n, state["columns"])
        numbers_of(self.events)[:] = numbers_of(state["events"])
        for name, known in state["columns"].items():
            self.columns[name][:] = known
        for matrix, saved in zip(self.registers, state["registers"], strict=True):
            matrix[:] = saved


def comparable(value: Value) -> tuple[np.ndarray, np.ndarray | int]:
    """Return int64 that are equal for equal values of one tag, and the tags.

    Tag 0 equals nothing. Nulls are not checked.
    """
    data = value.data
    if value.kind == "str":
        return data.astype(np.int64), _TEXT
    if value.kind != "float":
        return data.astype(np.int64), _WHOLE
    whole = (data == np.floor(data)) & (np.abs(data) < 2.0**63)
    as_int = np.where(whole, data, 0.0).astype(np.int64)
    tag = np.where(np.isnan(data), 0, np.where(whole, _WHOLE, _BROKEN))
    return np.where(whole, as_int, data.view(np.int64)), tag
