"""The folder of an outbox: the starts of an agent on the disk, with their acks and events."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from slackwater.edge_agent.clock_reports import CLOCKS_MAX
from slackwater.edge_agent.device_clock import DeviceClockBound
from slackwater.edge_agent.errors import AgentError, SettingsError
from slackwater.edge_agent.messages import StreamSchema
from slackwater.edge_agent.outbox.disk import DiskFiles, Files, boot_id, load, store
from slackwater.edge_agent.outbox.journal import Journal, StoredKeys
from slackwater.edge_agent.outbox.spool import Spool
from slackwater.edge_agent.sequence import ResumedStart

# The folder of an outbox: one subfolder per start of the agent; the newest is in use.
#
# An earlier start is kept until the gateway has acked all its events. It is earlier because its
# inputs ended, or because the streams in the settings have changed: events with the new schema
# need a new start.


LOCK: Final = ".lock"
LOST: Final = ".lost"
"""Suffix of a subfolder whose identity file is lost."""
SEGMENT_BYTES: Final = 1 << 20


class OutboxFolder:
    """All starts in ``folder``; only one process may have it open."""

    def __init__(self, folder: Path, tell: Callable[[str], None]) -> None:
        """Raises AgentError: the folder cannot be created, or another process has it open."""
        self.folder = folder
        self._tell = tell
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise AgentError(f"{folder}: {error.strerror}") from error
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise AgentError(f"{folder}: another agent has this outbox") from error

    def open(
        self, site: str, source: str, streams: Sequence[StreamSchema], bytes_max: Sequence[int],
        wall_ns: int, draw: Callable[[], int],
    ) -> list[Outbox]:  # fmt: skip
        """*Disk.* Open the earlier starts that still have unacked events and, last, the current
        start.

        Args:
            site: site of the source.
            source: name of the source.
            streams: the streams of the current settings.
            bytes_max: size limit per stream [bytes].
            wall_ns: the incarnation of a new start, unless an earlier one is not below it.
            draw: returns 64 random bits.

        Raises:
            SettingsError: the folder holds events of another source.
            AgentError: the folder cannot be used.
        """
        try:
            found = [(path, self._start(path)) for path in starts(self.folder)]
            known = [(path, start) for path, start in found if start is not None]
            for path, start in known:
                if (start.site, start.source) != (site, source):
                    raise SettingsError(
                        f"{path}: holds events of {start.site}/{start.source}, and this agent is "
                        f"{site}/{source}: give it an outbox of its own"
                    )
            opened = [self._opened(path, start, bytes_max) for path, start in known]
            newest = known[-1][1] if known else None
            if newest is None or newest.ended or _shape(newest.streams) != _shape(streams):
                sessions = {} if newest is None else newest.sessions
                counters = {} if newest is None else newest.counters
                above = max((start.incarnation for _, start in known), default=-1)
                number = 1 + max((int(path.name[:6]) for path, _ in found), default=0)
                made = OutboxStart(
                    site=site, source=source, incarnation=max(wall_ns, above + 1),
                    start=draw() % (1 << 64), streams=tuple(streams), sessions=sessions,
                    counters=counters,
                )  # fmt: skip
                opened.append(self._opened(self.folder / f"{number:06d}", made, bytes_max))
        except OSError as error:
            raise AgentError(f"{self.folder}: {error.strerror}") from error
        return opened

    def remove(self, outbox: Outbox) -> None:
        """*Disk.* Removes a start whose events are all acked."""
        outbox.close()
        shutil.rmtree(outbox.folder)

    def close(self) -> None:
        """Release the lock on the folder."""
        os.close(self._lock)

    def _start(self, path: Path) -> OutboxStart | None:
        value = load(DiskFiles(path), START)
        if value is not None:
            return OutboxStart.from_dict(value)
        aside = path.with_name(path.name + LOST)
        path.rename(aside)
        self._tell(f"{path}: nobody knows who numbered these events; they are kept in {aside}")
        return None

    def _opened(self, path: Path, start: OutboxStart, bytes_max: Sequence[int]) -> Outbox:
        most = bytes_max if len(start.streams) == len(bytes_max) else [max(bytes_max)]
        of_each = [most[min(i, len(most) - 1)] for i in range(len(start.streams))]
        return Outbox(DiskFiles(path), start, of_each, SEGMENT_BYTES, path, boot_id())


def _shape(streams: Sequence[StreamSchema]) -> list[tuple[str, list[tuple[str, str]]]]:
    """What determines the layout of messages: names and types of attributes, in order."""
    return [(stream.name, list(stream.attrs.items())) for stream in streams]


def starts(folder: Path) -> list[Path]:
    """The subfolders of an outbox, from oldest to newest."""
    return sorted(path for path in folder.iterdir() if path.is_dir() and path.name.isdecimal())


# One start of an agent on the disk: its identity, its acks, and the events of its streams.
#
# Files: ``start`` (identity), ``position`` (acks), ``sNN-FIRST.seg`` (events; see ``spool``),
# ``keys`` (of received messages), ``intervals`` (open ones: ``edge_agent.abstraction``). A process
# that opens the folder continues the same start (``edge_agent.sequence``): the same incarnation,
# the same 64 bits, the next numbers. Each process uses its own range of 2**40 control numbers.
#
# Order of writes: events before they are sent; the fact that a gateway has welcomed this start
# before anything else is sent; the position before a segment is removed, and from time to time.


CONTROLS_PER_PROCESS: Final = 1 << 40
START: Final = "start"
_REFUTES: Final = "!"
"""Suffix of a clock's name: this bound contradicts the other bound of the same clock."""
POSITION: Final = "position"


@dataclass(frozen=True, slots=True, kw_only=True)
class OutboxStart:
    """Identity of one start. ``processes``: how many processes have opened it.

    ``unsent``: per stream, the number from which nothing was sent when the last process opened the
    start; ``quiet``: whether that process has sent nothing yet.
    """

    site: str
    source: str
    incarnation: int
    start: int
    streams: tuple[StreamSchema, ...]
    welcomed: bool = False
    ended: bool = False
    """Its inputs have ended: no event will be added."""
    processes: int = 0
    unsent: tuple[int, ...] = ()
    quiet: bool = False
    sessions: Mapping[str, int] = field(default_factory=dict)
    """Numbers of the sessions with senders (``edge_agent.inputs.base.Outlet``)."""
    clock_bounds: Mapping[str, Sequence[int]] = field(default_factory=dict)
    """The newest bounds of devices' clocks: ``low high stamp mono skew_ppb`` of
    ``DeviceClockBound``, valid during ``boot``: the monotonic clock starts again at the next one.
    """
    boot: str = ""
    counters: Mapping[str, Mapping[str, Sequence[int]]] = field(default_factory=dict)
    """Per input and counter size, the devices' last numbers at an orderly stop of the agent."""

    def as_dict(self) -> dict[str, Any]:
        """The value as JSON types."""
        return {
            "site": self.site, "source": self.source, "incarnation": self.incarnation,
            "start": self.start, "welcomed": self.welcomed, "ended": self.ended,
            "processes": self.processes, "unsent": list(self.unsent), "quiet": self.quiet,
            "sessions": dict(self.sessions), "counters": dict(self.counters),
            "clock_bounds": dict(self.clock_bounds), "boot": self.boot,
            # Pairs, because the order of attributes is the order of columns.
            "streams": [[stream.name, list(stream.attrs.items())] for stream in self.streams],
        }  # fmt: skip

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> OutboxStart:
        """Inverse of ``as_dict``."""
        streams = tuple(StreamSchema(name, dict(attrs)) for name, attrs in value["streams"])
        unsent = tuple(value.get("unsent", ()))
        # Older versions stored bounds as "clocks", relative to the wall clock.
        known = {name: each for name, each in value.items() if name != "clocks"}
        return cls(**{**known, "streams": streams, "unsent": unsent})


class Outbox:
    """The events of one start. *Disk*: as in ``Spool``."""

    def __init__(
        self, files: Files, start: OutboxStart, bytes_max: Sequence[int], segment_bytes: int,
        folder: Path = Path(), boot: str = "",
    ) -> None:  # fmt: skip
        """*Disk.* Open what is on the disk.

        Args:
            files: of the outbox.
            start: its identity.
            bytes_max: size limit per stream [bytes].
            segment_bytes: size limit of a file [bytes].
            folder: of ``files``, for messages.
            boot: the identity of the machine's boot; "": not known.

        Raises:
            OSError: the folder cannot be read.
        """
        self.folder = folder
        """Folder of ``files``, for messages."""
        self.counts: Counter[str] = Counter()
        """``store_failed``: failed writes of the identity or the position;
        ``possible_duplicates``: see ``renew``.
        """
        self._files, self._boot = files, boot
        known = load(files, POSITION) or {}
        acked = [int(known.get(stream.name, 0)) for stream in start.streams]
        self.spools = [
            Spool(files, index, most, min(segment_bytes, max(most // 8, 1)), acked[index])
            for index, most in enumerate(bytes_max)
        ]
        self._found = nexts = [spool.next for spool in self.spools]
        self.keys = StoredKeys(files, self.spools)
        self.intervals = Journal(files, nexts, [spool.committed for spool in self.spools])
        # Numbers that were sent and that the disk has lost must not be used again: see ``renew``.
        before = start.unsent if start.quiet else nexts
        unsent = [min(old, spool.next) for old, spool in zip(before, self.spools, strict=True)]
        self.counters = start.counters
        """Counters of devices as the previous process stored them; empty if it was killed."""
        self.start = replace(
            start, processes=start.processes + 1, unsent=tuple(unsent), quiet=True, counters={}
        )
        self._acked = acked
        self._stored: list[int] = []
        """The position that is certainly on the disk."""
        self.store_start()

    def resumed(self) -> ResumedStart:
        """Where the session of this process starts."""
        return ResumedStart(
            start=self.start.start,
            welcomed=self.start.welcomed,
            again=self.start.processes > 1,
            next_seqs=tuple(spool.next for spool in self.spools),
            acked=tuple(self._acked),
            control_first=(self.start.processes - 1) * CONTROLS_PER_PROCESS,
            unsent=self.start.unsent,
        )

    def welcomed(self, incarnation: int) -> None:
        """*Disk.* Record that a gateway has accepted this start under ``incarnation``."""
        self.start = replace(self.start, incarnation=incarnation, welcomed=True, quiet=False)
        self.store_start()

    def renew(self, received: Sequence[int], draw: int) -> None:
        """*Disk.* Begin a new start, because the gateway has ``received`` more than this disk
        knows.

        Its incarnation is the next one. It sends the events that no process has sent and those that
        the gateway does not have, under the numbers that they have on the disk. ``draw``: 64 random
        bits.

        If the disk is a copy made before its events were sent, the gateway has events that no
        process of this disk has sent. A disk that lost numbers and used them again looks the same,
        so these events are sent as well, and counted as ``possible_duplicates``.

        Raises:
            OSError: the new start is not stored and must not be used; the call may be repeated.
        """
        self.acked([min(pair) for pair in zip(received, self.start.unsent, strict=True)])
        self._store_position(self._acked)
        start = replace(
            self.start, incarnation=self.start.incarnation + 1, start=draw % (1 << 64),
            welcomed=False, processes=1, unsent=tuple(self._acked), quiet=True,
        )  # fmt: skip
        store(self._files, START, start.as_dict())
        self.start = start
        for have, ack, found in zip(received, self._acked, self._found, strict=True):
            self.counts["possible_duplicates"] += max(min(have, found) - ack, 0)
        for spool, ack in zip(self.spools, self._acked, strict=True):
            spool.rewind(ack)

    def session(self, sender: str, draw: int, *, kept: bool) -> int:
        """*Disk.* The number of the session with ``sender``; a new session gets ``draw``."""
        known = self.start.sessions.get(sender)
        if kept and known is not None:
            return known
        self.start = replace(self.start, sessions={**self.start.sessions, sender: draw})
        self.store_start()
        return draw

    def clocks(self, bounds: Sequence[DeviceClockBound]) -> None:
        """*Disk.* Store bounds of devices' clocks, before the events that these clocks stamped."""
        found = dict(self.start.clock_bounds) if self.start.boot == self._boot else {}
        for each in bounds:
            values = each.low, each.high, each.stamp, each.mono, each.skew_ppb
            found[each.clock + _REFUTES * each.refutes] = values
        newest = dict(sorted(found.items(), key=lambda each: each[1][3])[-CLOCKS_MAX:])
        self.start = replace(self.start, clock_bounds=newest, boot=self._boot)
        self.store_start()

    def known_clocks(self) -> list[DeviceClockBound]:
        """The bounds that ``clocks`` stored during this boot, also by earlier processes.

        Those of another boot are lost: nothing says how far the wall clock was set meanwhile.
        """
        if not self._boot or self.start.boot != self._boot:
            return []
        return [
            DeviceClockBound(
                name.removesuffix(_REFUTES), low, high, stamp, mono, skew_ppb,
                name.endswith(_REFUTES),
            )
            for name, (low, high, stamp, mono, skew_ppb) in self.start.clock_bounds.items()
        ]  # fmt: skip

    def stopped(self, counters: Mapping[str, Mapping[str, Sequence[int]]]) -> None:
        """*Disk.* Store the devices' ``counters`` at an orderly stop: all their events are here."""
        self.start = replace(self.start, counters=counters)
        self.store_start()

    def ended(self) -> None:
        """*Disk.* Record that no event will be added."""
        self.start = replace(self.start, ended=True)
        self.store_start()

    def store_start(self) -> None:
        """*Disk.* Store the identity. A failure is counted; the agent continues with its memory."""
        try:
            store(self._files, START, self.start.as_dict())
        except OSError:
            self.counts["store_failed"] += 1

    def acked(self, acked: Sequence[int]) -> None:
        """Record the numbers per stream that the gateway has, or knows to be lost."""
        self._acked = [max(pair) for pair in zip(self._acked, acked, strict=True)]

    def due(self) -> bool:
        """Whether ``settle`` would remove a segment."""
        return any(spool.trims(ack) for spool, ack in zip(self.spools, self._acked, strict=True))

    def settle(self) -> None:
        """*Disk.* Store the position, then remove the segments that are fully acked."""
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
        """Whether ``commit`` has something to write."""
        return self.intervals.unwritten or any(spool.unwritten for spool in self.spools)

    def commit(self) -> None:
        """*Disk.* Write everything that was appended to any stream.

        Raises:
            OSError: at least one stream failed; all were tried.
        """
        failed: OSError | None = None
        # Keys and interval changes are added before their events: those for all events below
        # these numbers are already added.
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
        """*Disk.* Write what can be written and close all files; raises OSError if some cannot."""
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
