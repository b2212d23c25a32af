"""Compares matches with those of the true intervals, and bytes sent with those of readings."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slackwater.scenario import NS_PER, Claim, Pass, Score, Table, Timeline, number
from slackwater.scenarios.intervals import (
    Endpoints,
    FoundMatches,
    Interval,
    Match,
    TrueReadings,
    bands_of,
    bars,
    found_in,
    found_table,
    pairs,
    stays_of,
)
from slackwater.scenarios.runs import share
from slackwater.scenarios.warehouse.losses import compare_losses, logged
from slackwater.simulation import MANIFEST, TRUTH

CONTAINED: Final = "high_contains_stay"
CROSSED: Final = "high_overlaps_dry"
# The intervals that the scenario's file configures the agents for.
GAP_NS: Final = 3_200 * NS_PER["ms"]
"""A pallet that is not read for longer has left."""
HYSTERESIS_C: Final = 0.3
HYSTERESIS_PERCENT: Final = 1.0
TEMPERATURE: Final = ("LOW", 4, "MEDIUM", 8, "HIGH")
HUMIDITY: Final = ("DRY", 45, "NORMAL", 65, "WET")
_LANES_SHOWN: Final = 2
_SENSED: Final = ("temperature", "humidity")


def true_intervals(directory: Path) -> list[Interval]:
    """Of all readings of the run in ``directory``, by their true times."""
    events = pq.read_table(directory / TRUTH / "events.parquet")
    found: list[Interval] = []
    for source in pc.unique(events["source"].cast(pa.string())).to_pylist():
        rows = events.filter(pc.equal(events["source"].cast(pa.string()), source))
        zone = source.partition("-")[2]
        columns = {name: rows[name].to_numpy() for name in ("true_ts", "ts")}
        if source.startswith("climate"):
            for name, bands, hysteresis in (
                ("celsius", TEMPERATURE, HYSTERESIS_C), ("humidity", HUMIDITY, HYSTERESIS_PERCENT),
            ):  # fmt: skip
                values = rows[f"truth.{name}"].to_numpy()
                readings = TrueReadings(source, (zone,), columns["true_ts"], columns["ts"], values)
                names, edges = [str(each) for each in bands[::2]], [float(e) for e in bands[1::2]]
                found += bands_of(readings, names, edges, hysteresis)
            continue
        tags = rows["truth.pallet"].to_numpy()
        for tag in np.unique(tags).tolist():
            of = tags == tag
            readings = TrueReadings(
                source, (zone, tag), columns["true_ts"][of], columns["ts"][of], tags[of]
            )
            found += stays_of(readings, "STAY", GAP_NS)
    return found


def true_matches(intervals: Sequence[Interval], within_ns: int) -> dict[str, set[Match]]:
    """Of both queries: every pair is compared."""

    def zone(thing: Any) -> Any:
        return thing[0]

    high, stay, dry = (Endpoints.of(intervals, name, zone) for name in ("HIGH", "STAY", "DRY"))
    return {
        CONTAINED: pairs(
            high, stay, within_ns, lambda ts, te, ts2, te2: (ts < ts2) & (te2 < te)
        ),
        CROSSED: pairs(
            high, dry, within_ns, lambda ts, te, ts2, te2: (ts < ts2) & (ts2 < te) & (te < te2)
        ),
    }  # fmt: skip


def score_run(
    directory: Path, passes: Sequence[Pass], within_ns: int, readings_sent: Path, losses: Path
) -> Score:
    """Claims, tables and the picture of the run in ``directory``.

    ``readings_sent``: bytes per source that the same devices send of readings; ``losses``: of
    ``scenarios.warehouse.losses.simulate_both``.

    Raises:
        UserError: a pass wrote no results.
    """
    intervals = true_intervals(directory)
    expected = true_matches(intervals, within_ns)
    found = found_in(directory, passes, expected)
    arrived, begins = logged(directory)
    manifest = json.loads((directory / MANIFEST).read_text(encoding="utf-8"))
    sent = {name: each["bytes"] for name, each in manifest["sources"].items()}
    raw = json.loads(readings_sent.read_text(encoding="utf-8"))
    times = sum(raw.values()) / max(sum(sent.values()), 1)
    known = {each.identity for each in intervals}
    loss_comparison = compare_losses(losses, expected)
    return Score(
        claims=(
            Claim(
                f"The agents made the intervals that the definition gives for the readings: "
                f"{len(known)}, and sent the begin of each.",
                known == arrived and begins == len(known),
                f"{len(known - arrived)} are missing, {len(arrived - known)} are none; "
                f"{begins} begins",
            ),
            *(_right(query, found, expected[query]) for query in expected),
            Claim(
                f"Intervals take {number(round(times, 1))} times fewer bytes than their readings.",
                times > 1,
                f"{sum(sent.values()):,} against {sum(raw.values()):,} bytes, time sync and "
                "promises of silent streams included",
            ),
            loss_comparison.claim,
        ),
        tables=(
            found_table(
                found, expected,
                "The truth compares every pair of intervals by the true times of their readings. "
                "A match that the clocks leave open is emitted as uncertain and may be false.",
            ),
            _saving(sent, raw),
            loss_comparison.table,
        ),
        facts=loss_comparison.facts | {
            "intervals": len(known), "begins": begins, "bytes": sum(sent.values()),
            "bytes_of_readings": sum(raw.values()),
            "true_matches": [
                {"query": query, "at_ref_ns": max(_ends(intervals, match))}
                for query, those in expected.items()
                for match in sorted(those)
            ],
        },
        timelines=tuple(_picture(intervals, found, zone) for zone in _busiest(intervals, found)),
    )  # fmt: skip


def _right(query: str, found: dict[tuple[str, str], FoundMatches], expected: set[Match]) -> Claim:
    of = {barrier: each for (name, barrier), each in found.items() if name == query}
    wrong = [barrier for barrier, each in of.items() if not each.right(expected)]
    return Claim(
        f"{query}: every true match is emitted, and every confirmed one is true: {len(expected)}.",
        not wrong,
        "; ".join(f"{barrier} is wrong" for barrier in wrong),
    )


def _ends(intervals: Sequence[Interval], match: Match) -> list[int]:
    return [each.end_ns for each in intervals if each.identity in match]


def _saving(sent: dict[str, int], raw: dict[str, int]) -> Table:
    return Table(
        "Bytes on the wire, per device (L10 5.4.2)",
        ("device", "sending intervals [B]", "sending readings [B]", "saved [%]"),
        tuple(
            (name, sent[name], raw[name], round(100 - share(sent[name], raw[name]), 1))
            for name in sorted(sent)
        ),
        "Everything that goes from the device to the gateway on its connections.",
    )


def _busiest(
    intervals: Sequence[Interval], found: dict[tuple[str, str], FoundMatches]
) -> list[str]:
    """Zones with the most matches; each has a figure."""
    zone_of = {each.identity: each.thing[0] for each in intervals}
    count: dict[str, int] = {}
    for each in found.values():
        for match in each.at_ns:
            zone = zone_of.get(match[0], "")
            count[zone] = count.get(zone, 0) + 1
    return sorted(count, key=lambda zone: (-count[zone], zone))[:_LANES_SHOWN]


def _picture(
    intervals: Iterable[Interval], found: dict[tuple[str, str], FoundMatches], zone: str
) -> Timeline:
    here = [each for each in intervals if each.thing[0] == zone]
    known = {each.identity for each in here}
    first: dict[str, list[Match]] = {}
    for (query, _), each in found.items():
        first.setdefault(query, [m for m in each.at_ns if set(m) <= known])
    return Timeline(
        f"Zone {zone}: intervals and their matches",
        "True times. Bars drawn fully are part of a match; the lines at the bottom span the "
        "matches of each query.",
        bars(here, _lane, first, _SENSED),
    )


def _lane(each: Interval) -> str:
    if each.type == "STAY":
        return f"pallet {each.thing[1]:02d}"
    return _SENSED[each.type not in TEMPERATURE]
