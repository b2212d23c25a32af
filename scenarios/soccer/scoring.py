"""Compares the passes of a soccer run with the truth of its simulation."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.scenario import Claim, Score, Table
from slackwater.scenarios.runs import (
    IN_ORDER,
    LATE,
    LATE_DROPPED,
    NS_PER_MS,
    RESIDUAL,
    ints,
    lane_sum,
    out_of_order,
    quantiles_ms,
    read_counters,
    read_ordered,
    share,
)
from slackwater.scenarios.soccer.event_truth import EventTruth
from slackwater.scenarios.soccer.goal_scoring import goal_score
from slackwater.scenarios.soccer.speed_curve import curve_score
from slackwater.scenarios.soccer.window_scoring import window_score
from slackwater.simulation import LOG, TRUTH

MAIN: Final = "sequence"
UNORDERED: Final = "none"


@dataclass(frozen=True, slots=True)
class OrderedStream:
    """The ordered stream of one pass, each event with the row of its truth."""

    rows: np.ndarray
    true_ns: np.ndarray
    ts: np.ndarray
    ref: np.ndarray
    unc: np.ndarray
    status: np.ndarray
    hold_ns: np.ndarray

    @classmethod
    def read(cls, directory: Path, label: str, truth: EventTruth) -> OrderedStream:
        """The pass ``label``; events that were dropped are not in the stream."""
        table = read_ordered(directory, label)
        table = table.filter(pa.array(ints(table, "status") != LATE_DROPPED))
        rows = truth.find(table.column("source"), ints(table, "incarnation"), ints(table, "seq"))
        assert np.all(rows >= 0), "the stream holds an event that nobody made"
        return cls(
            rows=rows,
            true_ns=truth.true_ns[rows],
            ts=ints(table, "ts"),
            ref=ints(table, "ref"),
            unc=ints(table, "unc"),
            status=ints(table, "status"),
            hold_ns=ints(table, "release") - ints(table, "arrival"),
        )


def score_run(directory: Path, order: str) -> Score:
    """Claims, tables, numbers and figures of the run in ``directory``; ``order``: its main one.

    Raises:
        UserError: a pass wrote no results.
    """
    truth = EventTruth.read(directory)
    logged = truth.logged(directory)
    main = OrderedStream.read(directory, MAIN, truth)
    before = OrderedStream.read(directory, UNORDERED, truth)
    parts = [
        goal_score(directory, MAIN, truth, logged),
        window_score(directory, MAIN, truth, logged),
        _order_score(main, before),
        _clock_score(directory, main, truth),
        _loss_score(directory, truth, logged),
        curve_score(directory / LOG, order, truth, logged),
    ]
    return Score(
        claims=tuple(claim for part in parts for claim in part.claims),
        tables=tuple(table for part in parts for table in part.tables),
        facts={name: value for part in parts for name, value in part.facts.items()},
        charts=tuple(chart for part in parts for chart in part.charts),
        units={name: unit for part in parts for name, unit in part.units.items()},
    )


def _order_score(main: OrderedStream, before: OrderedStream) -> Score:
    in_time = main.ref[main.status == IN_ORDER]
    left = int(out_of_order(in_time).sum())
    rows: list[tuple[str | int | float, ...]] = []
    facts: dict[str, Any] = {}
    for label, stream in ((UNORDERED, before), (MAIN, main)):
        disorder = {
            "device": int(out_of_order(stream.ts).sum()),
            "corrected": int(out_of_order(stream.ref).sum()),
        }
        behind_ns = np.maximum.accumulate(stream.true_ns) - stream.true_ns
        _, _, *behind = quantiles_ms(behind_ns)
        p50, _, p99, most = quantiles_ms(stream.hold_ns)
        events = len(stream.rows)
        facts[f"out_of_order_{label}"] = disorder
        facts[f"events_{label}"] = events
        percents = [round(share(count, events), 3) for count in disorder.values()]
        late = [int((stream.status == status).sum()) for status in (RESIDUAL, LATE)]
        facts[f"behind_true_ms_max_{label}"] = behind[1]
        rows.append((label, events, *percents, *behind, *late, p50, p99, most))
    was = share(facts[f"out_of_order_{UNORDERED}"]["corrected"], len(before.rows))
    claim = Claim(
        f"Events come out in order: {was:.1f} % were out of order on arrival, "
        f"{share(left, len(in_time)):.1f} % of those in time are afterwards.",
        left == 0,
        f"{left} of {len(in_time):,} lie below one released earlier; "
        f"{len(main.rows) - len(in_time):,} more came too late for their place and are marked so",
    )
    table = Table(
        "Order of the events",
        ("pass", "events", "out of order by the devices' clocks [%]", "by corrected time [%]",
         "behind in true time p99 [ms]", "at most [ms]", "residual [events]", "late [events]",
         "held p50 [ms]", "held p99 [ms]", "held at most [ms]"),
        tuple(rows),
        "Behind: how much older an event is than one before it. In true time a little stays: no "
        "order can be better than the clocks it knows. Residual and late events are marked.",
    )  # fmt: skip
    return Score((claim,), (table,), facts | {"residual_disorder_in_time": left})


def _clock_score(directory: Path, main: OrderedStream, truth: EventTruth) -> Score:
    clocks = pq.read_table(directory / TRUTH / "clocks.parquet")
    offsets = clocks.group_by("source").aggregate([("offset_ns", "min"), ("offset_ns", "max")])
    names = offsets.column("source").cast(pa.string()).to_pylist()
    spans = dict(
        zip(
            names,
            zip(ints(offsets, "offset_ns_min"), ints(offsets, "offset_ns_max"), strict=True),
            strict=True,
        )
    )
    error = np.abs(main.ref - main.true_ns)
    within = error <= main.unc
    source = truth.source[main.rows]
    rows = []
    for code, name in enumerate(truth.names):
        mine = source == code
        if not mine.any():
            continue
        least, most = spans[name]
        rows.append(
            (
                name,
                round(float(least) / NS_PER_MS, 3),
                round(float(most) / NS_PER_MS, 3),
                round(float(error[mine].max()) / NS_PER_MS, 3),
                round(float(np.median(main.unc[mine])) / NS_PER_MS, 3),
                round(float((error[mine] / main.unc[mine].clip(min=1)).max()), 2),
                round(share(int(within[mine].sum()), int(mine.sum())), 3),
            )
        )
    inside = int(within.sum())
    claim = Claim(
        f"The declared uncertainty of event time holds for {share(inside, len(within)):.3f} % of "
        f"{len(within):,} events.",
        inside == len(within),
        f"{len(within) - inside} events are further from their true time than declared",
    )
    table = Table(
        "Clocks of the gateways",
        ("gateway", "true offset, least [ms]", "true offset, most [ms]",
         "largest error after correction [ms]", "declared uncertainty, median [ms]",
         "largest error / declared", "within the bound [%]"),
        tuple(rows),
        "Offset: the engine's clock minus the gateway's.",
    )  # fmt: skip
    facts = {
        "within_uncertainty_percent": share(inside, len(within)),
        "clock_error_ns_max": int(error.max(initial=0)),
    }
    return Score((claim,), (table,), facts)


def _loss_score(directory: Path, truth: EventTruth, logged: np.ndarray) -> Score:
    counters = read_counters(directory, MAIN)
    lost = len(truth) - int(logged.sum())
    missing = lane_sum(counters, "missing_total") - lane_sum(counters, "missing_filled")
    claim = Claim(
        f"Every event that the network lost is known to be missing: {missing:,} of {lost:,}.",
        missing == lost,
        "numbers given up and not filled later, against events that are not in the log",
    )
    facts = {
        "events_numbered": len(truth),
        "events_unnumbered": truth.unnumbered,
        "events_lost": lost,
        "events_missing": missing,
        "duplicates": lane_sum(counters, "duplicate"),
    }
    return Score((claim,), facts=facts)
