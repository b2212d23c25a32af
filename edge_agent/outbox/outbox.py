"""One start of an agent on the disk: who it is, how far it is acked, and the events of its streams.

Folder: ``start`` (who), ``position`` (how far), ``sNN-FIRST.seg`` (events; ``segment``), ``keys``
(of the messages that they came in), ``intervals`` (those that are open:
``edge_agent.abstraction``). A process that opens it goes on with the same start
(``edge_agent.sequence``): the same incarnation, the same 64 bits, the next numbers. Each process
takes control numbers of its own, 2**40 of them.

What is stored when: the events before they are sent; that a gateway has welcomed this start before
anything else is sent; the position before a segment is removed, and now and then.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from edge_agent.clock_reports import CLOCKS_MAX
from edge_agent.device_clock import ClockBound
from edge_agent.messages import StreamSchema
from edge_agent.outbox.files import Files
from edge_agent.outbox.journal import Journal
from edge_agent.outbox.keys import StoredKeys
from edge_agent.outbox.spool import Spool
from edge_agent.outbox.whole_record import load, store
from edge_agent.sequence import Resumed

CONTROLS_PER_PROCESS: Final = 1 << 40
START: Final = "start"
POSITION: Final = "position"


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Who numbers the events. ``processes``: how many have opened it.

    ``unsent``: per stream the number from which on no process has sent anything, as of the last
    one that opened it; ``quiet``: whether that one has sent nothing yet.
    """

    site: str
    source: str
    incarnation: int
    start: int
    streams: tuple[StreamSchema, ...]
    welcomed: bool = False
    ended: bool = False
    """Its inputs have ended: nothing will be added."""
    processes: int = 0
    unsent: tuple[int, ...] = ()
    quiet: bool = False
    sessions: Mapping[str, int] = field(default_factory=dict)
    """The numbers of sessions with senders (``edge_agent.inputs.base.Outlet``)."""
    clocks: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """The newest bounds of devices' clocks: ``low high stamp mono skew_ppb`` of ``ClockBound``, on
    the wall clock in place of the monotonic one, which ends with the machine's run."""

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "site": self.site, "source": self.source, "incarnation": self.incarnation,
            "start": self.start, "welcomed": self.welcomed, "ended": self.ended,
            "processes": self.processes, "unsent": list(self.unsent), "quiet": self.quiet,
            "sessions": dict(self.sessions), "clocks": dict(self.clocks),
            # Pairs, as the order of attributes is that of the columns: JSON's objects have none.
            "streams": [[stream.name, list(stream.attrs.items())] for stream in self.streams],
        }  # fmt: skip

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Start:
        """What ``as_dict`` gave."""
        streams = tuple(StreamSchema(name, dict(attrs)) for name, attrs in value["streams"])
        unsent = tuple(value.get("unsent", ()))
        return cls(**{**value, "streams": streams, "unsent": unsent})


class Outbox:
    """The events of one start. *Disk*: as in ``Spool``."""

    def __init__(
        self, files: Files, start: Start, bytes_max: Sequence[int], segment_bytes: int,
        folder: Path = Path(),
    ) -> None:  # fmt: skip
        """*Disk.* Opens what is there. ``bytes_max``: per stream.

        Raises:
            OSError: the folder cannot be read.
        """
        self.folder = folder
        """Where ``files`` are, for messages."""
        self.counts: Counter[str] = Counter()
        """``store_failed``: times that who or how far could not be stored."""
        self._files = files
        known = load(files, POSITION) or {}
        acked = [int(known.get(stream.name, 0)) for stream in start.streams]
        self.spools = [
            Spool(files, index, most, min(segment_bytes, max(most // 8, 1)), acked[index])
            for index, most in enumerate(bytes_max)
        ]
        nexts = [spool.next for spool in self.spools]
        self.keys = StoredKeys(files, nexts)
        self.intervals = Journal(files, nexts, [spool.committed for spool in self.spools])
        # What the disk has lost since it was sent is not to be numbered again: see ``renew``.
        before = start.unsent if start.quiet else [spool.next for spool in self.spools]
        unsent = [min(old, spool.next) for old, spool in zip(before, self.spools, strict=True)]
        self.start = replace(start, processes=start.processes + 1, unsent=tuple(unsent), quiet=True)
        self._acked = acked
        self._stored: list[int] = []
        """What is on the disk for sure."""
        self.store_start()

    def resumed(self) -> Resumed:
        """Where a session of this process begins."""
        return Resumed(
            start=self.start.start,
            welcomed=self.start.welcomed,
            again=self.start.processes > 1,
            next_seqs=tuple(spool.next for spool in self.spools),
            acked=tuple(self._acked),
            control_first=(self.start.processes - 1) * CONTROLS_PER_PROCESS,
            unsent=self.start.unsent,
        )

    def welcomed(self, incarnation: int) -> None:
        """*Disk.* A gateway has taken this start under ``incarnation``: sending begins."""
        self.start = replace(self.start, incarnation=incarnation, welcomed=True, quiet=False)
        self.store_start()

    def renew(self, received: Sequence[int], draw: int) -> None:
        """*Disk.* The gateway has ``received`` more than this disk knows of: a new start begins.

        Its incarnation is the next one. Events that no process has sent, and those that the gateway
        does not have, are sent by it, with the numbers that they have on the disk. ``draw``: 64
        random bits.

        Raises:
            OSError: it could not be stored, so it must not be used; may be called again.
        """
        have = zip(received, self.start.unsent, strict=True)
        self.acked([min(pair) for pair in have])
        self._store_position(self._acked)
        start = replace(
            self.start, incarnation=self.start.incarnation + 1, start=draw % (1 << 64),
            welcomed=False, processes=1, unsent=tuple(self._acked), quiet=True,
        )  # fmt: skip
        store(self._files, START, start.as_dict())
        self.start = start
        for spool, ack in zip(self.spools, self._acked, strict=True):
            spool.rewind(ack)

    def session(self, sender: str, draw: int, *, kept: bool) -> int:
        """*Disk.* The number of the session with ``sender``: ``draw`` where it begins."""
        known = self.start.sessions.get(sender)
        if kept and known is not None:
            return known
        self.start = replace(self.start, sessions={**self.start.sessions, sender: draw})
        self.store_start()
        return draw

    def clocks(self, bounds: Sequence[ClockBound], ahead_ns: int) -> None:
        """*Disk.* Remembers what clocks are bounded by, before the events that they stamped.

        ``ahead_ns``: the wall clock minus the monotonic one.
        """
        found = dict(self.start.clocks)
        for each in bounds:
            wall = each.low - ahead_ns, each.high - ahead_ns, each.stamp, each.mono + ahead_ns
            found[each.clock] = (*wall, each.skew_ppb)
        newest = dict(sorted(found.items(), key=lambda each: each[1][3])[-CLOCKS_MAX:])
        self.start = replace(self.start, clocks=newest)
        self.store_start()

    def known_clocks(self, ahead_ns: int) -> list[ClockBound]:
        """What ``clocks`` remembers, also of processes before this one."""
        return [
            ClockBound(name, low + ahead_ns, high + ahead_ns, stamp, wall - ahead_ns, skew_ppb)
            for name, (low, high, stamp, wall, skew_ppb) in self.start.clocks.items()
        ]

    def ended(self) -> None:
        """*Disk.* Nothing will be added."""
        self.start = replace(self.start, ended=True)
        self.store_start()

    def store_start(self) -> None:
        """*Disk.* A disk that refuses is counted: the agent goes on with what it knows."""
        try:
            store(self._files, START, self.start.as_dict())
        except OSError:
            self.counts["store_failed"] += 1

    def acked(self, acked: Sequence[int]) -> None:
        """The gateway has these numbers of each stream, or was told that they are gone."""
        self._acked = [max(pair) for pair in zip(self._acked, acked, strict=True)]

    def due(self) -> bool:
        """Whether ``settle`` would remove a segment."""
        return any(spool.trims(ack) for spool, ack in zip(self.spools, self._acked, strict=True))

    def settle(self) -> None:
        """*Disk.* Stores the position, then removes the segments that nobody wants any more."""
        acked = list(self._acked)
        try:
            if acked != self._stored:
                self._store_position(acked)
            for spool, ack in zip(self.spools, acked, strict=True):
                spool.trim(ack)
        except OSError:
            self.counts["store_failed"] += 1

    @property
    def unwritten(self) -> bool:
        """Whether ``commit`` has something to do."""
        return self.intervals.unwritten or any(spool.unwritten for spool in self.spools)

    def commit(self) -> None:
        """*Disk.* What was appended to any stream is on the disk.

        Raises:
            OSError: of one stream at least; all were tried.
        """
        failed: OSError | None = None
        # Keys and changes of intervals are added before their events: all those of events below
        # these numbers are known.
        ends = [spool.next for spool in self.spools]
        self.keys.commit()
        self.intervals.commit([spool.committed for spool in self.spools])
        for spool, end in zip(self.spools, ends, strict=True):
            try:
                spool.commit(end)
            except OSError as error:
                failed = error
        if failed is not None:
            raise failed

    def close(self) -> None:
        """*Disk.* Everything that can be is on the disk; raises OSError when some cannot."""
        try:
            self.commit()
        finally:
            self.settle()
            self.keys.close()
            self.intervals.close()
            for spool in self.spools:
                spool.close()

    def _store_position(self, acked: list[int]) -> None:
        names = [stream.name for stream in self.start.streams]
        store(self._files, POSITION, dict(zip(names, acked, strict=True)))
        self._stored = list(acked)
