"""Pairs of events that are goals by true time, and their fates in the results.

The true pairs are found by brute force over all kicks and all stopped balls of the truth table; the
plan of the incidents is not asked, and neither are the results.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from slackwater.scenarios.soccer.event_truth import EventTruth
from slackwater.scenarios.soccer.pitch import WITHIN_NS

QUERY: Final = "goals"
CONFIRMED: Final = "confirmed"
Pair = tuple[int, int]
"""Rows of the kick and of the goal in the truth table."""


@dataclass(frozen=True, slots=True)
class Goals:
    """Results against truth.

    Attributes:
        pairs: every pair that matches by true time, in order of time.
        reached: those of them both of whose events are in the log.
        results: standing results by pair.
    """

    pairs: tuple[Pair, ...]
    reached: frozenset[Pair]
    results: Mapping[Pair, dict[str, Any]]

    @property
    def overlooked(self) -> list[Pair]:
        """Goals that could have been reported and were not."""
        return [pair for pair in self.pairs if pair in self.reached and pair not in self.results]

    @property
    def invented(self) -> list[Pair]:
        """Reported pairs that are no goals, confirmed or not."""
        return sorted(set(self.results) - set(self.pairs))

    def confirmed(self, pairs: Iterable[Pair]) -> list[Pair]:
        """Those of ``pairs`` that are reported as confirmed."""
        return [
            pair
            for pair in pairs
            if pair in self.results and self.results[pair]["certainty"] == CONFIRMED
        ]


def true_pairs(truth: EventTruth) -> tuple[Pair, ...]:
    """All (kick, goal) with 0 < goal - kick <= ``WITHIN_NS`` in true time."""
    kicks, goals = np.flatnonzero(truth.kick), np.flatnonzero(truth.goal)
    gap = truth.true_ns[goals][None, :] - truth.true_ns[kicks][:, None]
    which_kick, which_goal = np.nonzero((gap > 0) & (gap <= WITHIN_NS))
    found = zip(kicks[which_kick].tolist(), goals[which_goal].tolist(), strict=True)
    return tuple(sorted(found, key=lambda pair: int(truth.true_ns[pair[1]])))


def score_goals(truth: EventTruth, logged: np.ndarray, results: list[dict[str, Any]]) -> Goals:
    """Compares the standing ``results`` of the goal query with the truth.

    No agent restarts in this scenario, so every number is of incarnation 0.
    """
    pairs = true_pairs(truth)
    by_pair: dict[Pair, dict[str, Any]] = {}
    for result in results:
        sources = [event["source"] for event in result["events"]]
        numbers = np.array([event["seq"] for event in result["events"]], np.int64)
        kick, goal = truth.find(pa.array(sources), np.zeros(2, np.int64), numbers).tolist()
        assert kick >= 0, "a result holds an event that nobody made"
        assert goal >= 0, "a result holds an event that nobody made"
        by_pair[kick, goal] = result
    reached = frozenset(pair for pair in pairs if logged[pair[0]] and logged[pair[1]])
    return Goals(pairs, reached, by_pair)
