"""Logs and passes that several tables and figures share, made once a run."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from slackwater.log import LogReader
from slackwater.measures import Measures, Reading, measure_many
from slackwater.paper import PaperRun
from slackwater.scenarios.papers.r19.aq_extension import let_go
from slackwater.scenarios.papers.r19.data_sets import DataSet, data_set
from slackwater.scenarios.papers.r19.let_go_measures import measures_of, series_of
from slackwater.scenarios.papers.r19.log_writing import (
    DEPARTED,
    PublishedSource,
    sources,
    write_log,
)
from slackwater.scenarios.papers.r19.orders import APPROACHES, AQ_KSLACK, Approach
from slackwater.scenarios.papers.r19.released_stream import ReleasedOrder, observe

READING: Final = Reading(departed=DEPARTED)
SCHEMA: Final = ("sid", "x", "y", "z", "v_abs", "a_abs")
_VALUE: Final = ("v_abs",)
"""All that any order reads; logs of many sources hold no more."""

Measured = dict[str, Measures]
"""By the approach's name."""


def the_data_set(run: PaperRun, number: int) -> DataSet:
    """Data set 1, 2 or 3."""
    return run.once(("data set", number), lambda: data_set(number, run.seed, run.scale))


def one_source(run: PaperRun, number: int) -> Measured:
    """Every approach over one source that publishes data set ``number``."""
    return run.once(("one source", number), lambda: _measured(run, number, sources(1), SCHEMA))


def many_sources(run: PaperRun, count: int) -> Measured:
    """Every approach over ``count`` sources that each publish data set 3."""
    if count == 1:
        return one_source(run, 3)
    return run.once(("many sources", count), lambda: _measured(run, 3, sources(count), _VALUE))


def over_time(run: PaperRun) -> dict[str, ReleasedOrder]:
    """Latencies of every approach over batches of data set 1."""
    return run.once("over time", lambda: _over_time(run))


def the_log(
    run: PaperRun, number: int, publishers: Sequence[PublishedSource], attributes: Sequence[str],
    what: str = "set",
) -> Path:  # fmt: skip
    """An arrival log of a data set in the run's folder, in a place of its own for ``what``."""
    count = len(publishers)
    verb = f"data set {number} from {count} source{'s' if count > 1 else ''}: writing the log"
    with run.watched(verb) as advanced:
        place = run.folder / f"{what}-{number}-sources-{count}"
        return write_log(place, the_data_set(run, number), publishers, attributes, advanced)


def _measured(
    run: PaperRun, number: int, publishers: Sequence[PublishedSource], attributes: Sequence[str]
) -> Measured:
    log = the_log(run, number, publishers, attributes)
    orders = [each.order for each in APPROACHES if each.order]
    verb = f"data set {number} from {len(publishers)}: {len(orders)} orders, a pass each"
    with run.watched(verb) as advanced:
        _, found = measure_many(log, orders, READING, advanced=advanced)
    if len(publishers) > 1 or number != 1:
        shutil.rmtree(log)  # nothing reads it again, and twenty sources fill a disk
    measured = dict(zip([each.name for each in APPROACHES if each.order], found, strict=True))
    with run.watched(f"data set {number} from {len(publishers)}: {AQ_KSLACK.name}") as advanced:
        output = let_go(the_data_set(run, number), publishers)
        measured[AQ_KSLACK.name] = measures_of(output, AQ_KSLACK.name, len(publishers))
        advanced(len(output.ts))
    return measured


def _over_time(run: PaperRun) -> dict[str, ReleasedOrder]:
    one_source(run, 1)
    log = run.folder / "set-1-sources-1"
    found = {}
    for each in APPROACHES:
        if not each.order:
            found[each.name] = series_of(let_go(the_data_set(run, 1), sources(1)))
            continue
        with run.watched(f"data set 1 over time: {each.name}") as advanced:
            found[each.name] = observe(LogReader(log), each.order, DEPARTED, advanced=advanced)
    return found


def hold_ms(measured: Measured, approach: Approach) -> float:
    """Mean time that events were held: what R19 calls latency."""
    return measured[approach.name].hold.mean_ns / 1e6


def left(measured: Measured, approach: Approach) -> int:
    """Events left out of order by R19's definition (5.2.2): the one just before is later."""
    return measured[approach.name].steps_back


def accuracy_percent(measured: Measured, approach: Approach) -> float:
    """R19 5.2.2: of the events that were injected out of order, the share that is not left so."""
    injected = measured[approach.name].disorder_before
    return 100 * (1 - left(measured, approach) / injected) if injected else 100.0
