"""Compares the passes over the receptions with the recording's own data about its frames.

True event times are not known: a frame's time is its hotspot's. Repeats, lost numbers and the
frames of each hour are known once everything has arrived.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slackwater.measures import Measures
from slackwater.scenario import NS_PER, Claim, Score, Table, number
from slackwater.scenarios.orders import measure_sites, order_table, plain
from slackwater.scenarios.runs import (
    ints,
    lane_sum,
    missing_events,
    out_of_order,
    read_counters,
    share,
    standing,
)
from slackwater.simulation import TRUTH

MAIN: Final = "sequence"
SLACK: Final = "kslack"
UNORDERED: Final = "none"
RECEPTIONS: Final = "receptions.parquet"
DEVICES: Final = "devices.parquet"
PUBLISHED: Final = {"ftd": (16_954, 27), "ems": (8_110, 0), "imst": (13_352, 0)}
"""Receptions, and those of them out of order on arrival, counted when the files were fetched."""
PATIENT: Final = "sequence:latency=5m"
NUMBERED: Final = (PATIENT, "sequence:timeout=r19,latency=5m", "sequence:timeout=fixed:5m")
SLACKS: Final = ("kslack:10s", "kslack:5m", "kslack:1h")
ADAPTIVE: Final = ("mp-kslack", "aq-kslack:error=0.05,window=1h", "ldop:window=1h")
"""Orders that are measured beside those of the passes."""
_HOUR_NS: Final = NS_PER["h"]
_Hour = tuple[str, str, int]
"""(site, device, start of the hour [ns])."""


@dataclass(frozen=True, slots=True)
class ReceptionCounts:
    """Counts of one file's receptions. ``new_disorder``: out of order and no repeats."""

    receptions: int
    disorder: int
    new_disorder: int
    repeats: int
    lost: int
    joins: int
    repeat_after_p50_ns: int
    repeat_after_max_ns: int


def score_run(directory: Path, main: str, slack: str) -> Score:
    """Claims, tables and numbers of the run in ``directory``.

    Args:
        directory: of the run.
        main: order of the main pass.
        slack: order of the pass ``SLACK``.

    Raises:
        UserError: a pass wrote no results.
    """
    table = pq.read_table(directory / TRUTH / RECEPTIONS)
    devices = pq.read_table(directory / TRUTH / DEVICES)
    sites = sorted(pc.unique(table.column("site")).to_pylist())
    known = {site: _known(*(_of_site(each, site) for each in (table, devices))) for site in sites}
    counters = read_counters(directory, MAIN)
    orders = dict.fromkeys((UNORDERED, main, *NUMBERED, *SLACKS, slack, *ADAPTIVE))
    measured = measure_sites(directory / "log", list(orders))
    frames, receptions = _hours(table.filter(pc.invert(table.column("is_repeat")))), _hours(table)
    answers = _answers(directory)
    return Score(
        claims=(
            _faithful(known),
            _repeats(known, counters),
            _hours_right(frames, receptions, answers),
            _lost(known, counters),
            _price(measured, main, slack),
        ),
        tables=(
            _known_table(known),
            *(order_table(f"Orders over {site}", measured[site], "s") for site in sites),
        ),
        facts={
            "known": {
                site: {name: getattr(each, name) for name in ReceptionCounts.__slots__}
                for site, each in known.items()
            },
            "measured": {site: plain(of) for site, of in measured.items()},
            "hours": len(frames),
            "hours_wrong": len(_different(frames, answers)),
            "hours_wrong_by_receptions": len(_different(frames, receptions)),
        },
    )


def _known(receptions: pa.Table, devices: pa.Table) -> ReceptionCounts:
    """Counts of one file, from its rows of both tables."""
    again = np.asarray(receptions.column("is_repeat").to_numpy())
    ts = ints(receptions, "ts")
    after = _since_first(receptions)[again]
    of_devices = {name: int(ints(devices, name).sum()) for name in ("repeats", "lost", "joins")}
    return ReceptionCounts(
        receptions=receptions.num_rows,
        disorder=int(out_of_order(ts).sum()),
        new_disorder=int(out_of_order(ts[~again]).sum()),
        repeat_after_p50_ns=int(np.quantile(after, 0.5, method="higher")) if after.size else 0,
        repeat_after_max_ns=int(after.max(initial=0)),
        **of_devices,
    )


def _of_site(table: pa.Table, site: str) -> pa.Table:
    return table.filter(pc.equal(table.column("site"), site))


def _since_first(table: pa.Table) -> np.ndarray:
    """Per reception, by how much its time lies beyond that of its frame's first to arrive [ns]."""
    keys = ["source", "incarnation", "seq"]
    row = pa.array(np.arange(table.num_rows))
    firsts = table.append_column("row", row).group_by(keys).aggregate([("row", "min")])
    joined = table.select(keys).append_column("row", row).join(firsts, keys).sort_by("row")
    ts = ints(table, "ts")
    return np.asarray(ts - ts[ints(joined, "row_min")])


def _hours(table: pa.Table) -> dict[_Hour, int]:
    """How many rows of ``table`` each hour of each device has."""
    ts = ints(table, "ts")
    hour = pa.array(ts - ts % _HOUR_NS)
    by_hour = table.append_column("hour", hour).group_by(["site", "source", "hour"])
    found = by_hour.aggregate([([], "count_all")]).to_pydict()
    keys = zip(found["site"], found["source"], found["hour"], strict=True)
    return dict(zip(keys, found["count_all"], strict=True))


def _answers(directory: Path) -> dict[_Hour, int]:
    """The main pass's net answers to the query."""
    results = standing(directory, MAIN, "windows", _identity)
    counts = {
        (each["site"], each["key"]["source"], each["window"]["start"]):
            each["value"]["count(*)"]
        for each in results
    }  # fmt: skip
    # An hour whose frames are all missing has a row, too, that counts none.
    return {hour: count for hour, count in counts.items() if count}


def _identity(result: dict[str, Any]) -> tuple[str, int, str]:
    return (result["site"], result["window"]["start"], result["key"]["source"])


def _different(truth: dict[_Hour, int], found: dict[_Hour, int]) -> list[_Hour]:
    return [hour for hour in {*truth, *found} if truth.get(hour) != found.get(hour)]


def _faithful(known: dict[str, ReceptionCounts]) -> Claim:
    found = {site: (each.receptions, each.disorder) for site, each in known.items()}
    return Claim(
        "The import is faithful: "
        + ", ".join(f"{site} {rows:,} frames, {late} out of order" for site, (rows, late)
                    in found.items())
        + ", as counted when the files were fetched.",
        all(found[site] == PUBLISHED[site] for site in found),
        f"{sum(each.new_disorder for each in known.values())} of those out of order are no repeats",
    )  # fmt: skip


def _repeats(known: dict[str, ReceptionCounts], counters: dict[str, Any]) -> Claim:
    truth = sum(each.repeats for each in known.values())
    found = lane_sum(counters, "duplicate")
    receptions = sum(each.receptions for each in known.values())
    return Claim(
        f"Numbers tell repeats: {found:,} of {receptions:,} receptions are dropped as repeats of "
        "a frame that was there.",
        found == truth,
        f"{truth:,} receptions have the device, join and number of an earlier one",
    )


def _hours_right(
    frames: dict[_Hour, int], receptions: dict[_Hour, int], answers: dict[_Hour, int]
) -> Claim:
    wrong, otherwise = _different(frames, answers), _different(frames, receptions)
    right = len(frames) - len(wrong)
    worst = max((receptions[hour] - frames.get(hour, 0) for hour in otherwise), default=0)
    return Claim(
        f"Every hour's final count of a device's frames is right: {right:,} of {len(frames):,}.",
        not wrong,
        f"late frames correct it; with the repeats, {len(otherwise):,} counts would be wrong, by "
        f"up to {worst:,} frames",
    )


def _lost(known: dict[str, ReceptionCounts], counters: dict[str, Any]) -> Claim:
    found = {site: missing_events(counters, site) for site in known}
    percents = {
        site: share(each.lost, each.lost + each.receptions - each.repeats)
        for site, each in known.items()
    }
    return Claim(
        "Lost frames are known: "
        + ", ".join(f"{site} {found[site] or 0:,} ({percents[site]:.1f} %)" for site in known)
        + " of the devices' numbers never arrived.",
        all(found[site] == each.lost for site, each in known.items()),
        "a count afterwards of each join's numbers up to its highest agrees",
    )


def _price(measured: dict[str, list[Measures]], main: str, slack: str) -> Claim:
    """The cost of waiting: the longest hold of the main pass against a slack's median."""
    ours, patient, theirs = (
        [next(each for each in of if each.order == order) for of in measured.values()]
        for order in (main, PATIENT, slack)
    )
    left = sum(each.disorder_after for each in ours)
    held_ns = max(each.hold.max_ns for each in ours)
    slack_ns = min(each.hold.p50_ns for each in theirs)
    more = sum(each.in_place for each in patient) - sum(each.in_place for each in ours)
    longest_ns = max(each.hold.max_ns for each in patient)
    return Claim(
        f"{main} leaves {left} frames out of order and holds none for more than "
        f"{number(held_ns / NS_PER['s'])} s; {slack} holds half of them for "
        f"{number(slack_ns / NS_PER['s'])} s and more.",
        left == 0 and held_ns < slack_ns,
        f"it drops {sum(each.dropped for each in ours)} that came too late; {PATIENT} holds up to "
        f"{number(longest_ns / NS_PER['s'])} s and has {more} more in place",
    )


def _known_table(known: dict[str, ReceptionCounts]) -> Table:
    return Table(
        "Content of the recordings",
        ("file", "receptions [events]", "out of order [events]", "of them no repeats [events]",
         "repeats [events]", "a repeat's time is later by, p50 [s]", "at most [s]",
         "joins", "lost [events]", "lost [%]"),
        tuple(
            (site, each.receptions, each.disorder, each.new_disorder, each.repeats,
             round(each.repeat_after_p50_ns / NS_PER["s"], 3),
             round(each.repeat_after_max_ns / NS_PER["s"], 3), each.joins, each.lost,
             round(share(each.lost, each.lost + each.receptions - each.repeats), 2))
            for site, each in known.items()
        ),
        "Lost: numbers that never arrived, of all that the devices gave, each join up to its "
        "highest.",
    )  # fmt: skip
