"""Compares the barriers: delay of alarms, false alarms, and retractions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from slackwater.scenario import Chart, Claim, Pass, Score, Series, Table
from slackwater.scenarios.bookstore.alarm_truth import QUERY, ShopTruth
from slackwater.scenarios.bookstore.shop import Fate
from slackwater.scenarios.runs import emitted, match_identity, quantiles_ms, read_counters

IMMEDIATE: Final = "immediate"
PUNCTUATION: Final = "punctuation"
CONFIRMED: Final = "confirmed"


@dataclass(frozen=True, slots=True)
class Alarms:
    """The alarms of one barrier, by tag; all matches of one book are one alarm.

    Attributes:
        barrier: its short form.
        first_ns: when the first match of each reported tag was emitted (engine's clock).
        confirmed: tags with a confirmed match at some time.
        final: tags with a match in the final results.
        final_confirmed: those with a confirmed one there.
        emitted_count: matches inserted; ``retracted`` of them were retracted.
        broken: events that broke a promise (K of ``bounded``, a punctuation), by the barrier.
    """

    barrier: str
    first_ns: Mapping[int, int]
    confirmed: frozenset[int]
    final: frozenset[int]
    final_confirmed: frozenset[int]
    emitted_count: int
    retracted: int
    broken: int

    @classmethod
    def read(cls, directory: Path, each: Pass, truth: ShopTruth) -> Alarms:
        """The alarms of a pass.

        Raises:
            UserError: the pass wrote no results.
        """
        first_ns: dict[int, int] = {}
        confirmed: set[int] = set()
        final: dict[Any, tuple[int, bool]] = {}
        emitted_count = retracted = 0
        for result in emitted(directory, each.label, "matches"):
            if result["query"] != QUERY:
                continue
            identity = match_identity(result)
            if result["op"] == "-":
                retracted += 1
                del final[identity]
                continue
            emitted_count += 1
            event = result["events"][-1]
            tag = truth.reads[event["source"], event["seq"]].tag
            final[identity] = (tag, result["certainty"] == CONFIRMED)
            first_ns.setdefault(tag, result["at"])
            if result["certainty"] == CONFIRMED:
                confirmed.add(tag)
        sites = read_counters(directory, each.label)["sites"].values()
        broken = sum(site["queries"][QUERY].get("promises_broken", 0) for site in sites)
        return cls(
            barrier=each.barrier or IMMEDIATE,
            first_ns=first_ns,
            confirmed=frozenset(confirmed),
            final=frozenset(tag for tag, _ in final.values()),
            final_confirmed=frozenset(tag for tag, is_sure in final.values() if is_sure),
            emitted_count=emitted_count,
            retracted=retracted,
            broken=broken,
        )


@dataclass(frozen=True, slots=True)
class AlarmQuality:
    """Alarms compared with the truth about the reads that arrived (``expected``).

    Attributes:
        alarms: of one barrier.
        delays_ns: from the theft's exit to its first alarm, of every reported theft.
        missed: thefts whose reads arrived, without a final alarm.
        false: tags that were reported and should not have been.
        surely_false: those of them that were reported as confirmed.
        false_final: those that were never retracted.
    """

    alarms: Alarms
    delays_ns: np.ndarray
    missed: frozenset[int]
    false: frozenset[int]
    surely_false: frozenset[int]
    false_final: frozenset[int]

    @classmethod
    def of(cls, alarms: Alarms, truth: ShopTruth, expected: frozenset[int]) -> AlarmQuality:
        """Compares by tag."""
        thefts = truth.stolen & expected
        reported = sorted(thefts & alarms.first_ns.keys())
        delays = [alarms.first_ns[tag] - truth.exit_ns[tag] for tag in reported]
        false = frozenset(alarms.first_ns.keys() - expected)
        return cls(
            alarms=alarms,
            delays_ns=np.array(delays, np.int64),
            missed=thefts - alarms.final,
            false=false,
            surely_false=false & alarms.confirmed,
            false_final=false & alarms.final,
        )

    @property
    def median_ms(self) -> float:
        """Of the delays; 0 if there are none."""
        return quantiles_ms(self.delays_ns)[0]


def score_run(directory: Path, passes: Sequence[Pass], within_ns: int) -> Score:
    """Claims, tables, chart and numbers of the run in ``directory``.

    Args:
        directory: of the run.
        passes: with their barriers.
        within_ns: of the query, in the run's time.

    Raises:
        UserError: a pass wrote no results.
    """
    truth = ShopTruth.read(directory)
    expected = truth.answers(within_ns, arrived=True)
    qualities = {
        each.barrier or IMMEDIATE: AlarmQuality.of(
            Alarms.read(directory, each, truth), truth, expected
        )
        for each in passes
    }
    facts: dict[str, Any] = {
        "thefts": len(truth.stolen),
        "thefts_arrived": len(truth.stolen & expected),
        "expected": len(expected),
        "true_matches": [
            {"query": QUERY, "at_ref_ns": truth.exit_ns[tag]} for tag in sorted(truth.stolen)
        ],
        "barriers": {name: _facts(each) for name, each in qualities.items()},
    }
    return Score(
        claims=_claims(qualities, truth, expected),
        tables=(_barrier_table(qualities, truth, expected), _read_table(truth, within_ns)),
        facts=facts,
        charts=(_trade_off(qualities),),
    )


def _facts(each: AlarmQuality) -> dict[str, Any]:
    return {
        "delay_ms_p50": each.median_ms,
        "emitted": len(each.alarms.first_ns),
        "thefts_missed": len(each.missed),
        "false_raised": len(each.false),
        "false_confirmed": len(each.surely_false),
        "false_final": len(each.false_final),
        "matches_emitted": each.alarms.emitted_count,
        "matches_retracted": each.alarms.retracted,
        "promises_broken": each.alarms.broken,
        "final": sorted(each.alarms.final),
    }


def _claims(
    qualities: Mapping[str, AlarmQuality], truth: ShopTruth, expected: frozenset[int]
) -> tuple[Claim, ...]:
    thefts = truth.stolen & expected
    missed = {name: len(each.missed) for name, each in qualities.items() if each.missed}
    unseen = len(truth.stolen) - len(thefts)
    claims = [
        Claim(
            f"Every theft whose reads arrived is reported, whatever the barrier: {len(thefts)} of "
            f"{len(truth.stolen)} thefts.",
            not missed,
            "; ".join(f"{name} misses {count}" for name, count in missed.items())
            or (f"the readers missed {unseen} more at shelf or exit" if unseen else ""),
        )
    ]
    keeping = [name for name, each in qualities.items() if not each.alarms.broken]
    answers = {qualities[name].alarms.final for name in keeping}
    right = [
        qualities[name].alarms.final_confirmed <= expected <= qualities[name].alarms.final
        for name in keeping
    ]
    claims.append(
        Claim(
            f"All {len(keeping)} barriers whose promises held end with the same alarms, those that "
            f"the reads give by their true times: {len(expected)} books.",
            len(answers) <= 1 and all(right),
            ", ".join(keeping),
        )
    )
    if PUNCTUATION in qualities:
        conservative = qualities[PUNCTUATION]
        claims.append(
            Claim(
                f"The conservative barrier raises no false alarm: {len(conservative.surely_false)} "
                f"confirmed, {conservative.alarms.retracted} matches retracted.",
                not conservative.surely_false and not conservative.alarms.retracted,
                f"{len(conservative.false)} were emitted as uncertain: within the clocks' bounds"
                if conservative.false
                else "",
            )
        )
        if IMMEDIATE in qualities and thefts:
            claims.append(_price(qualities[IMMEDIATE], conservative))
    return tuple(claims)


def _price(eager: AlarmQuality, conservative: AlarmQuality) -> Claim:
    gain_ms = conservative.median_ms - eager.median_ms
    raised = len(eager.false)
    return Claim(
        f"The aggressive barrier is faster by {gain_ms:,.0f} ms (median of {eager.delays_ns.size} "
        f"thefts) and pays with {raised} false alarms; it retracts "
        f"{raised - len(eager.false_final)} of them.",
        gain_ms > 0 and not (eager.false_final - conservative.false_final),
        f"{eager.median_ms:,.1f} ms against {conservative.median_ms:,.1f} ms from exit to alarm",
    )


def _barrier_table(
    qualities: Mapping[str, AlarmQuality], truth: ShopTruth, expected: frozenset[int]
) -> Table:
    rows = []
    honest = expected - truth.stolen
    for name, each in qualities.items():
        p50, p95, *_ = (round(ms, 1) for ms in quantiles_ms(each.delays_ns))
        rows.append(
            (name, int(each.delays_ns.size), p50, p95, len(each.missed), len(each.false),
             len(each.surely_false), len(each.false - each.false_final), each.alarms.emitted_count,
             each.alarms.retracted, each.alarms.broken)
        )  # fmt: skip
    return Table(
        "Barriers: delay against false alarms",
        ("barrier", "thefts reported", "delay p50 [ms]", "p95 [ms]", "thefts missed",
         "false alarms", "confirmed", "retracted", "matches emitted", "matches retracted",
         "promises broken"),
        tuple(rows),
        "One alarm per book, however many matches it has (several antennas, cut presences). Delay: "
        "from the book's arrival at the exit to the first alarm, in the run's time. The reads that "
        f"arrived refute a false alarm; {len(honest)} alarms about bought books do not count, "
        "because no counter ever read them.",
    )  # fmt: skip


def _read_table(truth: ShopTruth, within_ns: int) -> Table:
    """What the readers saw of the books, by fate: the limit of any engine."""
    seen = {zone: set[int]() for zone in ("SHELF", "COUNTER", "EXIT")}
    for each in truth.reads.values():
        seen[each.zone].add(each.tag)
    answers = [truth.answers(within_ns, arrived=arrived) for arrived in (False, True)]
    rows = []
    for fate in Fate:
        tags = {tag for tag, of in truth.fates.items() if of is fate}
        reads = sum(each.tag in tags for each in truth.reads.values())
        rows.append(
            (fate.value, len(tags), reads, *(len(tags & seen[zone]) for zone in seen),
             *(len(tags & each) for each in answers))
        )  # fmt: skip
    return Table(
        "What the readers saw",
        ("book is", "books", "reads", "seen at a shelf", "seen at a counter",
         "seen at an exit", "matches by all reads", "matches by the reads that arrived"),
        tuple(rows),
        "Found by brute force over true times. More than one read per place: two antennas each, "
        "and presences cut by missed answers. A book that a shelf or an exit missed cannot be "
        "reported, one that the counter missed must be.",
    )  # fmt: skip


def _trade_off(qualities: Mapping[str, AlarmQuality]) -> Chart:
    groups: dict[str, list[tuple[float, float, str]]] = {}
    for name, each in qualities.items():
        kind, _, length = name.partition(":")
        groups.setdefault(kind, []).append((each.median_ms, float(len(each.false)), length or kind))
    return Chart(
        "Delay against false alarms",
        "Each point is a barrier: how long after the exit a theft is reported (median), and how "
        "many books are reported wrongly, even if retracted later. Lower and further left is "
        "better; a line joins the settings of one barrier.",
        "median delay of an alarm [ms]",
        "false alarms",
        tuple(
            Series(
                kind,
                tuple(x for x, _, _ in points),
                tuple(y for _, y, _ in points),
                tuple(text for _, _, text in points),
                joined=len(points) > 1,
            )
            for kind, points in groups.items()
        ),
    )
