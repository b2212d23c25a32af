"""A validation as a whole: what was looked at, how good it is, and what follows for each query."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from slackwater.engine.apps.report.numbers import plain
from slackwater.engine.apps.report.verdict import VerdictCase
from slackwater.engine.apps.validate.quality import Setup, SourceQuality
from slackwater.engine.apps.validate.verdict import (
    Fitness,
    Measured,
    QueryVerdict,
    ResultRequirements,
    asked_of,
    judge,
    overall,
)
from slackwater.engine.query.plan import Plan

Answered = Callable[[str], Measured | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Validation:
    """``looked_at``: for the reader, as ``agent.toml``; ``kind``: ``device`` or ``log``."""

    looked_at: str
    kind: str
    setup: Setup
    wanted: ResultRequirements
    verdicts: tuple[QueryVerdict, ...]

    @property
    def fitness(self) -> Fitness:
        """Of all together."""
        return overall(self.verdicts, self.setup)


def validation(
    looked_at: str, kind: str, setup: Setup, plans: Sequence[Plan], wanted: ResultRequirements,
    measured: Answered = lambda _name: None,
) -> Validation:  # fmt: skip
    """The verdicts of all queries; ``measured``: by a query's name, of a log's own answers."""
    verdicts = tuple(judge(asked_of(each), setup, wanted, measured(each.name)) for each in plans)
    return Validation(looked_at=looked_at, kind=kind, setup=setup, wanted=wanted, verdicts=verdicts)


def checks_of(found: Validation) -> list[VerdictCase]:
    """Each query, and what is wrong besides, for CI; of neither, all together."""
    checks = [
        VerdictCase(
            f"{each.asked.name} can be decided",
            each.fitness is not Fitness.NOT_FIT,
            "; ".join([each.fitness.words, *each.reasons, each.change_first]).rstrip("; "),
        )
        for each in found.verdicts
    ]
    checks += [VerdictCase(text, not forbids) for text, forbids in found.setup.concerns]
    fit = found.fitness is not Fitness.NOT_FIT
    return checks or [VerdictCase("the clocks and links are fit", fit, found.fitness.words)]


def as_plain(found: Validation, made_with: dict[str, Any]) -> dict[str, Any]:
    """What ``validate.json`` holds; durations in ns, frequencies in ppb, shares from 0 to 1."""
    setup = found.setup
    made: dict[str, Any] = plain(
        {
            "kind": found.kind, "looked_at": found.looked_at,
            "verdict": found.fitness.words,
            "wanted": found.wanted,
            "queries": [_query(each) for each in found.verdicts],
            "t_a_ns": setup.t_a_ns, "pair_uncertainty_ns": setup.pair_ns,
            "alike": setup.alike,
            "sources": [_source(each) for each in setup.sources],
            "lateness_ns": None if setup.lateness_ns is None else dict(
                zip(("p50", "p99", "p999", "max"), setup.lateness_ns, strict=True)
            ),
            "concerns": [{"text": text, "forbids": forbids} for text, forbids in setup.concerns],
            "facts": setup.facts,
            "made_with": made_with,
        }
    )  # fmt: skip
    return made


def _query(each: QueryVerdict) -> dict[str, Any]:
    return {
        "name": each.asked.name, "query": each.asked.text, "kind": each.asked.kind,
        "verdict": each.fitness.words, "order_gap_ns": each.order_gap_ns,
        "smallest_ns": each.smallest_ns, "within_ns": each.asked.within_ns,
        "window_ns": each.asked.window_ns, "uncertain_expected": each.expected,
        "uncertain_measured": None if each.measured is None else each.measured.share,
        "results": None if each.measured is None else each.measured.results,
        "timeout_ns": each.timeout_ns, "hold_ns": each.hold_ns,
        "detection_p95_ns": each.detection_p95_ns, "reasons": each.reasons,
        "change_first": each.change_first,
    }  # fmt: skip


def _source(each: SourceQuality) -> dict[str, Any]:
    clock = each.clock
    return {
        "site": each.site, "name": each.name, "events": each.events,
        "clock": {
            **plain(clock), "fresh_ns": clock.fresh_ns, "held_ns": clock.held_ns,
            "bound_ns": clock.bound_ns(),
        } if clock.offset_ns is not None else plain(clock),
        "link": None if each.link is None else {
            **plain(each.link), "loss": each.link.loss, "loss_bounds": each.link.loss_bounds,
        },
    }  # fmt: skip
