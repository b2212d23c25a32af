"""The newest start of a source is taken out of a log: its gateway then knows nothing of it.

A start with a very large incarnation keeps every later one out, and what it sent is in the way of
their events in every order. So its records go; those of earlier starts, and of others, stay.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import structs

from edge_agent import records as r
from edge_agent.errors import did_you_mean
from engine.errors import UserError
from engine.log.arrival_log import LogReader, LogWriter
from engine.log.files.folder import keep, retired
from engine.log.files.log_files import log_files
from engine.log.whole_file import sync_folder
from engine.stream.frame import Frame

_FORMER: Final = ".before-forget"
_SOURCES: Final = "sources"


@dataclass(frozen=True, slots=True)
class ForgottenStart:
    """``records`` of start ``incarnation`` were left out; ``former``: the log as it was."""

    incarnation: int
    records: int
    former: Path


def forget(log: Path, site: str, source: str) -> ForgottenStart:
    """Rewrites ``log`` without the records of the newest start of ``source``.

    Raises:
        UserError: no log, one that is being written, no such source, or no place for the former.
        OSError: the disk does not do what it should; the log is as it was.
    """
    former = log.with_name(f"{log.name}{_FORMER}")
    if former.exists():
        raise UserError(f"{former}: a former log is still there; remove it, or move it away")
    if not log.is_dir() or not (log_files(log) or retired(log).upto):
        raise UserError(f"{log}: is no arrival log, or has nothing in it")
    made = log.with_name(f".{log.name}.forgetting")
    with LogWriter(log):  # no server may write meanwhile
        newest = _newest(log, site, source)
        if made.exists():
            shutil.rmtree(made)  # of a call that was cut off
        try:
            records = _copied(log, made, (site, source), newest)
        except BaseException:
            shutil.rmtree(made, ignore_errors=True)
            raise
        log.rename(former)
        made.rename(log)
        sync_folder(log.parent)
    return ForgottenStart(newest, records, former)


def _newest(log: Path, site: str, source: str) -> int:
    """The largest incarnation of the source."""
    known: dict[tuple[str, str], int] = {
        (of_site, name): incarnation
        for of_site, name, incarnation, _ in retired(log).known.get(_SOURCES, ())
    }
    for frame in _frames(log):
        for name, incarnation in _starts(frame):
            key = (frame.site, name)
            known[key] = max(incarnation, known.get(key, 0))
    if (site, source) not in known:
        names = sorted("/".join(key) for key in known)
        hint = did_you_mean(f"{site}/{source}", names)
        raise UserError(
            f"{log}: has no source {site}/{source}{hint}; slackwater log show lists them"
        )
    return known[site, source]


def _copied(log: Path, made: Path, key: tuple[str, str], incarnation: int) -> int:
    """Writes the log but for those records; gives how many they are."""
    before, left_out = retired(log), 0
    made.mkdir()
    if before.upto:
        keep(made, structs.replace(before, known=_without(before.known, key, incarnation)))
    reader = LogReader(log) if log_files(log) else None
    with LogWriter(made, called=log) as writer:
        for frame in reader.one_by_one() if reader is not None else ():
            writer.arrival_given = reader.arrival_given if reader is not None else True
            kept = frame if frame.site != key[0] else _others(frame, key[1], incarnation)
            left_out += frame.rows - kept.rows
            if kept.rows:
                writer.append(kept)
    return left_out


def _frames(log: Path) -> Iterator[Frame]:
    if log_files(log):
        yield from LogReader(log).one_by_one()


def _starts(frame: Frame) -> set[tuple[str, int]]:
    """Names and incarnations of the frame's sources."""
    pairs = pa.table({"source": _sources(frame), "incarnation": _incarnations(frame)})
    found = pairs.group_by(["source", "incarnation"]).aggregate([]).to_pylist()
    return {(row["source"], row["incarnation"]) for row in found if row["source"] is not None}


def _others(frame: Frame, source: str, incarnation: int) -> Frame:
    """The records that are not of that start."""
    mine = pc.fill_null(pc.equal(_sources(frame), source), fill_value=False)
    theirs = ~np.asarray(pc.and_(mine, pc.equal(_incarnations(frame), incarnation)))
    return frame if theirs.all() else Frame(frame.site, frame.batch.filter(pa.array(theirs)))


def _sources(frame: Frame) -> pa.Array:
    column = frame.batch.column(r.SOURCE)
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _incarnations(frame: Frame) -> pa.Array:
    if r.INCARNATION not in frame.batch.schema.names:
        return pa.array(np.zeros(frame.rows, np.int64))
    return pc.fill_null(frame.batch.column(r.INCARNATION).cast(pa.int64()), 0)


def _without(known: Mapping[str, Any], key: tuple[str, str], incarnation: int) -> dict[str, Any]:
    """What is known of retired files, but for that start."""
    sources = [each for each in known.get(_SOURCES, ()) if tuple(each[:3]) != (*key, incarnation)]
    return {**known, _SOURCES: sources}
