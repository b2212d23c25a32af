"""Compares the barriers: how soon a theft is told, how often wrongly, and what is taken back."""

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
    """What one barrier said, by tag: an alarm is any number of matches of one book.

    Attributes:
        barrier: its short form.
        first_ns: when the first match was told (engine's clock), of every tag that was reported.
        sure: tags of which some match was told as confirmed.
        standing: tags of which some match stands at the end.
        standing_sure: those of which a confirmed one does.
        told: matches inserted; ``taken_back`` of them were retracted.
        broken: events that broke a promise (K of ``bounded``, a punctuation); the barrier counts.
    """

    barrier: str
    first_ns: Mapping[int, int]
    sure: frozenset[int]
    standing: frozenset[int]
    standing_sure: frozenset[int]
    told: int
    taken_back: int
    broken: int

    @classmethod
    def read(cls, directory: Path, each: Pass, truth: ShopTruth) -> Alarms:
        """The alarms of a pass.

        Raises:
            UserError: the pass left nothing behind.
        """
        first_ns: dict[int, int] = {}
        sure: set[int] = set()
        standing: dict[Any, tuple[int, bool]] = {}
        told = taken_back = 0
        for result in emitted(directory, each.label, "matches"):
            if result["query"] != QUERY:
                continue
            identity = match_identity(result)
            if result["op"] == "-":
                taken_back += 1
                del standing[identity]
                continue
            told += 1
            event = result["events"][-1]
            tag = truth.reads[event["source"], event["seq"]].tag
            standing[identity] = (tag, result["certainty"] == CONFIRMED)
            first_ns.setdefault(tag, result["at"])
            if result["certainty"] == CONFIRMED:
                sure.add(tag)
        counted = read_counters(directory, each.label)["sites"].values()
        broken = sum(site["queries"][QUERY].get("promises_broken", 0) for site in counted)
        return cls(
            barrier=each.barrier or IMMEDIATE,
            first_ns=first_ns,
            sure=frozenset(sure),
            standing=frozenset(tag for tag, _ in standing.values()),
            standing_sure=frozenset(tag for tag, is_sure in standing.values() if is_sure),
            told=told,
            taken_back=taken_back,
            broken=broken,
        )


@dataclass(frozen=True, slots=True)
class Judged:
    """Alarms against what is true of the reads that arrived (``expected``).

    Attributes:
        alarms: of one barrier.
        delays_ns: from the theft's exit to its first alarm, of every theft that was told.
        missed: thefts whose reads arrived and of which no alarm stands.
        false: tags reported at some time that were not to be reported.
        surely_false: those of them that were reported as confirmed.
        false_standing: those that were never taken back.
    """

    alarms: Alarms
    delays_ns: np.ndarray
    missed: frozenset[int]
    false: frozenset[int]
    surely_false: frozenset[int]
    false_standing: frozenset[int]

    @classmethod
    def of(cls, alarms: Alarms, truth: ShopTruth, expected: frozenset[int]) -> Judged:
        """Compares by tag."""
        thefts = truth.stolen & expected
        told = sorted(thefts & alarms.first_ns.keys())
        delays = [alarms.first_ns[tag] - truth.exit_ns[tag] for tag in told]
        false = frozenset(alarms.first_ns.keys() - expected)
        return cls(
            alarms=alarms,
            delays_ns=np.array(delays, np.int64),
            missed=thefts - alarms.standing,
            false=false,
            surely_false=false & alarms.sure,
            false_standing=false & alarms.standing,
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
        UserError: a pass left nothing behind.
    """
    truth = ShopTruth.read(directory)
    expected = truth.answers(within_ns, arrived=True)
    judged = {
        each.barrier or IMMEDIATE: Judged.of(Alarms.read(directory, each, truth), truth, expected)
        for each in passes
    }
    facts: dict[str, Any] = {
        "thefts": len(truth.stolen),
        "thefts_arrived": len(truth.stolen & expected),
        "expected": len(expected),
        "true_matches": [
            {"query": QUERY, "at_ref_ns": truth.exit_ns[tag]} for tag in sorted(truth.stolen)
        ],
        "barriers": {name: _facts(each) for name, each in judged.items()},
    }
    return Score(
        claims=_claims(judged, truth, expected),
        tables=(_barrier_table(judged, truth, expected), _read_table(truth, within_ns)),
        facts=facts,
        charts=(_trade_off(judged),),
    )


def _facts(each: Judged) -> dict[str, Any]:
    return {
        "delay_ms_p50": each.median_ms,
        "told": len(each.alarms.first_ns),
        "thefts_missed": len(each.missed),
        "false_raised": len(each.false),
        "false_confirmed": len(each.surely_false),
        "false_standing": len(each.false_standing),
        "matches_told": each.alarms.told,
        "matches_taken_back": each.alarms.taken_back,
        "promises_broken": each.alarms.broken,
        "standing": sorted(each.alarms.standing),
    }


def _claims(
    judged: Mapping[str, Judged], truth: ShopTruth, expected: frozenset[int]
) -> tuple[Claim, ...]:
    thefts = truth.stolen & expected
    missed = {name: len(each.missed) for name, each in judged.items() if each.missed}
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
    keeping = [name for name, each in judged.items() if not each.alarms.broken]
    answers = {judged[name].alarms.standing for name in keeping}
    right = [
        judged[name].alarms.standing_sure <= expected <= judged[name].alarms.standing
        for name in keeping
    ]
    claims.append(
        Claim(
            f"In the end all {len(keeping)} barriers whose promises held say the same, and what "
            f"the reads say by their true times: {len(expected)} books.",
            len(answers) <= 1 and all(right),
            ", ".join(keeping),
        )
    )
    if PUNCTUATION in judged:
        sure = judged[PUNCTUATION]
        claims.append(
            Claim(
                f"The conservative barrier raises no false alarm: {len(sure.surely_false)} "
                f"confirmed, {sure.alarms.taken_back} matches taken back.",
                not sure.surely_false and not sure.alarms.taken_back,
                f"{len(sure.false)} were told as uncertain: nearer together than clocks can tell"
                if sure.false
                else "",
            )
        )
        if IMMEDIATE in judged and thefts:
            claims.append(_price(judged[IMMEDIATE], sure))
    return tuple(claims)


def _price(eager: Judged, sure: Judged) -> Claim:
    gain_ms = sure.median_ms - eager.median_ms
    raised = len(eager.false)
    return Claim(
        f"The aggressive barrier is faster by {gain_ms:,.0f} ms (median of {eager.delays_ns.size} "
        f"thefts) and pays with {raised} false alarms, of which it takes back "
        f"{raised - len(eager.false_standing)}.",
        gain_ms > 0 and not (eager.false_standing - sure.false_standing),
        f"{eager.median_ms:,.1f} ms against {sure.median_ms:,.1f} ms from the exit to the alarm",
    )


def _barrier_table(
    judged: Mapping[str, Judged], truth: ShopTruth, expected: frozenset[int]
) -> Table:
    rows = []
    honest = expected - truth.stolen
    for name, each in judged.items():
        p50, p95, *_ = (round(ms, 1) for ms in quantiles_ms(each.delays_ns))
        rows.append(
            (name, int(each.delays_ns.size), p50, p95, len(each.missed), len(each.false),
             len(each.surely_false), len(each.false - each.false_standing), each.alarms.told,
             each.alarms.taken_back, each.alarms.broken)
        )  # fmt: skip
    return Table(
        "Barriers: delay against false alarms",
        ("barrier", "thefts told", "delay p50 [ms]", "p95 [ms]", "thefts missed", "false alarms",
         "said to be sure", "taken back", "matches told", "matches taken back",
         "promises broken"),
        tuple(rows),
        "One alarm per book, however many matches it has (several antennas, cut presences). Delay: "
        "from the moment the book came to the exit to the first alarm, in the run's time. A false "
        f"alarm is one that all reads which arrived refute; {len(honest)} alarms about bought "
        "books are not counted as such, because no counter ever read them.",
    )  # fmt: skip


def _read_table(truth: ShopTruth, within_ns: int) -> Table:
    """What the readers made of the books, by fate: the limits of any engine."""
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
        ("book is", "books", "reads told", "seen at a shelf", "seen at a counter",
         "seen at an exit", "matches by all reads", "matches by the reads that arrived"),
        tuple(rows),
        "Found by brute force over true times. More than one read per place: two antennas each, "
        "and presences cut by missed answers. A book that a shelf or an exit missed cannot be "
        "reported, one that the counter missed must be.",
    )  # fmt: skip


def _trade_off(judged: Mapping[str, Judged]) -> Chart:
    groups: dict[str, list[tuple[float, float, str]]] = {}
    for name, each in judged.items():
        kind, _, length = name.partition(":")
        groups.setdefault(kind, []).append((each.median_ms, float(len(each.false)), length or kind))
    return Chart(
        "Delay against false alarms",
        "Each point is a barrier: how long after the exit a theft is reported (median), and for "
        "how many books it is reported wrongly, even if taken back later. Lower and further left "
        "is better; a line joins one barrier's settings.",
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
