"""``slackwater agent spool ls|verify|dump FOLDER``: what is in an outbox."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Final

from edge_agent.outbox.inspection import SegmentLook, StartLook, looked, trace_lines
from edge_agent.outbox.spool import MISSING

Say = Callable[[str], object]
"""Takes a line with its newline."""


def list_spool(folder: Path, say: Say) -> int:
    """One line per start of the agent and stream; gives the exit code."""
    for look in looked(folder):
        start = look.start
        if start is None:
            say(f"{look.path}: nobody knows who numbered these events\n")
            continue
        ended = ", ended" if start.ended else ""
        say(
            f"{look.path}: {start.site}/{start.source}, incarnation {start.incarnation}{ended}, "
            f"{look.damaged} damaged files\n"
        )
        for index, stream in enumerate(start.streams):
            waiting = look.waiting(index)
            segments = [each for each in look.segments if each.stream == index]
            size = sum(each.path.stat().st_size for each in segments)
            events = sum(record.rows for record in waiting)
            span = f", numbers {waiting[0].first} to {waiting[-1].end - 1}" if waiting else ""
            files = f"{len(segments)} files, {size} bytes"
            say(f"  {stream.name}: {events} events wait{span}, {files}\n")
    return 0


def verify_spool(folder: Path, say: Say) -> int:
    """One line per fault; gives 1 where there is one, else 0."""
    faults = [line for look in looked(folder) for line in _faults(look)]
    for line in faults:
        say(f"{line}\n")
    say(f"{folder}: {len(faults)} faults\n")
    return 1 if faults else 0


def _faults(look: StartLook) -> list[str]:
    if look.start is None:
        return [f"{look.path}: nobody knows who numbered these events"]
    found = [f"{look.path / name}: {MISSING}" for name in look.missing]
    for index in range(len(look.start.streams)):
        segments = [each for each in look.segments if each.stream == index]
        for place, segment in enumerate(segments):
            newest = place + 1 == len(segments)
            found += _of_segment(segment, newest=newest)
        waiting = look.waiting(index)
        for one, following in itertools.pairwise(waiting):
            if one.end < following.first:
                found.append(
                    f"{look.path}: stream {look.start.streams[index].name}: "
                    f"events {one.end} to {following.first - 1} are gone"
                )
    return found


def _of_segment(segment: SegmentLook, *, newest: bool) -> list[str]:
    bad = segment.bad_bytes + (0 if newest else segment.torn_bytes)
    found = [f"{segment.path}: {bad} bytes are damaged"] if bad else []
    if newest and segment.torn_bytes:
        found.append(f"{segment.path}: torn end of {segment.torn_bytes} bytes, cut at the start")
    return found


def dump_spool(folder: Path, say: Say) -> int:
    """The events that wait, as the lines of a trace (times in ns)."""
    for look in looked(folder):
        for line in trace_lines(look):
            say(f"{line}\n")
    return 0


ACTIONS: Final[dict[str, tuple[Callable[[Path, Say], int], str]]] = {
    "ls": (list_spool, "what waits in an outbox"),
    "verify": (verify_spool, "whether its files are whole; exit code 1 if not"),
    "dump": (dump_spool, "the events that wait, as lines of a trace"),
}
"""By name: what to do, and the help."""
