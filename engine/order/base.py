"""The contract of an ordering operator, what one call of it gives, and values of its short form."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Protocol, Self

import numpy as np
from msgspec import Struct, field

from slackwater.edge_agent import records as r
from slackwater.engine.core.clocks.prediction import SyncPoint
from slackwater.engine.core.clocks.reference import SourceClocks
from slackwater.engine.core.columns import Columns, clock_codes
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.operator import Restorable
from slackwater.engine.core.released import Gaps, Progress, Promises, Strings
from slackwater.engine.core.units import parse_duration
from slackwater.engine.kernels.records import INT_MAX, INT_MIN, longer
from slackwater.engine.order.duplicates import Duplicates
from slackwater.engine.order.sequence.state import DUPLICATE, QUARANTINED_FUTURE
from slackwater.engine.query.plan import Plan

# Values in the short form of an ordering operator, ``key=value,key=value``, as exact integers.
#
# Every function raises ``UserError`` that names the key, its value and the remedy.


SLACK_MAX_NS: Final = 1 << 60
"""So that a time less a slack stays in int64."""
TIMES: Final = ("ref", "ts", "hold", "fit")
DUPLICATES: Final = ("drop", "pass")
_LATE: Final = ("pass", "drop")
SHARED: Final = ("late", "time", "duplicates")
"""The settings that all slack orders have (``SlackSettings``)."""
_SPAN_MAX_NS: Final = 1 << 58
_DIGITS_MAX: Final = 9


def only_known(pairs: dict[str, str], keys: tuple[str, ...]) -> None:
    """Refuse every other key."""
    for key in pairs:
        if key not in keys:
            raise UserError(f"unknown key {key!r}; known are {', '.join(keys)}")


def choice(pairs: dict[str, str], key: str, choices: tuple[str, ...]) -> str:
    """One of ``choices``, of which the first is the default."""
    value = pairs.get(key, choices[0])
    if value not in choices:
        raise UserError(f"{key}={value}: use {' or '.join(choices)}")
    return value


def decimal(text: str, name: str, unit: int, what: str) -> int:
    """``0.6`` as an integer number of 1/unit, exactly. ``what``: what it is, with an example."""
    whole, point, digits = text.partition(".")
    scale = len(str(unit)) - 1
    plain = (whole + digits).isascii() and (whole + digits).isdecimal()
    if not plain or (point and not digits) or len(digits) > scale or len(whole) > _DIGITS_MAX:
        raise UserError(f"{name}={text}: write {what}, at most {scale} decimals")
    return int(whole or "0") * unit + int(digits.ljust(scale, "0") or "0")


def share(text: str, name: str, unit: int) -> int:
    """A share of at least 0 and below 1, in 1/unit."""
    value = decimal(text, name, unit, "a share such as 0.6")
    if not 0 <= value < unit:
        raise UserError(f"{name}={text}: must be at least 0 and below 1")
    return value


def factor(text: str, name: str, most: int) -> int:
    """A factor of at least 0, in thousandths."""
    value = decimal(text, name, 1000, "a number such as 1.5")
    if value > most * 1000:
        raise UserError(f"{name}={text}: at most {most}")
    return value


def span(pairs: dict[str, str], key: str, time_unit: str) -> int:
    """A duration of at least 1 ns."""
    span_ns = parse_duration(pairs[key], time_unit)
    if not 0 < span_ns <= _SPAN_MAX_NS:
        raise UserError(f"{key}={pairs[key]}: at least 1 ns and at most 9 years")
    return span_ns


def span_if_given(pairs: dict[str, str], key: str, time_unit: str) -> int | None:
    """As ``span``; None if the short form does not say."""
    return span(pairs, key, time_unit) if key in pairs else None


def shared(pairs: dict[str, str]) -> dict[str, str]:
    """Those of ``SHARED``."""
    choices = (_LATE, TIMES, DUPLICATES)
    return {key: choice(pairs, key, of) for key, of in zip(SHARED, choices, strict=True)}


# Whether numbers follow event time, which ``sequence`` builds on.
#
# An input whose sources number nothing is counted line by line: then a number says when an event
# arrived, not when it happened, nothing is ever missing, and ``sequence`` leaves what is out of
# order where it came. Counters say so: ``backwards``, events that lie before one of their source
# with a smaller number, and ``backwards_ns``, by how much at most.


SHARE: Final = 0.01
"""Of the events: fewer may come of clocks that were set."""


def numbers_mislead(backwards: int, arrived: int) -> bool:
    """Whether so many of the events that arrived lie before a smaller number."""
    return backwards > 0 and backwards >= SHARE * arrived


# The contract of an ordering operator, and what one call of it gives.


class Ordered(Struct):
    """Events let go by one call: ``columns`` as ``engine.core.released.Released`` has them.

    ``quarantined``: columns of the records that were set aside with a ``reason`` code each
    (``order.state``: ``QUARANTINED_FUTURE``, ``QUARANTINED_JUMP``, ``DUPLICATE``,
    ``MARKER_JUMP``). ``taps``: what the first queries read instead, one each, of an order that
    gives queries their own (``kslack-chain``).
    ``promises``: the punctuations, of an order that puts nothing in order; else None.
    ``slack``: what a slack says of its progress; windows alone go by it.
    """

    n: int
    columns: Columns
    progress: Progress = field(default_factory=Progress)
    gaps: Gaps = field(default_factory=Gaps)
    quarantined: Columns = field(default_factory=dict)
    taps: tuple[Ordered, ...] = ()
    promises: Promises | None = None
    slack: Progress = field(default_factory=Progress)


class Order(Protocol):
    """A deterministic function of the arrival log; every result is cut-independent."""

    @property
    def buffered_max(self) -> int:
        """Most events held at once so far."""

    @property
    def buffered_max_bytes(self) -> int:
        """What they took [bytes]."""

    def announce(self, sync: SyncPoint) -> None:
        """A sync record: the source's incarnation and first number. Called between batches."""

    def process(self, columns: Columns, rows: int) -> Ordered:
        """Records in arrival order, none of them a sync record."""

    def cuts(self, columns: Columns, rows: int) -> Sequence[int]:
        """Where records must be cut, with their end, so that ``forget`` is called there."""

    def forget(self) -> Sequence[int]:
        """The codes of sources that are forgotten now. Called after each ``process``."""

    def codes(self) -> np.ndarray | None:
        """Codes of texts that are in use; None: it cannot tell."""

    def adopt(self, strings: Strings) -> None:
        """``strings`` has what is in use, at the same codes."""

    def sources(self) -> dict[str, int]:
        """Counters of sources that came and went."""

    def flush(self) -> Ordered:
        """End of the input, at the last arrival. Called once."""

    def counters(self) -> list[dict[str, Any]]:
        """One dict per (source, stream): what became of its events."""

    def snapshot(self) -> dict[str, Any]:
        """State as plain data."""

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a snapshot of an order with equal settings."""


class KeepsSources:
    """Orders that forget no source, and so need every text that they were ever given."""

    def cuts(self, columns: Columns, rows: int) -> Sequence[int]:
        """Nothing is to be done between the rows."""
        del columns
        return (rows,)

    def forget(self) -> Sequence[int]:
        """No source is forgotten."""
        return ()

    def codes(self) -> np.ndarray | None:
        """It cannot tell."""
        return None

    def adopt(self, strings: Strings) -> None:
        """Texts are found by the table of the clocks."""

    def sources(self) -> dict[str, int]:
        """No counters."""
        return {}


@dataclass(frozen=True, slots=True)
class Guards:
    """What every order does before it trusts an event time.

    ``guard_ns``: an event whose ref lies beyond its arrival by more than its uncertainty plus
    this is quarantined and moves no clock; None switches the guard off.
    ``default_uncertainty_ns``: of a source that was never synchronised.
    """

    guard_ns: int | None = 1_000_000_000
    default_uncertainty_ns: int = 0


class OrderSite(Struct, frozen=True):
    """The site for which an order is built: its clocks, the queries that read the order.

    ``columns_read``: columns that travel with the events; None: all.
    """

    clocks: SourceClocks
    guards: Guards
    columns_read: set[str] | None
    plans: Sequence[Plan] = ()


class OrderSettings(ABC):
    """Settings of an ordering operator, of which ``build`` makes one; immutable.

    Attributes:
        time: by which time it orders: ``ref`` | ``ts`` | ``hold``.
        first: the setting that a short form may begin with, without its name: ``kslack:2s``.
        listed: the setting that it may list, without its name: ``kslack-chain:1s,5s``.
        asks_numbers: every event must have one.
        leaves_promises: only the input's own promises say what will not come any more.
    """

    __slots__ = ()
    time: str
    first: ClassVar[str | None] = None
    listed: ClassVar[str | None] = None
    asks_numbers: ClassVar[bool] = False
    leaves_promises: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def read(cls, pairs: dict[str, str], time_unit: str) -> Self:
        """Those of a short form's ``key=value`` pairs; ``time_unit``: of durations without one.

        Raises:
            UserError: an unknown key or value; says what is known.
        """

    @abstractmethod
    def build(self, site: OrderSite) -> Order:
        """The operator.

        Raises:
            UserError: it cannot serve these queries (``engine.order.query_defaults``).
        """

    def attributes(self, plans: Sequence[Plan]) -> dict[str, bool]:
        """Attributes that the operator itself looks at, and whether each must be a number.

        Raises:
            UserError: it cannot serve these queries (``engine.order.query_defaults``).
        """
        del plans
        return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class SlackSettings(OrderSettings):
    """``late``: ``pass`` | ``drop``; ``time``: ``ref`` | ``ts`` | ``hold``; ``duplicates``: as
    ``engine.order.duplicates``, ``drop`` | ``pass``.
    """

    late: str = "pass"
    time: str = "ref"
    duplicates: str = "drop"


# What orders without numbers do first: reference times, second copies, future guard, counts.


_DENSE: Final = 4
"""Codes per event up to which a table of all codes beats sorting."""


class Correction(Restorable):
    """Corrects the events of a site, sets copies and the future aside, and counts per lane.

    Args:
        clocks: of the site's sources.
        guards: what is checked before an event time is believed.
        duplicates: what becomes of second copies: ``drop`` | ``pass``.
    """

    state_fields = ("_newest", "_last", "_duplicates", "_counts")

    def __init__(self, clocks: SourceClocks, guards: Guards, duplicates: str) -> None:
        self._duplicates = Duplicates() if duplicates == "drop" else None
        self._clocks = clocks
        self._guards = guards
        self._newest = np.empty(0, np.int64)
        self._last = np.empty(0, np.int64)
        self._counts: dict[tuple[int, str], np.ndarray] = {}

    def take(self, columns: Columns) -> tuple[Columns, Columns]:
        """The events among ``columns`` with ``ref unc epoch``, and those set aside.

        A copy is set aside (``engine.order.duplicates``), also one of an event that was. An event
        is quarantined when its ref lies beyond its arrival by more than its uncertainty and the
        guard. Neither moves a clock.
        """
        if r.KIND in columns:
            events = columns[r.KIND] == int(r.Kind.EVENT)
            columns = {name: column[events] for name, column in columns.items() if name != r.KIND}
        columns = dict(columns)
        source, clock, ts = columns[r.SOURCE], clock_codes(columns), columns[r.TS]
        sources = int(source.max(initial=-1)) + 1
        ref, unc, epoch = self._clocks.correct(clock, ts, self._guards.default_uncertainty_ns)
        columns.update(ref=ref, unc=unc, epoch=epoch)
        self.count(columns, "arrived")
        self._newest, self._last = _room(self._newest, sources), _room(self._last, sources)
        self._last[source] = columns[r.ARRIVAL]  # of equal places NumPy keeps the last
        columns, quarantined = self._set_aside(columns)
        np.maximum.at(self._newest, columns[r.SOURCE], columns[r.TS])
        np.maximum.at(self._clocks.clocks["max_ts"], clock_codes(columns), columns[r.TS])
        return columns, quarantined

    def _set_aside(self, columns: Columns) -> tuple[Columns, Columns]:
        """(events that go on, those that do not with their ``reason``), both as they came."""
        copies = future = None
        if self._duplicates is not None:
            default = self._clocks.strings.code(r.DEFAULT_STREAM)
            copies = self._duplicates.among(columns, default)
        if self._guards.guard_ns is not None:
            latest = _later(columns[r.ARRIVAL], _later(columns["unc"], self._guards.guard_ns))
            future = columns["ref"] > latest
        found = [each for each in (copies, future) if each is not None and each.any()]
        if not found:
            return columns, {}
        aside = found[0] if len(found) == 1 else found[0] | found[1]
        quarantined = self.complete({name: column[aside] for name, column in columns.items()})
        is_copy = np.zeros(len(quarantined[r.TS]), np.bool_) if copies is None else copies[aside]
        quarantined["reason"] = np.where(is_copy, DUPLICATE, QUARANTINED_FUTURE)
        for name, chosen in (("duplicate", is_copy), ("quarantined_future", ~is_copy)):
            self.count(
                {n: quarantined[n][chosen] for n in (r.SOURCE, r.STREAM) if n in quarantined}, name
            )
        return {name: column[~aside] for name, column in columns.items()}, quarantined

    @staticmethod
    def complete(columns: Columns) -> Columns:
        """``columns`` with what their frames left out because it goes without saying."""
        columns.setdefault(r.TE, columns[r.TS])
        if r.INCARNATION not in columns:
            columns[r.INCARNATION] = np.zeros(len(columns[r.TS]), np.int64)
        return columns

    def count(self, columns: Columns, name: str) -> None:
        """Add the events of ``columns`` to the counter ``name`` of their lanes."""
        source, stream = columns[r.SOURCE], columns.get(r.STREAM)
        if not len(source):
            return
        if stream is None:
            self._add(self._clocks.strings.code(r.DEFAULT_STREAM), name, source)
        elif stream.min() == stream.max():
            self._add(int(stream[0]), name, source)
        else:
            for code in np.unique(stream).tolist():
                self._add(code, name, source[stream == code])

    def _add(self, stream: int, name: str, source: np.ndarray) -> None:
        """Count events of one stream, by source."""
        size = int(source.max()) + 2
        table = self._counts.get((stream, name), np.empty(0, np.int64))
        if len(table) < size:
            table = self._counts[stream, name] = longer(table, max(size, 2 * len(table)))
        # A code is -1 where a text is null.
        if size <= _DENSE * len(source):
            table[:size] += np.bincount(source + 1, minlength=size)
        else:
            np.add.at(table, source + 1, 1)

    def counters(self, *names: str) -> list[dict[str, Any]]:
        """Per lane its source and stream, and the counters ``names`` (0 when never counted).

        ``newest_ts``, ``last_arrival``: of the source over its streams; None before any.
        """
        text = self._clocks.strings.text
        lanes: dict[tuple[int, int], Counter[str]] = {}
        for (stream, name), table in self._counts.items():
            for place in np.flatnonzero(table).tolist():
                lanes.setdefault((place - 1, stream), Counter())[name] = int(table[place])
        return [
            {
                "source": text(source),
                "stream": text(stream),
                **{name: counts[name] for name in names},
                "newest_ts": _at(self._newest, source),
                "last_arrival": _at(self._last, source),
            }
            for (source, stream), counts in lanes.items()
        ]


def _room(table: np.ndarray, sources: int) -> np.ndarray:
    """``table`` with places for source codes below ``sources``; new ones say "never"."""
    if sources <= len(table):
        return table
    more = np.full(max(sources, 2 * len(table)), INT_MIN)
    more[: len(table)] = table
    return more


def _at(table: np.ndarray, source: int) -> int | None:
    known = 0 <= source < len(table) and table[source] > INT_MIN
    return int(table[source]) if known else None


def _later(now: np.ndarray, wait: np.ndarray | int) -> np.ndarray:
    """``now + wait``, or never where that is beyond int64."""
    return np.where(now > INT_MAX - wait, INT_MAX, now + wait)
