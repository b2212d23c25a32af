"""The scenario's queries over the whole log, and the same counts by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slackwater.engine.hosts.chain import ChainSettings
from slackwater.engine.hosts.pipeline import run_in_process
from slackwater.engine.order.registry import parse_order
from slackwater.engine.query import query
from slackwater.scenario import NS_PER, Guards
from slackwater.scenarios.runs import RUNS, ints, read_counters, standing

_DAY_NS: Final = 24 * NS_PER["h"]
_COUNT: Final = "count(*)"
Day = tuple[str, int]
"""(site, start of the day [ns])."""
Counts = Mapping[Day, int]


@dataclass(frozen=True, slots=True)
class DailyQuery:
    """A query over days; it reads ``item`` of ``table``, or all items for None."""

    name: str
    table: str
    item: str | None
    text: str


QUERIES: Final = (
    DailyQuery(
        "laboratory", "labevents", None, "SELECT count(*) FROM labevents WINDOW TUMBLING 24 h"
    ),
    DailyQuery(
        "potassium",
        "labevents",
        "Potassium",
        "SELECT count(*), avg(value), min(value), max(value) FROM labevents "
        "WHERE type = 'Potassium' WINDOW TUMBLING 24 h",
    ),
    DailyQuery(
        "outputs",
        "outputevents",
        None,
        "SELECT count(*), sum(value) FROM outputevents WINDOW TUMBLING 24 h",
    ),
)
"""Queries of every patient."""


@dataclass(frozen=True, slots=True)
class DailyCounts:
    """The net answers of one pass beside the truth, by query.

    Attributes:
        days: days with events, in truth.
        wrong: those of them whose final count is wrong.
        lacking: events that the counts lack; queries of single items left out, as for the next.
        too_late: events that came when their day could not be corrected any more.
        quarantined: events of the query's table that were set aside.
        retracted: results that were retracted, most of them to be corrected.
    """

    days: Mapping[str, int]
    wrong: Mapping[str, int]
    lacking: Mapping[str, int]
    too_late: Mapping[str, int]
    quarantined: Mapping[str, int]
    retracted: Mapping[str, int]

    def plain(self) -> dict[str, dict[str, int]]:
        """As plain data."""
        return {name: dict(getattr(self, name)) for name in type(self).__slots__}


def true_counts(charted: pa.Table) -> dict[str, Counts]:
    """Events of each patient's day, by query."""
    found: dict[str, Counts] = {}
    for each in QUERIES:
        mine = charted.filter(pc.equal(charted.column("source"), each.table))
        if each.item is not None:
            mine = mine.filter(pc.equal(mine.column("type"), each.item))
        ts = ints(mine, "ts")
        days = pa.table({"site": mine.column("site"), "day": ts - ts % _DAY_NS})
        of_day = days.group_by(["site", "day"]).aggregate([([], "count_all")]).to_pydict()
        places = zip(of_day["site"], of_day["day"], strict=True)
        found[each.name] = dict(zip(places, of_day["count_all"], strict=True))
    return found


def asked_again(log: Path, order: str, guards: Guards, truth: Mapping[str, Counts]) -> DailyCounts:
    """The answers of another pass over ``log``, which leaves no files."""
    plans = tuple(query(each.text, name=each.name) for each in QUERIES)
    with TemporaryDirectory() as folder:
        settings = ChainSettings(parse_order(order), plans, guards=guards)
        run_in_process(log, settings, Path(folder) / "runs" / "again")
        return read_answers(Path(folder), "again", truth)


def read_answers(directory: Path, label: str, truth: Mapping[str, Counts]) -> DailyCounts:
    """The answers of pass ``label`` of the run in ``directory``."""
    counters = read_counters(directory, label)
    found: dict[str, dict[Day, int]] = {each.name: {} for each in QUERIES}
    for result in standing(directory, label, "windows", _identity):
        day = result["site"], result["window"]["start"]
        found[result["query"]][day] = result["value"][_COUNT]
    whole = [each for each in QUERIES if each.item is None]
    return DailyCounts(
        days={name: len(counts) for name, counts in truth.items()},
        wrong={name: _different(truth[name], counts) for name, counts in found.items()},
        lacking={
            each.name: sum(truth[each.name].values()) - sum(found[each.name].values())
            for each in whole
        },
        too_late={each.name: _too_late(counters, each.name) for each in whole},
        quarantined={each.name: _quarantined(counters, each.table) for each in whole},
        retracted=_taken_back(directory, label),
    )


def _identity(result: dict[str, Any]) -> tuple[str, str, int]:
    return (result["query"], result["site"], result["window"]["start"])


def _different(truth: Counts, found: Counts) -> int:
    return sum(truth.get(day) != found.get(day) for day in {*truth, *found})


def _too_late(counters: dict[str, Any], name: str) -> int:
    return sum(site["queries"][name]["too_late"] for site in counters["sites"].values())


def _quarantined(counters: dict[str, Any], table: str) -> int:
    return sum(
        lane["quarantined_future"]
        for site in counters["sites"].values()
        for lane in site["lanes"]
        if lane["stream"] == table
    )


def _taken_back(directory: Path, label: str) -> dict[str, int]:
    files = sorted((directory / RUNS / label / "windows").glob("*.parquet"))
    found = dict.fromkeys((each.name for each in QUERIES), 0)
    for file in files:
        part = pq.ParquetFile(file).read(columns=["op", "query"])
        retracted = part.filter(pc.equal(part.column("op"), "-")).column("query")
        for count in pc.value_counts(retracted).to_pylist():
            found[count["values"]] += count["counts"]
    return found
