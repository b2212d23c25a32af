"""Identity and content of results, also of results made of other results.

The numbers of its events identify a match over the log. An event that is a result of another
statement has no number; if a match made it, its times are as exact as the clocks and differ in a
perfect world. Such an event is looked up by its times and its content among the results of the same
run, and takes the identity of that result, down to the log.

Results of one statement with equal content at equal times cannot be distinguished, nor can the
matches that contain them. They are paired in their order, which counts as many of them right as an
exact pairing does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice, product
from typing import Any, Final

from slackwater.scenario import Plan, sources_of, statement_plan, time_columns

Result = Mapping[str, Any]
OF_RESULTS: Final = frozenset(
    {"certain", "ambiguous", "missing", "probability", "certainty", "event_type", "allowed"}
)
"""Columns about a result's certainty; in a perfect world every result is certain."""
_RESULTS_MAX: Final = 1 << 12
"""Matches with equal content at equal times that are distinguished, at most."""


class Lineage:
    """The results of one run or of the perfect world.

    Args:
        plans: of all statements, each after those that it reads.
        of_event: the identity of an event of the log.
    """

    def __init__(self, plans: Sequence[Plan], of_event: Callable[[Result], Any]) -> None:
        self._plans = {plan.name: plan for plan in plans}
        self._of_event = of_event
        self._read = {source.name for plan in plans for source in sources_of(plan)}
        self._times = {plan.name: OF_RESULTS | time_columns(plan) for plan in plans}
        self._made: dict[Any, dict[Any, list[Mapping[str, Any]]]] = {}
        self._final: dict[str, set[Any]] = {name: set() for name in self._read}

    def known(self, results: Iterable[Result]) -> Iterator[tuple[Result, Any, Any]]:
        """Each of ``results`` with its identity and its content, in order by statement; a
        correction has the identity of the result that it corrects.

        Args:
            results: in order of emission by statement.
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
        for of_statement in derived.values():
            copies: dict[str, int] = {}
            for result in of_statement:
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
        """Identity and content of a match of results; ``copies``: current matches by content."""
        line = repr((result["site"], result["events"], result.get("value")))
        number = copies.get(line, 0) - (result["op"] == "-")
        copies[line] = number + (result["op"] == "+")
        candidates = [self._candidates(event) for event in result["events"]]
        chosen = next(islice(product(*candidates), number % _RESULTS_MAX, None), None)
        if chosen is None:
            chosen = (*(each[0] for each in candidates), number)
        content = {
            f"{place}.{name}": value
            for place, event in enumerate(result["events"])
            for name, value in event["attrs"].items()
            if name not in self._times[event["stream"]]
        }
        time_names = self._times[result["query"]]
        content |= {
            name: value
            for name, value in (result.get("value") or {}).items()
            if name not in time_names
        }
        return (result["site"], *chosen), content

    def _candidates(self, event: Result) -> list[Any]:
        """Possible identities of the result that ``event`` is; final results come first."""
        where = tuple(event[name] for name in ("site", "stream", "source", "ts", "te"))
        found = [
            identity
            for identity, versions in self._made.get(where, {}).items()
            if any(_shows(event["attrs"], one) for one in versions)
        ]
        final = self._final[event["stream"]]
        return sorted(found, key=lambda one: (one not in final, repr(one))) or [where]

    def _keep(self, result: Result, identity: Any) -> None:
        """Keeps it for statements that read it as an event, as ``cascade.derived_events`` does."""
        name = result["query"]
        if name not in self._read:
            return
        if result["op"] == "-":
            self._final[name].discard(identity)
            return
        self._final[name].add(identity)
        attrs, source = dict(result.get("value") or {}), name
        if "window" in result:
            start, end = result["window"]["start"], result["window"]["end"]
            by_rows = any(window.rows for window in statement_plan(self._plans[name]).windows)
            last = end if by_rows else max(end - 1, start)
            attrs |= result["key"]
            source = result["key"].get("source", source)
        else:
            start = min(event["ref"] for event in result["events"])
            last = max(event["ref"] + _lasts(event) for event in result["events"])
            for event in result["events"]:
                attrs = {**event["attrs"], **attrs}
        where = result["site"], name, source, start, last
        self._made.setdefault(where, {}).setdefault(identity, []).append(attrs)


def window_identity(result: Result) -> Any:
    """Identity of a window, which its corrections share."""
    key = result.get("key") or {}
    return (result["site"], result["window"]["start"], *sorted(key.items()))


def _shows(attrs: Result, version: Result) -> bool:
    """Whether a result with ``version`` may be the event with ``attrs``."""
    return all(version[name] == value for name, value in attrs.items() if name in version)


def _lasts(event: Result) -> int:
    return 0 if event["te"] is None else int(event["te"] - event["ts"])
