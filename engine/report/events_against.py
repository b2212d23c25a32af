"""Two runs' events compared one by one: lost, new, otherwise ordered, and how much sooner let go.

An event is the same in both runs if it has the same site, source, stream, incarnation and number,
or time where there is no number; of several of one name the first is the first, and so on.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from engine.log.whole_file import parquet_files, whole_file
from engine.report.measure.quantiles import quantiles
from engine.report.measure.rows import NO_NUMBER, RunRows, read_rows
from engine.report.units import duration
from engine.stream.released import LATE, LATE_DROPPED, RESIDUAL

EVENTS: Final = "events.parquet"
"""Beside a report: its events as they were let go."""
EVENTS_MAX: Final = 5_000_000
"""Of longer runs no events are kept beside the report, and none compared."""
_NAMES: Final = ("site", "source", "stream")
_COLUMNS: Final = (*_NAMES, "incarnation", "seq", "ts", "ref", "release", "status")
_STATUS: Final = {RESIDUAL: "below what had been let go", LATE: "late", LATE_DROPPED: "dropped"}
_IN_PLACE: Final = "in order"


def keep_events(ordered: Path, into: Path) -> None:
    """Copies what is compared of the events in ``ordered`` to ``EVENTS`` in ``into``."""
    files = parquet_files(ordered) if ordered.is_dir() else []
    if not files or sum(pq.read_metadata(file).num_rows for file in files) > EVENTS_MAX:
        return
    tables = [pq.read_table(file, columns=list(_COLUMNS)) for file in files]
    with whole_file(into / EVENTS) as sink:
        pq.write_table(pa.concat_tables(tables), sink, compression="zstd")


def compared_events(
    before: tuple[Path, Mapping[str, Any]], now: tuple[Path, Mapping[str, Any]], *,
    timed: bool, listed: int,
) -> dict[str, Any] | None:  # fmt: skip
    """As one query's results are compared; None: one of the two has no events by it.

    Args:
        before: folder and report of the earlier run.
        now: of the other one.
        timed: whether arrivals were given.
        listed: most examples of a kind.
    """
    old, new = _rows(*before), _rows(*now)
    if old is None or new is None:
        return None
    first, second = _paired(old, new)
    both = (first >= 0) & (second >= 0)
    lost, added = first[second < 0], second[first < 0]
    first, second = first[both], second[both]
    unlike = (old["status"][first] != new["status"][second]) | (
        old["ref"][first] != new["ref"][second]
    )
    held = (old["status"][first] != LATE_DROPPED) & (new["status"][second] != LATE_DROPPED)
    sooner = old["release"][first[held]] - new["release"][second[held]]
    changes = zip(first[unlike][:listed].tolist(), second[unlike][:listed].tolist(), strict=True)
    return {
        "both": int(first.size), "lost": int(lost.size), "new": int(added.size),
        "changed": int(unlike.sum()),
        "sooner_ns": quantiles(np.sort(sooner)) if timed else None,
        "examples": {
            "lost": [_said(old, row) for row in lost[:listed].tolist()],
            "new": [_said(new, row) for row in added[:listed].tolist()],
            "changed": [_change(old, row, new, other) for row, other in changes],
        },
    }  # fmt: skip


def _rows(folder: Path, report: Mapping[str, Any]) -> RunRows | None:
    """The events of a run, of its main pass: kept beside its report, or in the pass's folder."""
    own = folder / EVENTS
    ordered = folder / "runs" / str(report["run"]["passes"][0]["label"]) / "ordered"
    files = [own] if own.is_file() else parquet_files(ordered) if ordered.is_dir() else []
    return read_rows(files, _COLUMNS) if files else None


def _paired(old: RunRows, new: RunRows) -> tuple[np.ndarray, np.ndarray]:
    """Row of each event in both runs, in order of the new one, then of the old; -1: not there."""
    keys = []
    for name in _NAMES:
        known = {text: code for code, text in enumerate(new.texts[name])}
        own = [known.setdefault(text, len(known)) for text in old.texts[name]]
        codes = np.array([*own, NO_NUMBER], np.int64)
        keys.append(np.concatenate([new[name], codes[old[name]]]))
    numbers, times, starts = (
        np.concatenate([new[name], old[name]]) for name in ("seq", "ts", "incarnation")
    )
    nameless = numbers < 0
    keys += [starts, nameless, np.where(nameless, times, numbers)]
    is_old = np.arange(numbers.size) >= len(new)
    order = np.lexsort((is_old, *reversed(keys)))
    again = np.ones(order.size, bool)
    again[:1] = False
    for key in keys:
        again[1:] &= key[order][1:] == key[order][:-1]
    # Which one of its name an event is, in its own run: since its name, or its run, began.
    begins = np.flatnonzero(~again | np.append(False, is_old[order][1:] != is_old[order][:-1]))
    place = np.arange(order.size) - np.repeat(begins, np.diff(np.append(begins, order.size)))
    named = np.cumsum(~again)
    rows = np.where(is_old, np.arange(numbers.size) - len(new), np.arange(numbers.size))[order]
    turn = np.lexsort((is_old[order], place, named))
    named, place, of_old, rows = named[turn], place[turn], is_old[order][turn], rows[turn]
    # Equal neighbours are a pair: the new one, then the old one.
    follows = np.zeros(rows.size + 1, bool)
    follows[1:-1] = (named[1:] == named[:-1]) & (place[1:] == place[:-1])
    heads = np.flatnonzero(~follows[:-1])
    mated = follows[heads + 1]
    old_row = np.where(of_old[heads], rows[heads], -1)
    old_row[mated] = rows[heads[mated] + 1]
    new_row = np.where(of_old[heads], -1, rows[heads])
    shown = np.lexsort((old_row, np.where(new_row < 0, len(new), new_row)))
    return old_row[shown], new_row[shown]


def _said(rows: RunRows, row: int) -> str:
    """An event by its name, and what became of it."""
    return f"{_named(rows, row)}: {_status(rows, row)}"


def _change(old: RunRows, row: int, new: RunRows, other: int) -> str:
    moved = int(new["ref"][other] - old["ref"][row])
    shift = f", its time {duration(abs(moved))} {'later' if moved > 0 else 'earlier'}"
    statuses = dict.fromkeys([_status(old, row), _status(new, other)])
    said = " \N{RIGHTWARDS ARROW} ".join(statuses)
    return f"{_named(old, row)}: {said}{shift if moved else ''}"


def _named(rows: RunRows, row: int) -> str:
    source, number = rows.text("source", int(rows["source"][row])), int(rows["seq"][row])
    return f"{source} #{number}" if number >= 0 else f"{source} at {rows['ts'][row]:,} ns"


def _status(rows: RunRows, row: int) -> str:
    return _STATUS.get(int(rows["status"][row]), _IN_PLACE)
