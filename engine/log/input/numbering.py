"""Sequence numbers of events: unwraps counters, and finds restarts and reused numbers.

Devices count in 8, 16 or 32 bits, restart at 0, or use a number twice. When rows become events,
each number becomes one of 64 bits (SPEC 3.1):

* **Wrap-around.** With ``seq_bits``, the unwrapped number is the one nearest to the newest number.
  Without, a decrease from near 2^8, 2^16 or 2^32 to near 0 in an event with a later time is a
  wrap-around; from then on the lane's counter has that many bits, until a number does not fit.
* **Restart.** A decrease to 0, or to the lane's first number, in an event with a later time begins
  the next incarnation, unless the source states incarnations. Earlier events belong to the last.
* **Copy or reuse.** An event with a known number and the same time, type, id and attributes is a
  copy and keeps its number; orders remove copies by it. With other content the number is *reused*,
  and the event gets no number.
* **Continuation.** A live lane continues a log (``begin``): a decrease to the successor of its
  newest number modulo 2^8, 2^16 or 2^32, or to a copy, is the wrap-around recognised before.
* **No number.** Before the first number of a lane its events are counted; after it, an event
  without a number gets none.

A lane is one (site, source, stream, stated incarnation). Digests of 64 bits are kept for at least
the newest ``REMEMBERED`` numbers of the input. An older number counts as new, and an order by
sequence numbers treats it as late or as a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from slackwater.edge_agent import records as r
from slackwater.engine.core.errors import UserError
from slackwater.engine.kernels.jit import for_rows, inline, kernel
from slackwater.engine.kernels.records import NONE, Record, record
from slackwater.engine.kernels.tables import mixed
from slackwater.engine.log.describe import Groups

BITS: Final = (8, 16, 32)
REMEMBERED: Final = 1 << 18
_SLOTS_LEAST: Final = 1 << 12
LaneName = tuple[str, str, str, int]
"""Site, source, stream, stated incarnation."""
LANE: Final = record(
    "bits", "declared", "base", "newest", "newest_ts", "first", "numbered", "next",
    "restarts", "began", "base_before", "newest_before", "stated", "resumed",
    "found_bits", "wraps", "reused", "unnumbered",
)  # fmt: skip
"""State of a lane. ``bits``: of its counter (0: unknown); ``declared``: by the user;
``found_bits``: recognised. ``base``: unwrapped minus raw number of the newest event. ``newest``,
``newest_ts``: the largest number and the ts of its event. ``numbered``: an event had a number;
``next``: the number of events before that. ``restarts``: recognised ones; the last ``began`` at
that ts. ``stated``: the source states its incarnations. ``resumed``: ``newest`` is from a log, so
its bits are unknown."""
_NEVER: Final = -(1 << 62)
_LOOSE: Final = -1
"""In place of a number: an event without one in a log."""


class SeenNumbers(NamedTuple):
    """Hash table of numbers: ``keys`` (0: free) and ``digests`` of their events."""

    keys: np.ndarray
    digests: np.ndarray


@inline
def _near(bits: int) -> int:
    return 1 << (bits >> 1)


@inline
def _unwrapped(of: Record, raw: int, newest: int, ts: int) -> int:
    """Return the number nearest to ``newest`` that is ``raw`` modulo ``2 ** of.bits``."""
    modulus = 1 << of.bits
    number = (newest >> of.bits << of.bits) + raw
    if number - newest > modulus >> 1 and number >= modulus:
        number -= modulus
    elif newest - number > modulus >> 1:
        number += modulus
    if number < newest - _near(of.bits) and ts > of.newest_ts:
        number += modulus  # a later time shows that over half of the counter was lost
    return int(number)


@inline
def _recognised(of: Record, raw: int) -> int:
    """Return the bits of a counter that wraps around to ``raw``; 0: no wrap-around."""
    last = of.newest - of.base
    for bits in (8, 16, 32):
        ahead = (raw - of.newest) & ((1 << bits) - 1)
        if of.resumed and raw < 1 << bits <= of.newest and 0 < ahead <= _near(bits):
            return int(bits)
        if (1 << bits) - _near(bits) <= last < 1 << bits and raw < _near(bits):
            return int(bits)
    return 0


@inline
def _restarts(of: Record, raw: int) -> bool:
    """Whether a decrease to ``raw``, in an event with a later time, is a restart of the device."""
    if of.stated:
        return False
    if of.bits:
        modulus = 1 << of.bits
        return bool(raw == 0 and of.newest & (modulus - 1) < modulus - (modulus >> 2))
    return bool(raw == 0 or (raw == of.first and of.newest > of.first))


@kernel
def _numbered(of: Record, raw: int, ts: int) -> int:
    """Return the number of an event with the raw number ``raw``; updates the lane."""
    if not of.numbered and of.next == 0:
        of.newest, of.newest_ts = raw - 1, ts
    of.numbered = 1
    if of.restarts and ts < of.began:
        return int(_unwrapped(of, raw, of.newest_before, ts) if of.bits else of.base_before + raw)
    later = ts > of.newest_ts
    if of.bits and raw >= 1 << of.bits:
        of.base = of.newest >> of.bits << of.bits
        of.bits = 0
    if not of.bits and later and of.base + raw <= of.newest:
        bits = _recognised(of, raw)
        if bits:
            of.bits = bits
            of.found_bits = bits
    if later and of.base + raw <= of.newest and _restarts(of, raw):
        of.restarts += 1
        of.began, of.base_before, of.newest_before = ts, of.base, of.newest
        of.base, of.first, of.newest, of.newest_ts = 0, raw, raw, ts
        return raw
    number = _unwrapped(of, raw, of.newest, ts) if of.bits else of.base + raw
    if number > of.newest:
        if of.bits:
            of.wraps += number >> of.bits != of.newest >> of.bits
            of.base = number >> of.bits << of.bits
        of.newest, of.newest_ts = number, ts
        of.resumed = 0
    if of.first < 0:
        of.first = raw
    return int(number)


@inline
def _slot(seen: SeenNumbers, key: int) -> int:
    mask = len(seen.keys) - 1
    slot = key & mask
    while seen.keys[slot] != 0 and seen.keys[slot] != key:
        slot = (slot + 1) & mask
    return slot


@inline
def _enter(seen: SeenNumbers, key: int, digest: int) -> int:
    slot = _slot(seen, key)
    new = seen.keys[slot] == 0
    seen.keys[slot], seen.digests[slot] = key, digest
    return int(new)


@inline
def _key(lane: int, restarts: int, number: int) -> int:
    return int(mixed(mixed(mixed(1, lane), restarts), number) | 1)


@inline
def _loose(lane: int, restarts: int, digest: int) -> int:
    return int(mixed(_key(lane, restarts, _LOOSE), digest) | 1)


@kernel
def _remember(
    seen: SeenNumbers, lane: int, restarts: int, seq: np.ndarray, digest: np.ndarray
) -> int:
    """Enter the events of a lane in a log (``seq`` -1: no number); return the new entries."""
    entered = 0
    for row in range(len(seq)):
        key = _key(lane, restarts, seq[row])
        if seq[row] == _LOOSE:
            key = _loose(lane, restarts, digest[row])
        entered += _enter(seen, key, digest[row])
    return entered


@inline
def _digest(young: SeenNumbers, old: SeenNumbers, key: int) -> int:
    """Return the digest of the event with the number of ``key``; 0: unknown."""
    slot = _slot(young, key)
    return int(young.digests[slot] if young.keys[slot] != 0 else old.digests[_slot(old, key)])


@kernel
def _bits_by_copy(
    of: Record, young: SeenNumbers, old: SeenNumbers, lane: int, raw: int, digest: int
) -> int:
    """Return the bits of a counter for which ``raw`` is a copy of a known number; 0: none."""
    for bits in (8, 16, 32):
        number = of.newest - ((of.newest - raw) & ((1 << bits) - 1))
        if raw < 1 << bits <= of.newest and number != raw:
            known = _digest(young, old, _key(lane, of.restarts, number))
            if known == digest and known != 0:
                return int(bits)
    return 0


@kernel
def _count(
    lanes: np.ndarray, young: SeenNumbers, old: SeenNumbers, lane: np.ndarray, seq: np.ndarray,
    ts: np.ndarray, digest: np.ndarray, restarts: np.ndarray,
) -> int:  # fmt: skip
    """Number events in order of arrival: write ``seq`` (-1: none) and ``restarts`` so far.

    Returns the number of entries added to ``young``, which needs room for two per event.
    """
    entered = 0
    for row in range(len(seq)):
        of = lanes[lane[row]]
        if seq[row] < 0:
            if of.numbered:
                of.unnumbered += 1
                loose = _loose(lane[row], of.restarts, digest[row])
                entered += _enter(young, loose, digest[row])
            else:
                seq[row] = of.newest = of.next
                of.newest_ts = ts[row]
                of.next += 1
            restarts[row] = of.restarts
            continue
        if of.resumed and not of.bits:
            of.bits = _bits_by_copy(of, young, old, lane[row], seq[row], digest[row])
            of.found_bits = of.bits
        seq[row] = _numbered(of, seq[row], ts[row])
        restarts[row] = of.restarts - (of.restarts > 0 and ts[row] < of.began)
        if restarts[row] == 0 and seq[row] < of.next:
            of.reused += 1  # by an event that was counted before the lane had numbers
            seq[row] = -1
            continue
        key = _key(lane[row], restarts[row], seq[row])
        slot, before = _slot(young, key), _slot(old, key)
        if young.keys[slot] == 0 and old.keys[before] == 0:
            entered += _enter(young, key, digest[row])
            continue
        first = _digest(young, old, key)
        both = mixed(key, digest[row]) | 1
        loose = _loose(lane[row], restarts[row], digest[row])
        if first == digest[row]:
            entered += _enter(young, key, digest[row])  # a copy is remembered again
        elif (
            young.keys[_slot(young, both)] == 0 and old.keys[_slot(old, both)] == 0
            and young.keys[_slot(young, loose)] == 0 and old.keys[_slot(old, loose)] == 0
        ):  # fmt: skip
            entered += _enter(young, both, digest[row])
            of.reused += 1
            seq[row] = -1
    return entered


@kernel
def _enter_all(seen: SeenNumbers, keys: np.ndarray, digests: np.ndarray) -> None:
    for i in range(len(keys)):
        if keys[i] != 0:
            _enter(seen, keys[i], digests[i])


class CountedLane(Struct, frozen=True):
    """Findings about the sequence numbers of one lane; 0: none.

    ``bits``: of a wrapping counter, recognised, not declared. ``wraps``: wrap-arounds.
    ``restarts``: recognised incarnations. ``reused``: events with the number of another event.
    ``unnumbered``: events without a number in a lane with numbers.
    """

    site: str
    source: str
    stream: str
    bits: int
    wraps: int
    restarts: int
    reused: int
    unnumbered: int


class Numbering:
    """Numbers the events of one input, part by part.

    Args:
        bits: bits of counters, by ``SOURCE/STREAM``, else by stream; ``""``: all others.
        remembered: least number of events whose content is remembered.
    """

    def __init__(self, bits: Mapping[str, int] | None = None, remembered: int = REMEMBERED) -> None:
        self._bits = dict(bits or {})
        self._remembered = remembered
        self._names: dict[LaneName, int] = {}
        self._lanes = np.zeros(0, LANE)
        self._young, self._old = _nothing(_SLOTS_LEAST), _nothing(1)
        self._entered = 0
        self.some = False
        """Whether an event so far had a number."""
        self.declares = bool(self._bits)
        """Whether the user declares bits of any stream."""
        self.by_source = any("/" in name for name in self._bits)
        """Whether bits are declared for a stream of one source."""

    def count(
        self, names: list[LaneName], stated: np.ndarray, groups: Groups, seq: np.ndarray,
        ts: np.ndarray, digest: Callable[[], np.ndarray],
    ) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
        """Return numbers of events in order of arrival (-1: none), and restarts of their lanes.

        Args:
            names: lanes of this part.
            stated: bool (lanes,): the source has stated an incarnation.
            groups: the events by lane.
            seq: raw numbers; -1: none.
            ts: event times [ns].
            digest: returns 64 bits of each event's content.
        """
        places = np.array([self._place(*each) for each in zip(names, stated, strict=True)])
        numbers, restarts = seq.copy(), np.zeros(len(seq), np.int64)
        of = np.empty(len(seq), np.int64)
        of[groups.order] = places[groups.code]
        if not self.some and seq.max(initial=-1) < 0:
            self._count_up(places, groups, numbers, ts)
            return numbers, restarts
        self.some, content = True, digest()
        for start in range(0, len(seq), self._remembered // 2):
            part = slice(start, start + self._remembered // 2)
            self._make_room(2 * len(of[part]))
            with for_rows(len(seq)):
                self._entered += _count(
                    self._lanes, self._young, self._old, of[part], numbers[part], ts[part],
                    content[part], restarts[part],
                )  # fmt: skip
        return numbers, restarts

    def _count_up(
        self, places: np.ndarray, groups: Groups, numbers: np.ndarray, ts: np.ndarray
    ) -> None:
        """Number events by lane, as ``_count`` does while none has a number."""
        rank = np.arange(len(numbers)) - groups.starts[groups.code]
        counts = np.bincount(groups.code, minlength=len(places))
        first = self._lanes["next"][places]
        numbers[groups.order] = first[groups.code] + rank
        self._lanes["next"][places] += counts
        self._lanes["newest"][places] = first + counts - 1
        self._lanes["newest_ts"][places] = ts[groups.order[groups.starts + counts - 1]]

    def begin(
        self, name: LaneName, newest: int, newest_ts: int, seq: np.ndarray, digest: np.ndarray
    ) -> None:
        """Continue a lane of a log; its source states incarnations.

        Args:
            name: the lane.
            newest: the largest number of this incarnation in the log; -1: none.
            newest_ts: latest possible ts of its event [ns].
            seq: numbers of the lane's last events in the log; -1: none.
            digest: digests of these events.
        """
        known = name in self._names
        place = self._place(name, True)
        of = self._lanes[place]
        of["declared"] = self.declared(*name[1:3])
        of["restarts"] += known
        of["bits"] = of["declared"]
        of["base"] = of["next"] = of["found_bits"] = of["wraps"] = 0
        of["newest"], of["newest_ts"], of["first"] = newest, newest_ts, NONE
        of["began"] = _NEVER
        of["numbered"] = of["resumed"] = newest >= 0
        if len(seq):
            self.some = True
            self._make_room(len(seq))
            with for_rows(len(seq)):
                self._entered += _remember(self._young, place, int(of["restarts"]), seq, digest)

    def rename(self, name: LaneName, to: LaneName) -> None:
        """Reuse the entry of an ended lane for another one; call ``begin`` for it next."""
        self._names[to] = self._names.pop(name)
        self._lanes[self._names[to]]["reused"] = 0

    def snapshot(self) -> dict[str, Any]:
        """Return the state, for ``restore``."""
        return {
            "names": sorted(self._names, key=self._names.__getitem__),
            "lanes": self._lanes[: len(self._names)],
            "young": tuple(self._young), "old": tuple(self._old),
            "entered": self._entered, "some": self.some,
        }  # fmt: skip

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a ``snapshot``."""
        self._names = {tuple(name): place for place, name in enumerate(state["names"])}
        self._lanes = state["lanes"].astype(LANE)
        self._young, self._old = SeenNumbers(*state["young"]), SeenNumbers(*state["old"])
        self._entered, self.some = state["entered"], state["some"]

    def found(self, names: Iterable[LaneName] | None = None) -> tuple[CountedLane, ...]:
        """Return the lanes among ``names`` (None: all) with findings."""
        listed = []
        for name in self._names if names is None else names:
            of = self._lanes[self._names[name]]
            counts = [int(of[name]) for name in
                      ("found_bits", "wraps", "restarts", "reused", "unnumbered")]  # fmt: skip
            if any(counts[2:]) or counts[0]:
                listed.append(CountedLane(*name[:3], *counts))
        return tuple(listed)

    def bits(self, name: LaneName) -> int:
        """Return the bits of the lane's counter, declared or recognised; 0: unknown."""
        return int(self._lanes[self._names[name]]["bits"])

    def declared(self, source: str, stream: str) -> int:
        """Return the declared bits of the counter of a source's stream; 0: not declared."""
        names = (f"{source}/{stream}", stream, "")
        return next((self._bits[name] for name in names if name in self._bits), 0)

    def _place(self, name: LaneName, stated: bool) -> int:
        place = self._names.setdefault(name, len(self._names))
        if place >= len(self._lanes):
            more = np.zeros(max(16, 2 * len(self._lanes)), LANE)
            more["first"], more["newest"] = NONE, NONE
            more[: len(self._lanes)] = self._lanes
            self._lanes = more
        of = self._lanes[place]
        if not of["declared"]:
            of["bits"] = of["bits"] or self.declared(*name[1:3])
            of["declared"] = self.declared(*name[1:3])
        of["stated"] |= bool(stated)
        return place

    def _make_room(self, more: int) -> None:
        """Make room for ``more`` numbers in the young table, at most half full."""
        if self._entered + more > self._remembered * 2:
            self._old, self._young, self._entered = self._young, _nothing(_SLOTS_LEAST), 0
        slots = len(self._young.keys)
        while slots < 2 * (self._entered + more):
            slots *= 2
        if slots > len(self._young.keys):
            before, self._young = self._young, _nothing(slots)
            _enter_all(self._young, *before)


def _nothing(slots: int) -> SeenNumbers:
    return SeenNumbers(np.zeros(slots, np.int64), np.zeros(slots, np.int64))


def read_seq_bits(value: object) -> dict[str, int]:
    """Return ``seq_bits`` of the user by stream; one value is for all streams.

    Args:
        value: None, 8, 16, 32, or these by stream or ``SOURCE/STREAM``.

    Raises:
        UserError: the bits are none of these.
    """
    if value is None:
        return {}
    named: dict[Any, Any] = dict(value) if isinstance(value, Mapping) else {"": value}
    for stream, bits in named.items():
        if bits not in BITS or isinstance(bits, bool):
            of = f" of stream {stream}" if stream else ""
            raise UserError(f"seq_bits{of}: {bits!r}; a counter has 8, 16 or 32 bits")
    return named


# --- content ------------------------------------------------------------------------------------

_ODD: Final = np.uint64(0x9E3779B97F4A7C15)


def digests(
    columns: Mapping[str, pa.Array], attrs: Mapping[str, pa.Array], rows: int
) -> np.ndarray:
    """Return 64 bits of each row's time, duration, type, id and attributes; equal for equal
    content.

    Null counts as absent, so the result does not depend on which columns a part has.
    """
    total = np.zeros(rows, np.uint64)
    of = {name: columns[name] for name in (r.TS, r.TYPE, r.ID) if name in columns}
    if r.TE in columns:
        of[r.TE] = pc.subtract(columns[r.TE], columns[r.TS])
    of |= {f"attrs.{name}": column for name, column in attrs.items()}
    for name, column in of.items():
        if column.null_count == rows:
            continue
        salt = np.frombuffer(blake2b(name.encode(), digest_size=8).digest(), np.uint64)
        bits = _mixed(_value_bits(column) ^ salt)
        if name == r.TE:
            bits[pc.equal(pc.fill_null(column, 0), 0).to_numpy(zero_copy_only=False)] = 0
        if column.null_count:
            bits[column.is_null().to_numpy(zero_copy_only=False)] = 0
        total += bits
    return total.view(np.int64)


def _mixed(bits: np.ndarray) -> np.ndarray:
    """Mix 64 bits (splitmix64, Steele et al. 2014)."""
    bits = (bits ^ bits >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ bits >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    mixed_bits: np.ndarray = bits ^ bits >> np.uint64(31)
    return mixed_bits


def _value_bits(column: pa.Array) -> np.ndarray:
    """Return 64 bits per value; a whole number has the same bits as int and as float."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        codes = pc.fill_null(column.indices, 0).to_numpy(zero_copy_only=False)
        texts = np.append(_text_bits(column.dictionary.cast(pa.large_string())), np.uint64(0))
        return np.asarray(texts[codes])
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _text_bits(column.cast(pa.large_string()))
    if pa.types.is_null(kind):
        return np.zeros(len(column), np.uint64)
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int64())
    values = pc.fill_null(column, 0).to_numpy(zero_copy_only=False)
    if values.dtype.kind != "f":
        return np.asarray(values.astype(np.int64).view(np.uint64))
    values = values.astype(np.float64)
    bits: np.ndarray = values.view(np.uint64).copy()
    whole = (np.abs(values) < 2.0**63) & (np.trunc(values) == values)
    bits[whole] = values[whole].astype(np.int64).view(np.uint64)
    return bits


def _text_bits(texts: pa.Array) -> np.ndarray:
    """Return a polynomial hash of each text's bytes, modulo 2^64."""
    if not len(texts):
        return np.zeros(0, np.uint64)
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    length = np.diff(ends)
    if data is None or not length.any():
        return length.astype(np.uint64)
    letters = np.frombuffer(data, np.uint8)[ends[0] : ends[-1]].astype(np.uint64)
    powers = np.cumprod(np.full(int(length.max()), _ODD))
    letters += np.uint64(1)
    letters *= powers[np.arange(len(letters)) - np.repeat(ends[:-1] - ends[0], length)]
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(letters)])
    return np.asarray(sums[ends[1:] - ends[0]] - sums[ends[:-1] - ends[0]])
