"""Which queries of a chain read which stream, and the clocks of each stream."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec.structs import replace

from slackwater.edge_agent import records as r
from slackwater.engine.core.clocks.reference import SourceClocks
from slackwater.engine.core.clocks.stream_clocks import StreamClocks
from slackwater.engine.core.columns import VALID_PREFIX, Columns, clock_codes, join
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import ATTR_PREFIX
from slackwater.engine.core.operator import Operator, Restorable, ResultPieces
from slackwater.engine.core.released import LATE_DROPPED, RESIDUAL, Progress, Released
from slackwater.engine.core.timeline import EPOCH_START, REF_END, UNC_START, in_stream
from slackwater.engine.hosts.chain.operators import ChainSettings
from slackwater.engine.kernels.records import INT_MAX
from slackwater.engine.order.base import Guards, Ordered
from slackwater.engine.query import check_attributes
from slackwater.engine.query.failures import QueryFailures
from slackwater.engine.query.plan import lookups_of
from slackwater.engine.query.results_as_events import attributes_of_log

if TYPE_CHECKING:
    from slackwater.engine.operators.cascade.cascade import Cascade


# Attributes that queries name, checked against the attributes of a site's events.


class AttributeChecks:
    """Checks each query once, as soon as events have had all its attributes.

    A pass over a complete log checks its queries before it begins; a live engine cannot.
    """

    def __init__(self, settings: ChainSettings, failures: QueryFailures) -> None:
        self._unchecked = dict(enumerate(settings.plans))
        self._by_order = settings.looked_at
        self._failures = failures
        self._seen = -1

    def see(self, types: Mapping[str, str]) -> None:
        """Take the attributes' types so far; a query that does not fit them fails.

        Raises:
            UserError: the order's attributes have other types.
        """
        if len(types) == self._seen:
            return
        self._seen = len(types)
        for number, plan in list(self._unchecked.items()):
            if attributes_of_log(plan) <= types.keys():
                del self._unchecked[number]
                try:
                    check_attributes(plan, types)
                except UserError as error:
                    self._failures.fail(number, error)
        if self._by_order and self._by_order.keys() <= types.keys():
            from slackwater.engine.order.query_defaults import check_order_attributes  # noqa: PLC0415 - seldom

            check_order_attributes(self._by_order, types)
            self._by_order = {}


# The streams of a chain, the queries that read each, and the clocks of each stream.
#
# A chain has one stream, and one more for each query with a tap of the order. Queries that take
# half intervals read a variant of their stream with these halves.


_Which = tuple[int, int, bool]
"""(first, end, halves): the queries from ``first`` to ``end`` that read one stream, with or without
halves."""


class StreamReaders(Restorable):
    """The operators of a chain, by the stream that they read.

    Args:
        operators: of all queries.
        readers: number of operators, the first ones, that read the log.
        settings: of the chain.
        cascade: is notified of the rows that each of these has read; None: no derived statements.
        failures: of the chain's queries.
    """

    state_fields = ("_clocks",)

    def __init__(
        self, operators: Sequence[Operator], readers: int, settings: ChainSettings,
        cascade: Cascade | None, failures: QueryFailures,
    ) -> None:  # fmt: skip
        self._operators, self._cascade, self._failures = operators, cascade, failures
        self._with_halves = [
            bool(getattr(one, "takes_halves", False)) for one in operators[:readers]
        ]
        self.take_halves = any(self._with_halves)
        """Whether some query takes halves."""
        self._by_clock = settings.pattern.purge == "slack"
        self._certainty = settings.certainty
        self._looked_up = {
            number: {name: of for each in found for name, of in each.types.items()}
            for number, plan in enumerate(settings.readers if settings.lookups else ())
            if (found := lookups_of(plan))
        }
        self._clocks: dict[_Which, StreamClocks | None] = {}
        """None: no query needs them."""

    def process(
        self, queries: tuple[int, int], released: Released | None, more: Released | None,
        results: list[ResultPieces],
    ) -> None:  # fmt: skip
        """Those of ``queries`` that take halves process ``more``, the others ``released``."""
        for with_halves, stream in ((False, released), (True, more)):
            mine = [n for n in range(*queries) if self._with_halves[n] == with_halves]
            if not mine or stream is None:
                continue
            ordered = stream
            clocks = self._clocks_of((*queries, with_halves))
            if clocks is not None:
                if (stream.columns["status"] == LATE_DROPPED).any():
                    ordered = in_stream(stream)
                ordered = replace(ordered, moved=clocks.advance(ordered))
            for number in mine:
                operator = self._operators[number]
                input_stream = stream if operator.types is None else ordered
                if number in self._looked_up:
                    input_stream = self._with_tables(input_stream, self._looked_up[number])
                process = partial(operator.process, input_stream)
                results[number].extend(self._failures.run(number, process))
                if self._cascade is not None:
                    self._cascade.saw(number, input_stream)

    @staticmethod
    def _with_tables(stream: Released, types: Mapping[str, str]) -> Released:
        """``stream`` with those attributes of ``types`` that it has columns of."""
        there = {name: of for name, of in types.items() if ATTR_PREFIX + name in stream.columns}
        return replace(stream, attr_types={**stream.attr_types, **there})

    def _clocks_of(self, which: _Which) -> StreamClocks | None:
        if which not in self._clocks:
            first, end, with_halves = which
            types_read = [
                named for n in range(first, end) if self._with_halves[n] == with_halves
                and (named := self._operators[n].types) is not None
            ]  # fmt: skip
            types = frozenset(chain.from_iterable(types_read))
            self._clocks[which] = (
                StreamClocks(types, by_clock=self._by_clock, certainty=self._certainty)
                if types_read else None
            )  # fmt: skip
        return self._clocks[which]

    def restore(self, state: dict[str, Any]) -> None:
        for which in state["_clocks"]:
            self._clocks_of(which)
        super().restore(state)


# Half intervals bypass the order (Z10 5.3.2).
#
# A half (``ibp``, ``ibe``) has no sequence number, so the order cannot place it. Queries that take
# halves get it when it arrives, together with what the order releases by then; others ignore it. It
# does not move progress.


_KINDS: Final = (int(r.Kind.IBP), int(r.Kind.IBE))


class PartialIntervals(Restorable):
    """Half intervals of one site: which are valid, and where they enter the released stream.

    Args:
        clocks: of the site's sources.
        guards: checks of their times.
        columns: columns to gather; None = all.
    """

    state_fields = ("refused",)

    def __init__(self, clocks: SourceClocks, guards: Guards, columns: set[str] | None) -> None:
        self._clocks, self._guards, self._columns = clocks, guards, columns
        self.refused = 0
        """Halves whose time is further in the future than the guard allows."""

    def cuts(self, columns: Columns, rows: int, ends: Sequence[int]) -> Sequence[int]:
        """``ends``, and cuts behind halves that arrive at the same instant as other records.

        Else the releases of these could not be ordered before or after the halves.
        """
        places = _places(columns)
        if not len(places):
            return ends
        arrival = columns[r.ARRIVAL][:rows]
        first = np.searchsorted(arrival, arrival[places], "left")
        last = np.searchsorted(arrival, arrival[places], "right")
        halves = np.zeros(rows + 1, np.int64)
        halves[places + 1] = 1
        before = np.cumsum(halves)
        tied = before[last] - before[first] < last - first
        behind = places[tied] + 1
        after = np.minimum(behind, rows - 1)
        goes_on = (halves[after + 1] != 0) & (arrival[after] == arrival[behind - 1])
        ends_run = (behind == rows) | ~goes_on
        return [int(end) for end in np.union1d(np.asarray(ends), behind[ends_run])]

    def as_released(self, columns: Columns) -> tuple[Columns, np.ndarray] | None:
        """Return the halves among ``columns`` as released rows, and bool (halves,): another record
        of the same instant arrived before, so the half follows everything that the order releases
        of ``columns``. None: there are no halves.
        """
        places = _places(columns)
        if not len(places):
            return None
        found = {
            name: column[places] for name, column in columns.items()
            if self._columns is None or name in self._columns or name in _ALWAYS
            or name.startswith(VALID_PREFIX)
        }  # fmt: skip
        clock = clock_codes(columns)[places]
        ts, arrival = (columns[name][places] for name in (r.TS, r.ARRIVAL))
        ref, unc, epoch = self._clocks.correct(clock, ts, self._guards.default_uncertainty_ns)
        n = len(places)
        found |= {
            r.TE: ts, "ref": ref, "unc": unc, "epoch": epoch, "release": arrival,
            "status": np.full(n, RESIDUAL, np.int8), r.SEQ: np.full(n, -1),
        }  # fmt: skip
        tied = _behind_others(columns, places)
        if self._guards.guard_ns is None:
            return found, tied
        fine = ref - unc - self._guards.guard_ns <= arrival
        self.refused += int(n - fine.sum())
        return {name: column[fine] for name, column in found.items()}, tied[fine]

    @staticmethod
    def as_one_kind(columns: Columns) -> Columns:
        """``columns`` with one kind for both halves, as the order needs them."""
        kind = columns[r.KIND]
        if not (kind == int(r.Kind.IBE)).any():
            return columns
        known = np.where(kind == int(r.Kind.IBE), int(r.Kind.IBP), kind).astype(kind.dtype)
        return {**columns, r.KIND: known}


_ALWAYS: Final = frozenset({r.KIND, r.ID, r.SOURCE, r.CLOCK, r.TS, r.ARRIVAL, r.TYPE, r.STREAM})


def _places(columns: Columns) -> np.ndarray:
    kind = columns.get(r.KIND)
    return np.empty(0, np.int64) if kind is None else np.flatnonzero(np.isin(kind, _KINDS))


def _behind_others(columns: Columns, places: np.ndarray) -> np.ndarray:
    """Bool (halves,): another record of the same instant is before it."""
    other = ~np.isin(columns[r.KIND], _KINDS)
    others = np.concatenate(([0], np.cumsum(other)))
    first = np.searchsorted(columns[r.ARRIVAL], columns[r.ARRIVAL][places], "left")
    return np.asarray(others[places] > others[first])


def announced_intervals(columns: Columns, clocks: SourceClocks) -> dict[str, np.ndarray] | None:
    """The IBPs among ``columns`` (with kinds) for ``engine.barrier.base.Listener``; None: none."""
    rows = np.flatnonzero(columns[r.KIND] == int(r.Kind.IBP))
    if not len(rows):
        return None
    names = (r.TYPE, r.SOURCE, r.TS, r.ARRIVAL, r.ID, r.INCARNATION)
    none = np.zeros(len(rows), np.int64)
    begun = {name: columns[name][rows] if name in columns else none for name in names}
    clock = clock_codes(columns)[rows]
    begun["ref"], _, _ = clocks.correct(clock, begun.pop(r.TS), 0)
    return begun


def insert_halves(ordered: Ordered, halves: Columns, last: np.ndarray) -> Ordered:
    """``ordered`` with ``halves``, each behind the rows released before its arrival; halves of
    ``last`` (bool) are behind all rows.
    """
    n, m = ordered.n, len(halves["ref"])
    place = np.zeros(m, np.int64)
    if n:
        place = np.searchsorted(ordered.columns["release"], halves["release"], "left")
        place[last] = n
    if REF_END in ordered.columns:
        halves = {**halves, REF_END: halves["ref"]}
    if UNC_START in ordered.columns:
        halves |= {UNC_START: halves["unc"], EPOCH_START: halves["epoch"]}
    release = np.where(last, INT_MAX, halves["release"])
    both = join([ordered.columns, halves], [n, m]) if n else dict(halves)
    key = np.concatenate([np.arange(n), place])
    is_event = np.concatenate([np.ones(n, np.bool_), np.zeros(m, np.bool_)])
    order = np.lexsort((is_event, key))

    def moved(row: np.ndarray, at: np.ndarray) -> np.ndarray:
        """Return the new row of a progress step: behind halves that arrived up to its instant."""
        least, most = (np.searchsorted(place, row, side) for side in ("left", "right"))
        return row + np.clip(np.searchsorted(release, at, "right"), least, most)

    progress, gaps, slack = ordered.progress, ordered.gaps, ordered.slack
    promises = ordered.promises
    return replace(
        ordered, n=n + m, columns={name: column[order] for name, column in both.items()},
        progress=Progress(moved(progress.row, progress.at), progress.frontier, progress.at),
        gaps=replace(gaps, row=gaps.row + np.searchsorted(place, gaps.row, "left")),
        slack=Progress(moved(slack.row, slack.at), slack.frontier, slack.at),
        promises=promises and replace(promises, row=moved(promises.row, promises.at)),
    )  # fmt: skip
