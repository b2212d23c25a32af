"""The intervals that agents would make of readings if their clocks were right (SPEC 4.10).

Readings that are not sent are no events of a run: what is to be found are their intervals. They are
made by the agent's own abstraction, of all readings at their true times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.edge_agent.abstraction.machine import Abstraction, EndedInterval
from slackwater.edge_agent.abstraction.settings import CUT, READINGS, AbstractSettings
from slackwater.engine.core.errors import UserError
from slackwater.simulator.scenario import SourceSettings
from slackwater.simulator.truth import TRUTH_PREFIX

Made = tuple[str, str, str]
"""Site, source and stream of intervals."""


def made_streams(sources: Iterable[SourceSettings]) -> set[Made]:
    """Streams whose events are intervals that the agents of ``sources`` make."""
    return {(source.site, source.name, each.into) for source in sources for each in source.abstract}


def with_intervals(truth: pa.Table, sources: Iterable[SourceSettings]) -> pa.Table:
    """The events of a run with intervals in the place of the readings they stand for.

    Args:
        truth: ``simulator.truth.event_table`` of the run.
        sources: of its scenario.

    Raises:
        UserError: the truth of readings has not what an abstraction asks for.

    Returns:
        The same columns; where a source abstracts, texts are plain. Intervals have no number
        (``seq`` null), and their ``ts`` and ``te`` at the source's clock are those of the readings
        where they begin and end.
    """
    if not any(source.abstract for source in sources):
        return truth
    for name in ("site", "source", "stream", "type"):
        if name in truth.column_names:
            place = truth.column_names.index(name)
            truth = truth.set_column(place, name, truth[name].cast(pa.string()))
    parts = []
    for source in sources:
        for each in source.abstract:
            mine = pc.and_(pc.equal(truth["site"], source.site),
                           pc.equal(truth["source"], source.name))  # fmt: skip
            mine = pc.and_(mine, pc.equal(truth["stream"], each.stream))
            readings = truth.filter(mine).sort_by("true_ts")
            if readings.num_rows:
                parts.append(_intervals(readings, source, each))
    for source in sources:
        read = {each.stream for each in source.abstract}
        gone = read - {each.stream for each in source.abstract if each.keep}
        if gone:
            mine = pc.and_(pc.equal(truth["site"], source.site),
                           pc.equal(truth["source"], source.name))  # fmt: skip
            mine = pc.and_(mine, pc.is_in(truth["stream"], pa.array(sorted(gone))))
            truth = truth.filter(pc.invert(mine))
    return pa.concat_tables([truth, *parts], promote_options="permissive")


def _intervals(readings: pa.Table, source: SourceSettings, settings: AbstractSettings) -> pa.Table:
    for name in (*settings.by, *([settings.value] if settings.value else ())):
        if TRUTH_PREFIX + name not in readings.column_names:
            raise UserError(
                f"abstract: {settings.stream} of {source.name}: its workload does not tell the "
                f"truth of {name}, so nobody can say which intervals are right"
            )
    true_ns, device_ns = readings["true_ts"].to_numpy(), readings["ts"].to_numpy()
    found = list(_ended(readings, true_ns, settings))
    starts = np.array([each.ts for each in found], np.int64)
    ends = np.array([each.te for each in found], np.int64)
    columns: dict[str, Any] = {
        "site": pa.array([source.site] * len(found), pa.string()),
        "source": pa.array([source.name] * len(found), pa.string()),
        "stream": pa.array([settings.into] * len(found), pa.string()),
        "true_ts": starts,
        "true_te": ends,
        "ts": _device_times(starts, true_ns, device_ns),
        "te": _device_times(ends, true_ns, device_ns),
        "type": pa.array([each.type for each in found], pa.string()),
        TRUTH_PREFIX + CUT: pa.array([each.cut for each in found], pa.string()),
        TRUTH_PREFIX + READINGS: pa.array([each.readings for each in found], pa.int64()),
    }
    for place, name in enumerate(settings.by):
        kind = readings[TRUTH_PREFIX + name].type
        columns[TRUTH_PREFIX + name] = pa.array([each.key[place] for each in found], kind)
    return pa.table(columns)


def _ended(
    readings: pa.Table, true_ns: np.ndarray, settings: AbstractSettings
) -> Iterator[EndedInterval]:
    """Reading by reading, as the device's timer runs between them."""
    machine = Abstraction(settings)
    rows = readings.num_rows
    names = [TRUTH_PREFIX + name for name in settings.by]
    keys = list(zip(*(readings[name].to_pylist() for name in names), strict=True))
    values = (
        readings[TRUTH_PREFIX + settings.value].to_pylist() if settings.value else [None] * rows
    )
    for reading in zip(keys or [()] * rows, true_ns.tolist(), values, strict=True):
        machine.take((reading,), reading[1])
    machine.finish()
    yield from (each for each in machine.outputs() if isinstance(each, EndedInterval))


def _device_times(at_ns: np.ndarray, true_ns: np.ndarray, device_ns: np.ndarray) -> np.ndarray:
    """What the source's clock showed at true instants: at readings exactly, between them as if it
    ran right since the last one.
    """
    place = np.searchsorted(true_ns, at_ns, side="right") - 1
    return np.asarray(device_ns[place] + (at_ns - true_ns[place]))
