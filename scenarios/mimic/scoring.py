"""Compares the passes over charted events with the state after everything was filed."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from slackwater.measures import Measures, measure, measure_many
from slackwater.scenario import NS_PER, Claim, Guards, Score, Table, number, percent
from slackwater.scenarios.mimic.answers import (
    QUERIES,
    DailyCounts,
    asked_again,
    read_answers,
    true_counts,
)
from slackwater.scenarios.orders import order_table, plain
from slackwater.scenarios.runs import QUANTILES, ints, out_of_order, share
from slackwater.simulation import MANIFEST, TRUTH

MAIN: Final = "kslack"
STRAGGLER: Final = "mp-kslack"
UNORDERED: Final = "none"
CHARTED: Final = "charted.parquet"
PUBLISHED: Final = {
    "labevents": (106_735, 18_904),
    "inputevents": (20_404, 6_410),
    "procedureevents": (1_468, 602),
    "outputevents": (9_362, 1_168),
    "datetimeevents": (15_280, 1_717),
}
"""Filed events of each table, and those out of order within the table and the patient (17.71,
31.42, 41.01, 12.48 and 11.24 %), counted when the files were fetched."""
SLACKS: Final = ("kslack:1h", "kslack:4h", "kslack:8h", "kslack:24h", "kslack:168h")
ADAPTIVE: Final = ("mp-kslack", "aq-kslack:error=0.05,window=24h", "ldop:window=24h")
"""Orders that are measured beside those of the passes."""
DEFAULT_GUARD: Final = Guards()
"""The default of every other command and scenario."""
GUARD: Final = Guards(NS_PER["h"])
"""Of this scenario: events charted for the full hour are filed less than an hour before it."""
NO_GUARD: Final = Guards(None)
_MIN_NS: Final = NS_PER["min"]


@dataclass(frozen=True, slots=True)
class Filing:
    """Filing of one table; delays are filing minus event time: p50, p95, p99 and the longest."""

    events: int
    disorder: int
    ahead: int
    delays_ns: tuple[int, ...]


def score_run(directory: Path, main: str) -> Score:
    """Claims, tables and numbers of the run in ``directory``.

    Args:
        directory: of the run.
        main: order of the main pass.

    Raises:
        UserError: a pass wrote no results.
    """
    charted = pq.read_table(directory / TRUTH / CHARTED)
    unfiled = json.loads((directory / MANIFEST).read_bytes())["left_out"]
    filings = {table: _filing(charted, table) for table in unfiled}
    log = directory / "log"
    orders = list(dict.fromkeys((UNORDERED, *SLACKS, main, *ADAPTIVE)))
    measured = measure_many(log, orders, guards=GUARD)[1]
    truth = true_counts(charted)
    of_run = read_answers(directory, MAIN, truth)
    ours = next(each for each in measured if each.order == main)
    guarded = {
        DEFAULT_GUARD: (
            measure(log, main, guards=DEFAULT_GUARD),
            asked_again(log, main, DEFAULT_GUARD, truth),
        ),
        GUARD: (ours, of_run),
        NO_GUARD: (measure(log, main, guards=NO_GUARD), asked_again(log, main, NO_GUARD, truth)),
    }
    unordered = asked_again(log, UNORDERED, GUARD, truth)
    return Score(
        claims=(
            _faithful(filings),
            _price(measured, ours),
            _guard(guarded),
            _accounted(of_run),
            _revisions(unordered, guarded[GUARD][1], main),
        ),
        tables=(
            _filing_table(filings, unfiled),
            order_table(f"Orders over {measured[0].sites} patients, guard 1 h", measured, "h"),
            _guard_table(guarded, main),
        ),
        facts={
            "filings": {
                table: {name: getattr(each, name) for name in Filing.__slots__}
                for table, each in filings.items()
            },
            "unfiled": unfiled,
            "measured": plain(measured),
            "answers": {
                "none": unordered.plain(),
                **{_guard_name(guards): each.plain() for guards, (_, each) in guarded.items()},
            },
        },
    )


def _filing(charted: pa.Table, table: str) -> Filing:
    """Of ``charted``, in order of arrival per patient."""
    mine = charted.filter(pc.equal(charted.column("source"), table))
    ts, arrival = ints(mine, "ts"), ints(mine, "arrival")
    patient = mine.column("site").combine_chunks().dictionary_encode().indices.to_numpy()
    cuts = np.flatnonzero(np.diff(patient)) + 1
    delay = arrival - ts
    quantiles = np.quantile(delay, QUANTILES, method="higher") if delay.size else []
    return Filing(
        events=mine.num_rows,
        disorder=sum(int(out_of_order(each).sum()) for each in np.split(ts, cuts)),
        ahead=int((delay < 0).sum()),
        delays_ns=tuple(int(each) for each in quantiles),
    )


def _faithful(filings: dict[str, Filing]) -> Claim:
    return Claim(
        "The import is faithful: out of order within patient and table are "
        + ", ".join(
            f"{table} {share(each.disorder, each.events):.2f} %" for table, each in filings.items()
        )
        + ", as counted when the files were fetched.",
        all((each.events, each.disorder) == PUBLISHED[table] for table, each in filings.items()),
    )


def _price(measured: list[Measures], ours: Measures) -> Claim:
    """Completeness and its price, as the choice of K needs them."""
    adaptive = next(each for each in measured if each.order == "mp-kslack")
    return Claim(
        f"{ours.order} puts {percent(ours.in_place, ours.arrived)} of the events in their place, "
        f"{percent(ours.arrived - ours.disorder_before, ours.arrived)} were on arrival; half of "
        f"them wait for {number(round(ours.hold.p50_ns / NS_PER['h'], 1))} h and more.",
        ours.disorder_after < ours.disorder_before,
        f"mp-kslack, which remembers the worst straggler for ever, makes half of them wait for "
        f"{number(round(adaptive.hold.p50_ns / NS_PER['h']))} h",
    )


def _guard(guarded: dict[Guards, tuple[Measures, DailyCounts]]) -> Claim:
    """The engine's default guard against one that fits people's charting."""
    (short, of_short), (fits, of_fits) = guarded[DEFAULT_GUARD], guarded[GUARD]
    return Claim(
        f"The future guard must fit the ward: {_guard_name(GUARD)} sets {fits.quarantined} events "
        f"aside, {_guard_name(DEFAULT_GUARD)} (the default) {short.quarantined:,} that were "
        "charted ahead.",
        of_fits.wrong["outputs"] < of_short.wrong["outputs"],
        f"of {of_fits.days['outputs']} daily counts of outputs {of_fits.wrong['outputs']} and "
        f"{of_short.wrong['outputs']} are wrong",
    )


def _accounted(of_run: DailyCounts) -> Claim:
    lacking = sum(of_run.lacking.values())
    side_counts = sum(of_run.too_late.values()) + sum(of_run.quarantined.values())
    right = {name: of_run.days[name] - wrong for name, wrong in of_run.wrong.items()}
    return Claim(
        f"Nothing is lost silently: the daily counts lack {lacking:,} events; "
        f"{sum(of_run.too_late.values())} of them are counted as too late to correct their day and "
        f"{sum(of_run.quarantined.values()):,} as quarantined.",
        lacking == side_counts,
        "finally right are "
        + ", ".join(f"{right[name]:,} of {of_run.days[name]:,} days of {name}" for name in right),
    )


def _revisions(unordered: DailyCounts, ordered: DailyCounts, main: str) -> Claim:
    before, after = (sum(each.retracted.values()) for each in (unordered, ordered))
    return Claim(
        f"Waiting makes answers stable: {main} retracts {after:,} daily results, no order "
        f"{before:,}.",
        after < before,
        f"finally wrong are {sum(ordered.wrong.values())} and {sum(unordered.wrong.values())} "
        f"of {sum(ordered.days.values()):,}, guard {_guard_name(GUARD)}",
    )


def _filing_table(filings: dict[str, Filing], unfiled: dict[str, int]) -> Table:
    return Table(
        "How the tables were filed",
        ("table", "events", "out of order", "[%]", "filed later by, p50 [min]", "p95 [min]",
         "p99 [min]", "max [min]", "charted ahead", "left out: no filing time"),
        tuple(
            (table, each.events, each.disorder, round(share(each.disorder, each.events), 2),
             *(round(delay / _MIN_NS, 1) for delay in each.delays_ns), each.ahead, unfiled[table])
            for table, each in filings.items()
        ),
        "Out of order: within the table and the patient. Charted ahead: filed before its time.",
    )  # fmt: skip


def _guard_table(guarded: dict[Guards, tuple[Measures, DailyCounts]], main: str) -> Table:
    names = [query.name for query in QUERIES]
    return Table(
        f"What the future guard decides, with {main}",
        ("guard", "quarantined [events]", "in place", "out of order left [events]",
         *(f"wrong days of {name}" for name in names), "days", "too late [events]",
         "retracted [results]"),
        tuple(
            (_guard_name(guards), each.quarantined, percent(each.in_place, each.arrived),
             each.disorder_after, *(answers.wrong[name] for name in names),
             sum(answers.days.values()), sum(answers.too_late.values()),
             sum(answers.retracted.values()))
            for guards, (each, answers) in guarded.items()
        ),
        "Without a guard, a date charted for tomorrow moves the event clock on by a day, and "
        "events in between are late.",
    )  # fmt: skip


def _guard_name(guards: Guards) -> str:
    if guards.guard_ns is None:
        return "off"
    unit = "h" if guards.guard_ns >= NS_PER["h"] else "s"
    return f"{guards.guard_ns // NS_PER[unit]} {unit}"
