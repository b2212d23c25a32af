"""The contract of ordering operators, the output of a call, and values of short forms."""

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
"""The largest slack [ns], so that a time minus a slack fits into int64."""
TIMES: Final = ("ref", "ts", "hold", "fit")
DUPLICATES: Final = ("drop", "pass")
_LATE: Final = ("pass", "drop")
SHARED: Final = ("late", "time", "duplicates")
"""The settings that all slack orders have (``SlackSettings``)."""
_SPAN_MAX_NS: Final = 1 << 58
_DIGITS_MAX: Final = 9


def only_known(pairs: dict[str, str], keys: tuple[str, ...]) -> None:
    """Refuse all keys but ``keys``."""
    for key in pairs:
        if key not in keys:
            raise UserError(f"unknown key {key!r}; known are {', '.join(keys)}")


def choice(pairs: dict[str, str], key: str, choices: tuple[str, ...]) -> str:
    """The value of ``key``, one of ``choices``; the first is the default."""
    value = pairs.get(key, choices[0])
    if value not in choices:
        raise UserError(f"{key}={value}: use {' or '.join(choices)}")
    return value


def decimal(text: str, name: str, unit: int, what: str) -> int:
    """``0.6`` as an integer number of 1/unit, exactly. ``what``: for messages, with an example."""
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
    """As ``span``; None: the short form does not have the key."""
    return span(pairs, key, time_unit) if key in pairs else None


def shared(pairs: dict[str, str]) -> dict[str, str]:
    """The pairs with keys in ``SHARED``."""
    choices = (_LATE, TIMES, DUPLICATES)
    return {key: choice(pairs, key, of) for key, of in zip(SHARED, choices, strict=True)}


# Whether numbers follow event time, which ``sequence`` assumes.
#
# Events of sources without numbers are numbered line by line: such numbers are in order of arrival,
# none is ever missing, and ``sequence`` does not reorder events. Counters show this: ``backwards``:
# events earlier than one of their source with a smaller number; ``backwards_ns``: the largest
# difference [ns].


SHARE: Final = 0.01
"""The least share of events; fewer may be due to clocks that were set."""


def numbers_mislead(backwards: int, arrived: int) -> bool:
    """Whether numbers are not in time order: ``backwards`` of ``arrived`` events are too many."""
    return backwards > 0 and backwards >= SHARE * arrived


# The contract of ordering operators, and the output of a call.


class Ordered(Struct):
    """The events released by one call: ``columns`` as in ``engine.core.released.Released``.

    ``quarantined``: columns of refused records, with a ``reason`` code each (``sequence.state``:
    ``QUARANTINED_FUTURE``, ``QUARANTINED_JUMP``, ``DUPLICATE``, ``MARKER_JUMP``). ``taps``: the
    input of the first queries, one each, for an order with an output per query (``kslack-chain``).
    ``promises``: the punctuations, for an order that does not reorder; else None. ``slack``: the
    progress by a slack; only windows use it.
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
        """The most events buffered at once so far."""

    @property
    def buffered_max_bytes(self) -> int:
        """The most bytes of buffered events so far."""

    def announce(self, sync: SyncPoint) -> None:
        """A sync record: the source's incarnation and first number. Called between batches."""

    def process(self, columns: Columns, rows: int) -> Ordered:
        """Records in arrival order, none of them a sync record."""

    def cuts(self, columns: Columns, rows: int) -> Sequence[int]:
        """The places where records are cut and ``forget`` is called, and their end."""

    def forget(self) -> Sequence[int]:
        """The codes of sources that are forgotten now. Called after each ``process``."""

    def codes(self) -> np.ndarray | None:
        """Codes of texts that are in use; None: unknown."""

    def adopt(self, strings: Strings) -> None:
        """Replace the table of texts by ``strings``, which has the same codes for texts in use."""

    def sources(self) -> dict[str, int]:
        """Counters of forgotten sources."""

    def flush(self) -> Ordered:
        """End of the input, at the last arrival. Called once."""

    def counters(self) -> list[dict[str, Any]]:
        """One dict per (source, stream): counts of its events by outcome."""

    def snapshot(self) -> dict[str, Any]:
        """State as plain data."""

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a snapshot of an order with equal settings."""


class KeepsSources:
    """A base of orders that never forget a source, and so need every text."""

    def cuts(self, columns: Columns, rows: int) -> Sequence[int]:
        """Only the end: there are no cuts."""
        del columns
        return (rows,)

    def forget(self) -> Sequence[int]:
        """No source is forgotten."""
        return ()

    def codes(self) -> np.ndarray | None:
        """None: unknown."""
        return None

    def adopt(self, strings: Strings) -> None:
        """Do nothing: the clocks have the table of texts."""

    def sources(self) -> dict[str, int]:
        """No counters."""
        return {}


@dataclass(frozen=True, slots=True)
class Guards:
    """The checks of every order before it uses an event time.

    ``guard_ns``: an event whose ref is after its arrival by more than its uncertainty plus this is
    quarantined and moves no clock; None: no guard. ``default_uncertainty_ns``: of a source that was
    never synchronised.
    """

    guard_ns: int | None = 1_000_000_000
    default_uncertainty_ns: int = 0


class OrderSite(Struct, frozen=True):
    """The site for which an order is built: its clocks, the queries that read the order.

    ``columns_read``: payload columns that queries read; None: all.
    """

    clocks: SourceClocks
    guards: Guards
    columns_read: set[str] | None
    plans: Sequence[Plan] = ()


class OrderSettings(ABC):
    """Settings of an ordering operator; immutable. ``build`` makes the operator.

    Attributes:
        time: the time by which it orders: ``ref`` | ``ts`` | ``hold``.
        first: the setting that a short form may begin with, without its name: ``kslack:2s``.
        listed: the setting that it may list, without its name: ``kslack-chain:1s,5s``.
        asks_numbers: every event must have a number.
        leaves_promises: the operator makes no promises; only those of the input count.
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
        """Settings from a short form's ``key=value`` pairs; ``time_unit``: of durations without
        one.

        Raises:
            UserError: an unknown key or value; the message lists the known ones.
        """

    @abstractmethod
    def build(self, site: OrderSite) -> Order:
        """The operator.

        Raises:
            UserError: it cannot serve these queries (``engine.order.query_defaults``).
        """

    def attributes(self, plans: Sequence[Plan]) -> dict[str, bool]:
        """The attributes that the operator reads, and whether each must be a number.

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


# Preprocessing of orders without numbers: reference times, duplicates, future guard, counts.


_DENSE: Final = 4
"""Codes per event up to which a table of all codes beats sorting."""


class Correction(Restorable):
    """Corrects the events of a site, refuses duplicates and the future, and counts per lane.

    Args:
        clocks: of the site's sources.
        guards: the checks of event times.
        duplicates: ``drop`` | ``pass``.
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
        """The events among ``columns`` with ``ref unc epoch``, and the refused ones.

        A duplicate is refused (``engine.order.duplicates``), also one of a refused event. An event
        is quarantined if its ref is after its arrival by more than its uncertainty and the guard.
        Neither moves a clock.
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
        """(accepted events, refused ones with their ``reason``), both in order of arrival."""
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
        """``columns`` with the default columns that their frames omit."""
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
        # The code of a null text is -1.
        if size <= _DENSE * len(source):
            table[:size] += np.bincount(source + 1, minlength=size)
        else:
            np.add.at(table, source + 1, 1)

    def counters(self, *names: str) -> list[dict[str, Any]]:
        """Per lane its source and stream, and the counters ``names``.

        ``newest_ts``, ``last_arrival``: of the source over its streams; None before its first
        event.
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
    """``table`` with places for source codes below ``sources``; new ones have no value yet."""
    if sources <= len(table):
        return table
    more = np.full(max(sources, 2 * len(table)), INT_MIN)
    more[: len(table)] = table
    return more


def _at(table: np.ndarray, source: int) -> int | None:
    known = 0 <= source < len(table) and table[source] > INT_MIN
    return int(table[source]) if known else None


def _later(now: np.ndarray, wait: np.ndarray | int) -> np.ndarray:
    """``now + wait``, limited to int64 (never)."""
    return np.where(now > INT_MAX - wait, INT_MAX, now + wait)
