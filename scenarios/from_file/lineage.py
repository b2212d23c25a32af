"""What results are about and what they say, also of those that are made of other results.

A match of the log's events is known by them: they have numbers. An event that is a result of
another statement has none, and where a match made it, its times are sure as clocks are, so they are
others in a perfect world. Such an event is the result that it is: it is looked up by its times and
by what it shows, in what the same run told, and is known as that result is, down to the log.

Results of one statement that show the same at the same times cannot be told apart, nor can the
matches that they are in. The first of several such matches is taken for that with the first of
them, and so on: as many are right as would be if one could tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, product
from typing import Any, Final

from slackwater.scenario import Plan, asked_plan, sources_of, time_columns

Result = Mapping[str, Any]
OF_RESULTS: Final = frozenset(
    {"certain", "ambiguous", "missing", "probability", "certainty", "event_type", "allowed"}
)
"""Columns that tell how sure a result is, which it is always in a perfect world."""
_RESULTS_MAX: Final = 1 << 12
"""So many matches that show the same at the same times are told apart."""


class Lineage:
    """The results of one run or of the perfect world.

    Args:
        plans: of all statements, each after those that it reads.
        of_event: what an event of the log is called.
    """

    def __init__(self, plans: Sequence[Plan], of_event: Callable[[Result], Any]) -> None:
        self._plans = {plan.name: plan for plan in plans}
        self._of_event = of_event
        self._read = {source.name for plan in plans for source in sources_of(plan)}
        self._times = {plan.name: OF_RESULTS | time_columns(plan) for plan in plans}
        self._made: dict[Any, dict[Any, list[Mapping[str, Any]]]] = {}
        self._stands: dict[str, set[Any]] = {name: set() for name in self._read}

    def known(self, results: Iterable[Result]) -> Iterator[tuple[Result, Any, Any]]:
        """Each of ``results`` with what it is about and what it says, those of one statement in
        order; what is about the same is the same result, corrected.

        Args:
            results: those of each statement in order of telling.
        """
        derived: dict[str, list[Result]] = {
            name: [] for name, plan in self._plans.items() if sources_of(plan)
        }
        for result in results:
            if result["query"] in derived:
                derived[result["query"]].append(result)
                continue
            identity, content = self._of_log(result)
            self._keep(result, identity)
            yield result, identity, content
        for told in derived.values():
            copies: dict[str, int] = {}
            for result in told:
                if "window" in result:
                    identity, content = window_identity(result), result["value"]
                else:
                    identity, content = self._of_results(result, copies)
                self._keep(result, identity)
                yield result, identity, content

    def _of_log(self, result: Result) -> tuple[Any, Any]:
        if "window" in result:
            return window_identity(result), result["value"]
        return (result["site"], *map(self._of_event, result["events"])), None

    def _of_results(self, result: Result, copies: dict[str, int]) -> tuple[Any, Any]:
        """Of a match of results; ``copies``: how many stand by what they show."""
        line = repr((result["site"], result["events"], result.get("value")))
        number = copies.get(line, 0) - (result["op"] == "-")
        copies[line] = number + (result["op"] == "+")
        who = [self._candidates(event) for event in result["events"]]
        these = next(islice(product(*who), number % _RESULTS_MAX, None), None)
        if these is None:
            these = (*(each[0] for each in who), number)
        says = {
            f"{place}.{name}": value
            for place, event in enumerate(result["events"])
            for name, value in event["attrs"].items()
            if name not in self._times[event["stream"]]
        }
        own = self._times[result["query"]]
        says |= {
            name: value for name, value in (result.get("value") or {}).items() if name not in own
        }
        return (result["site"], *these), says

    def _candidates(self, event: Result) -> list[Any]:
        """What the result that ``event`` is may be called; first those that stand in the end."""
        where = tuple(event[name] for name in ("site", "stream", "source", "ts", "te"))
        found = [
            identity
            for identity, versions in self._made.get(where, {}).items()
            if any(_shows(event["attrs"], one) for one in versions)
        ]
        stands = self._stands[event["stream"]]
        return sorted(found, key=lambda one: (one not in stands, repr(one))) or [where]

    def _keep(self, result: Result, identity: Any) -> None:
        """For who reads it as an event, as ``cascade.derived_events`` makes them."""
        name = result["query"]
        if name not in self._read:
            return
        if result["op"] == "-":
            self._stands[name].discard(identity)
            return
        self._stands[name].add(identity)
        shown, source = dict(result.get("value") or {}), name
        if "window" in result:
            start, end = result["window"]["start"], result["window"]["end"]
            by_rows = any(window.rows for window in asked_plan(self._plans[name]).windows)
            last = end if by_rows else max(end - 1, start)
            shown |= result["key"]
            source = result["key"].get("source", source)
        else:
            start = min(event["ref"] for event in result["events"])
            last = max(event["ref"] + _lasts(event) for event in result["events"])
            for event in result["events"]:
                shown = {**event["attrs"], **shown}
        where = result["site"], name, source, start, last
        self._made.setdefault(where, {}).setdefault(identity, []).append(shown)


def window_identity(result: Result) -> Any:
    """What a window and its correction have in common."""
    key = result.get("key") or {}
    return (result["site"], result["window"]["start"], *sorted(key.items()))


def _shows(attrs: Result, version: Result) -> bool:
    """Whether a result with ``version`` may be the event with ``attrs``."""
    return all(version[name] == value for name, value in attrs.items() if name in version)


def _lasts(event: Result) -> int:
    return 0 if event["te"] is None else int(event["te"] - event["ts"])
