"""R19 5.2.3.2: a pattern whose events' order a time sync gets wrong (Table 5.13)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.order.base import Guards
from slackwater.engine.order.registry import parse_order
from slackwater.engine.query import query
from slackwater.paper import Finding, PaperRun
from slackwater.scenario import Table
from slackwater.scenarios.papers.r19 import published
from slackwater.scenarios.papers.r19.clock_sync import SyncResult, exchange
from slackwater.scenarios.papers.r19.log_writing import SITE, PublishedSource
from slackwater.scenarios.papers.r19.orders import CODE, PRINTED, Approach
from slackwater.scenarios.papers.r19.pattern_data import GOAL_QUERY, GoalData, goal, goal_frames
from slackwater.scenarios.papers.r19.verdicts import judged
from slackwater.scenarios.papers.verdicts import failing

_UNCERTAIN: Final = "uncertain"
_CONFIRMED: Final = "confirmed"
_DETECTED: Final = "detected"
_MISSED: Final = "not detected"
_LAST: Final = "offset 1 s, transport delay 50 ms"
_BOUNDED: Final = tuple(name for name in published.PATTERN if name != _LAST)


@dataclass(frozen=True, slots=True)
class PatternAnswers:
    """What a case gave: the plain query, R19's rule, and ours; how far apart the events seemed."""

    plain: str
    max_delay: str
    pairwise: str
    apart_ms: float


def detected(run: PaperRun) -> Finding:
    """Table 5.13."""
    answers, code = _answers(run, PRINTED), _answers(run, CODE)
    last = answers[_LAST]
    early = [answers[name] for name in _BOUNDED]
    early_by_code = [code[name] for name in _BOUNDED]
    claims = (
        judged(
            "Query 5.8 detects the pattern without and with an offset of 1 s and with transport "
            "delays of 0.125, 1 and 10 ms.",
            all(each.plain != _MISSED for each in early),
            f"{sum(each.plain != _MISSED for each in early)} of {len(early)} cases",
            "5 of 5 cases",
            failing(
                (name, answers[name].plain != _MISSED, _apart(answers[name])) for name in _BOUNDED
            ),
            (
                all(each.plain != _MISSED for each in early_by_code),
                f"{sum(each.plain != _MISSED for each in early_by_code)} of {len(early)} cases",
            ),
        ),
        judged(
            "With a transport delay of 50 ms Query 5.8 does not detect the pattern.",
            last.plain == _MISSED,
            f"{last.plain}: the events seem {last.apart_ms:.1f} ms apart",
            "not detected",
            f"by corrected clocks the first still seems to come before the other, {_apart(last)}.",
            (code[_LAST].plain == _MISSED, code[_LAST].plain),
        ),
        judged(
            "With a transport delay of 50 ms the query that knows the largest delay (Query 5.9) "
            "reports the pattern as uncertain.",
            last.max_delay.startswith(_UNCERTAIN),
            f"{last.max_delay} by R19's rule, {last.pairwise} by our default, the pair's bounds",
            "UncertainPatternDetection",
            f"it is {last.max_delay} with {_apart(last)}.",
            (code[_LAST].max_delay.startswith(_UNCERTAIN), code[_LAST].max_delay),
        ),
        judged(
            "Up to 10 ms the pattern is confirmed: 44 ms are more than the largest delay.",
            all(each.max_delay == each.pairwise == _CONFIRMED for each in early),
            ", ".join(dict.fromkeys(each.max_delay for each in early)),
            "Confirmed, by Pseudocode 3.1",
            failing(
                (
                    name,
                    answers[name].max_delay == answers[name].pairwise == _CONFIRMED,
                    f"{answers[name].max_delay} and {answers[name].pairwise}",
                )
                for name in _BOUNDED
            ),
            (
                all(each.max_delay == each.pairwise == _CONFIRMED for each in early_by_code),
                ", ".join(dict.fromkeys(each.max_delay for each in early_by_code)),
            ),
        ),
    )
    return Finding(claims, (_table(answers),))


def _table(answers: dict[str, PatternAnswers]) -> Table:
    rows = tuple(
        (name, published.PATTERN[name][2], each.plain, each.max_delay, each.pairwise,
         round(each.apart_ms, 3))
        for name, each in answers.items()
    )  # fmt: skip
    return Table(
        "The goal pattern",
        ("case", "plain query, paper", "plain query, ours", "with certainty, R19's rule",
         "with certainty, our default", "e1 to e2 by corrected clocks [ms]"),
        rows,
        "The transport delay is that of one leg of the time sync, of source 0's question and of "
        "source 1's answer, so that the two errors add up. Plain: the same offsets, declared "
        "exact. R19 rewrites the query for certainty; here it is the same query text.",
    )  # fmt: skip


def _apart(answers: PatternAnswers) -> str:
    return f"{answers.apart_ms:.1f} ms apart"


def _answers(run: PaperRun, approach: Approach) -> dict[str, PatternAnswers]:
    made = goal(run.seed)
    with run.watched("the goal pattern") as advanced:
        found = {}
        for name, (ahead_ns, delay_ns, _) in published.PATTERN.items():
            found[name] = _answer(made, approach.order, ahead_ns, delay_ns)
            advanced(4 * (len(made.kicking) + len(made.crossing)))
    return found


def _answer(made: GoalData, order: str, ahead_ns: int, delay_ns: int | None) -> PatternAnswers:
    measured: tuple[SyncResult | None, ...] = (None, None)
    exact = measured
    apart = made.crossing.events.ts[made.cross] - made.kicking.events.ts[made.kick]
    if delay_ns is not None:
        first, second = exchange(ahead_ns, delay_ns, 0), exchange(0, 0, delay_ns)
        measured = first, second
        exact = SyncResult(first.offset_ns, 0), SyncResult(second.offset_ns, 0)
        apart += second.error_ns(0) - first.error_ns(ahead_ns)
    plain = _matched(made, order, ahead_ns, exact, "pairwise")
    return PatternAnswers(
        plain=_DETECTED if plain == _CONFIRMED else plain,
        max_delay=_matched(made, order, ahead_ns, measured, "max-delay-r19"),
        pairwise=_matched(made, order, ahead_ns, measured, "pairwise"),
        apart_ms=float(apart) / 1e6,
    )


def _matched(
    made: GoalData, order: str, ahead_ns: int, syncs: Sequence[SyncResult | None], certainty: str
) -> str:
    """The certainty of the match, with its probability if that is below 1."""
    settings = ChainSettings(
        parse_order(order),
        plans=(query(GOAL_QUERY, name="goal"),),
        certainty=certainty,
        guards=Guards(guard_ns=None),  # R19 refutes no offset by what arrives too early
    )
    chain = Chain(settings, SITE)
    first, second = syncs
    publishers = (PublishedSource("0", 0, ahead_ns, first), PublishedSource("1", 0, 0, second))
    results = [
        result
        for frame in goal_frames(made, publishers)
        for result in chain.process([frame]).results[0]
    ]
    results += chain.finish().results[0]
    if not results:
        return _MISSED
    (match,) = results
    if match["certainty"] == _CONFIRMED:
        return _CONFIRMED
    return f"{_UNCERTAIN} (p = {match['probability']:.2f})"
