"""What the kernel of repetition has found, as changes in columns (``engine.barrier.changes``)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.barrier.changes import Changes, Verdicts
from engine.kernels.table import places_of
from engine.pattern.settings import Rule
from engine.pattern.store import Store
from engine.pattern.verdict.matches import as_sure
from engine.pattern.verdict.unknown import of_runs
from engine.query.repeat_plan import Contiguity, RepeatPlan, Skip, compares_others
from engine.repetition.chances import chances_of
from engine.repetition.kernel import FoundRuns
from engine.repetition.match_table import MatchTable
from engine.stream.chance import UNKNOWN
from engine.stream.timeline import ANY_TYPE, LONG_AGO

_NEVER = 2**62


@dataclass(frozen=True, slots=True)
class GapScope:
    """What a match waits for: that no event of ``type`` may come any more, up to the end of the
    scope of the negated step ``negated``, or (None) up to its own last event.
    """

    type: str
    negated: int | None


def scopes_of(plan: RepeatPlan) -> list[GapScope]:
    """All that later events may change a match by."""
    found = [GapScope(step.type, n) for n, step in enumerate(plan.steps) if step.negated]
    kinds: list[str] = []
    if plan.contiguity is Contiguity.STRICT:
        kinds = [ANY_TYPE]
    elif _by_others(plan) or plan.contiguity is Contiguity.NEXT:
        kinds = [step.type for step in plan.steps]
    else:
        kinds = [
            step.type for step, often in zip(plan.steps, plan.often, strict=True) if often.until
        ]
    return found + [GapScope(kind, None) for kind in dict.fromkeys(kinds)]


def _by_others(plan: RepeatPlan) -> bool:
    return plan.skip is not Skip.NONE or plan.limit is not None


def _is_chosen(plan: RepeatPlan) -> bool:
    """Whether a match may make way for another, or for another reading of its events."""
    return _by_others(plan) or plan.ambiguous


@dataclass(slots=True)
class RepeatJudge:
    """Makes changes of what the kernel has found; gives matches their numbers."""

    plan: RepeatPlan
    rule: Rule
    store: Store
    matches: MatchTable

    def changes(self, runs: FoundRuns) -> Changes | None:
        """None if nothing changes."""
        if not len(runs.found):
            return None
        found, columns = runs.found, self.store.columns
        number = self.matches.numbers(found["from_"], found["size"], runs.path, columns["order"])
        if _is_chosen(self.plan):
            places, before, after = self._chosen(runs, number)
        else:
            places = np.arange(len(found))
            new = found["new"] == 1
            before = self._verdicts(runs, ~new, found["sure_before"], "t_a_before", old=True)
            after = self._verdicts(runs, found["stands"] == 1, found["sure"], "t_a_now")
        same = as_sure(before, after)
        seen = np.flatnonzero(~(before.stands & after.stands & same))
        if not len(seen):
            return None
        of = found[places[seen]]
        mine = number[places[seen]]
        closes, known_at, last_ns = self._times(mine)
        completing = of["completing"]
        if _is_chosen(self.plan):
            completing = of["cause"]
        return Changes(
            mine[:, None].copy(), np.zeros(len(seen), np.int64), completing.copy(),
            of["cause"].copy(), before.take(seen), after.take(seen), closes, known_at, last_ns,
        )  # fmt: skip

    def _chosen(self, runs: FoundRuns, number: np.ndarray) -> tuple[np.ndarray, Verdicts, Verdicts]:
        """Of matches chosen without an event and with it, one entry each."""
        found = runs.found
        every = np.ones(len(found), np.bool_)
        own = self._verdicts(runs, every, found["sure"], "t_a_now")
        key = np.column_stack([found["cause"], number])
        old, new = np.flatnonzero(found["new"] == 0), np.flatnonzero(found["new"] == 1)
        its_new = places_of(key[new], key[old])
        fresh = new[places_of(key[old], key[new]) < 0]
        places = np.concatenate((old, fresh))
        stays = np.concatenate((its_new >= 0, np.ones(len(fresh), np.bool_)))
        which = np.concatenate((new[its_new] if len(new) else old, fresh))
        which = np.where(stays, which, places)
        stood = np.arange(len(places)) < len(old)
        order = np.argsort(found["cause"][places], kind="stable")
        before = Verdicts(stood, own.confirmed[places], own.chance[places])
        after = Verdicts(stays, own.confirmed[which], own.chance[which])
        return places[order], before.take(order), after.take(order)

    def _verdicts(
        self, runs: FoundRuns, stands: np.ndarray, sure: np.ndarray, t_a: str, *, old: bool = False
    ) -> Verdicts:
        """``old``: without the events that cause the changes."""
        doubts = runs.doubts
        if old:
            doubts = doubts[doubts["event"] != runs.found["cause"][doubts["match"]]]
        doubted = np.zeros(len(stands), np.bool_)
        doubted[doubts["match"]] = True
        confirmed = (sure == 1) & ~doubted
        chance = np.ones(len(stands))
        unknown = self._unknown(runs)
        if unknown is not None:
            confirmed &= ~unknown
            chance[unknown] = UNKNOWN
        unsure = np.flatnonzero(stands & ~confirmed & (chance != UNKNOWN))
        if len(unsure):
            chance[unsure] = chances_of(
                self.plan.within_ns, self.rule, self.store, runs._replace(doubts=doubts), unsure,
                runs.found[t_a],
            )  # fmt: skip
        return Verdicts(stands, confirmed, chance)

    def _unknown(self, runs: FoundRuns) -> np.ndarray | None:
        """Which matches compare an unknown clock; None: all clocks are exact."""
        size = runs.found["size"]
        starts = np.cumsum(size) - size
        place = np.repeat(runs.found["from_"] - starts, size) + np.arange(size.sum())
        events = runs.path["row"][place]
        by_others = compares_others(self.plan)
        return of_runs(self.store, starts, events, runs.found["completing"], by_others)

    def _times(self, matches: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """When the scopes of ``matches`` close, when they are known, and their last events' times.

        An end x that is open is closed by a promise of x, a closed one by x + 1; where clocks err,
        by as much more as the match's own events may be wrong.
        """
        events, ends = self.matches.events(matches)
        columns, starts, rows = self.store.columns, ends[:-1], events["row"]
        ref = columns["ref"][rows]
        until = ref if self.rule.by_delay else ref + columns["unc"][rows]
        last = np.maximum.reduceat(ref, starts)
        scopes = scopes_of(self.plan)
        found = np.full((len(matches), len(scopes) + 1), LONG_AGO)
        for place, scope in enumerate(scopes):
            if scope.negated is None:
                # Among events of one time the chosen ones hang on all.
                found[:, place] = np.maximum.reduceat(until, starts) + _by_others(self.plan)
                continue
            behind = np.where(events["step"] > scope.negated, until, _NEVER)
            closes = np.minimum.reduceat(behind, starts)
            trails = closes == _NEVER
            found[:, place] = np.where(
                trails, until[starts] + (self.plan.within_ns or 0) + 1, closes
            )
        found[:, -1] = last
        return found, np.maximum.reduceat(columns["arrival"][rows], starts), last
