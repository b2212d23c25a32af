"""Numbers of peers with their own counters: unwrapped before they are recorded (SPEC 3.1).

An agent declares in its HELLO (``NUMBERS``) that it numbers each event once, in 64 bits. Any other
peer may be a device whose counter has 8, 16 or 32 bits, or that uses a number twice. Its messages
go through the same ``Numbering`` as the rows of a file: they get 64-bit numbers, and an event whose
number belongs to another event gets none. Acks use the 64-bit numbers.

A restarted gateway knows from its log the newest number of each lane, and the content of the
``RECENT_ROWS`` newest records.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa

from slackwater.edge_agent import messages as m
from slackwater.edge_agent import records as r
from slackwater.edge_agent.pull_back import BatchSlice, Events, part_of
from slackwater.edge_agent.records import Kind
from slackwater.engine.core.frame import ATTR_PREFIX, column_ints, kinds_of
from slackwater.engine.gateway.content import ContentRefused, check_data
from slackwater.engine.gateway.frames import FrameBuilder, Part
from slackwater.engine.gateway.recall import RECENT_ROWS, Recalled
from slackwater.engine.gateway.settings import GatewaySettings
from slackwater.engine.log.describe import column_codes, group_rows, string_codes

if TYPE_CHECKING:
    from slackwater.engine.gateway.peers import Source
    from slackwater.engine.log.input.numbering import CountedLane, LaneName, Numbering

_KINDS: Final = ("wrapped", "reused")
_ORDERED: Final = (m.NUMBERS, m.PULL_BACK)
"""Capabilities of agents; agents from before ``NUMBERS`` declare the other one."""


def counts_itself(hello: m.Hello) -> bool:
    """Whether the peer may number events in another way than agents.

    >>> counts_itself(m.Hello("main", "d", "", 1, True, 0, ()))
    True
    >>> counts_itself(m.Hello("main", "d", "", 1, True, 0, (), capabilities=("numbers",)))
    False
    """
    return not set(_ORDERED) & set(hello.capabilities)


class _PastLane(NamedTuple):
    """The last events of one lane in the log: numbers (-1: none), content, time of the newest."""

    seq: np.ndarray
    digest: np.ndarray
    ts: int


class Counters:
    """Counters of all peers of a gateway that number events themselves.

    Args:
        settings: for ``seq_bits``.
        recalled: knowledge of the log that is continued.
    """

    def __init__(self, settings: GatewaySettings, recalled: Recalled) -> None:
        self._settings = settings
        self._frames = recalled.recent
        self._last_ts = recalled.last_arrival or 0
        """Time of a lane's newest event, if the last frames have none of it."""
        self._numbering: Numbering | None = None
        self._past: dict[LaneName, _PastLane] = {}
        self._starts: dict[tuple[str, str], dict[str, int]] = {}
        """By source and stream, the incarnation of each lane."""
        self._spare: list[LaneName] = []
        """Lanes of forgotten sources, for reuse."""
        self.news: list[CountedLane] = []
        """Lanes with a first finding; the reader clears the list."""
        self._known: set[tuple[tuple[str, str], str]] = set()

    def numbered(self, source: Source, data: Events) -> list[tuple[int | None, Events]]:
        """Split the rows of a message into messages of consecutive numbers; None: rows without one.

        Those without numbers come first: they must not be deferred with the others and resent.

        Raises:
            ContentRefused: ``seq_bits``: a number does not fit in the declared bits.
        """
        if isinstance(data, BatchSlice):
            data = data.to_data()
        schema = source.schemas[data.stream]
        name = (source.site, source.name, schema.name, 0)
        numbering = self._begun(source, data.stream, name)
        declared = numbering.declared(source.name, schema.name)
        if declared and data.first_seq >= 1 << declared:
            raise ContentRefused(
                "seq_bits", f"number {data.first_seq} does not fit in {declared} bits, as "
                f"[seq_bits] says of {schema.name}; leave it out, or say more",
            )  # fmt: skip
        seq = data.first_seq + np.arange(data.rows, dtype=np.int64)
        if bits := numbering.bits(name):
            seq &= (1 << bits) - 1 if data.first_seq < 1 << bits else -1
        numbers = self._full_numbers(numbering, name, seq, data, schema)
        cuts = np.flatnonzero(np.diff(numbers) != np.where(numbers[:-1] < 0, 0, 1)) + 1
        self._notice(numbering.found([name]))
        parts: list[tuple[int | None, Events]] = []
        for a, b in zip([0, *cuts.tolist()], [*cuts.tolist(), data.rows], strict=True):
            number = int(numbers[a])
            part = data if b - a == data.rows else part_of(data, a, b)
            assert isinstance(part, m.Data)
            parts.append((number, part._replace(first_seq=number)) if number >= 0 else (None, part))
        return sorted(parts, key=lambda part: part[0] is not None)

    def border(self, source: Source, stream: int, number: int) -> int:
        """Convert the number of a promise or of the end of a stream to 64 bits."""
        schema, numbering = source.schemas[stream], self._numbering
        name = (source.site, source.name, schema.name, 0)
        if numbering is None or self._start(name) != source.incarnation:
            return number
        modulus = 1 << numbering.bits(name)
        if not number < modulus or modulus == 1:
            return number
        newest = source.lanes[stream].received.newest
        by = (number - newest) % modulus
        return newest + by - (modulus if by > modulus // 2 else 0)

    def forget(self, source: Source) -> None:
        """Forget a source without records that has left."""
        self._spare += [(*source.key, stream, 0) for stream in self._starts.pop(source.key, {})]
        self._known -= {(source.key, kind) for kind in _KINDS}

    # --- inside

    def _notice(self, lanes: tuple[CountedLane, ...]) -> None:
        for lane in lanes:
            key = ((lane.site, lane.source), _KINDS[lane.reused > 0])
            if key not in self._known:
                self._known.add(key)
                self.news.append(lane)

    def _start(self, name: LaneName) -> int | None:
        return self._starts.get(name[:2], {}).get(name[2])

    def _begun(self, source: Source, stream: int, name: LaneName) -> Numbering:
        from slackwater.engine.log.input.numbering import Numbering  # noqa: PLC0415 - few gateways need it

        if self._numbering is None:
            self._numbering = Numbering(self._settings.seq_bits, RECENT_ROWS)
            self._read_frames()
        if self._start(name) != source.incarnation:
            if self._start(name) is None and self._spare:
                self._numbering.rename(self._spare.pop(), name)
            self._starts.setdefault(source.key, {})[name[2]] = source.incarnation
            past = self._past.pop((*name[:3], source.incarnation), None)
            newest = source.lanes[stream].received.newest
            none = np.zeros(0, np.int64)
            seq, digest, ts = past or _PastLane(none, none, self._last_ts)
            self._numbering.begin(name, newest, ts, seq, digest)
        return self._numbering

    def _full_numbers(
        self, numbering: Numbering, name: LaneName, seq: np.ndarray, data: m.Data,
        schema: m.StreamSchema,
    ) -> np.ndarray:  # fmt: skip
        """The 64-bit numbers; -1: none."""
        nothing = np.zeros(data.rows, np.int64)
        try:
            check_data(data, schema)
        except ContentRefused:
            sound = False
        else:
            sound = True

        def content() -> np.ndarray:
            builder = FrameBuilder("")
            builder.add(Part(Kind.EVENT, 0, data, "", schema.name, 0, 0, schema))
            return _digests(builder.build().batch)

        numbers, _ = numbering.count(
            [name], np.ones(1, np.bool_), group_rows([nothing]), seq,
            np.frombuffer(data.ts, "<i8"), content if sound else lambda: nothing,
        )  # fmt: skip
        # Unreadable rows are refused together, by their numbers, so that they are not resent.
        return numbers if sound else max(int(numbers[0]), 0) + np.arange(data.rows)

    def _read_frames(self) -> None:
        """Read the events of the last frames, by lane."""
        found: dict[LaneName, list[_PastLane]] = {}
        while self._frames:
            frame = self._frames.popleft()
            batch = frame.batch
            batch = batch.filter(pa.array(kinds_of(batch) == Kind.EVENT))
            if not batch.num_rows:
                continue
            digest = _digests(batch)
            seq, ts = column_ints(batch, r.SEQ, -1), column_ints(batch, r.TS, 0)
            source_codes, sources = string_codes(batch.column(r.SOURCE))
            stream_codes, streams = column_codes(batch, r.STREAM, r.DEFAULT_STREAM)
            start = column_ints(batch, r.INCARNATION, 0)
            groups = group_rows([source_codes, stream_codes, start])
            for of in np.split(groups.order, groups.starts[1:]):
                row = of[0]
                name = (frame.site, sources[source_codes[row]], streams[stream_codes[row]],
                        int(start[row]))  # fmt: skip
                newest = int(ts[of[np.argmax(seq[of])]])
                found.setdefault(name, []).append(_PastLane(seq[of], digest[of], newest))
        for name, parts in found.items():
            last = max(parts, key=lambda part: int(part.seq.max()))
            self._past[name] = _PastLane(
                np.concatenate([part.seq for part in parts]),
                np.concatenate([part.digest for part in parts]), last.ts,
            )  # fmt: skip


def _digests(batch: pa.RecordBatch) -> np.ndarray:
    from slackwater.engine.log.input.numbering import digests  # noqa: PLC0415 - few gateways need it

    columns = {name: batch.column(name) for name in batch.schema.names}
    attrs = {
        name.removeprefix(ATTR_PREFIX): column
        for name, column in columns.items()
        if name.startswith(ATTR_PREFIX)
    }
    return digests(columns, attrs, batch.num_rows)
