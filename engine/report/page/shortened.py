"""What of a report with very many sources the page shows; ``report.json`` beside it has all.

Nobody reads three thousand rows, and no browser likes to lay them out: of what there is for each
source the page has the worst, which is what one looks for there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from engine.report.page.figures import CLOCKS_SHOWN

ROWS_MAX: Final = 100
"""Of sources, of which there is a row each in four tables."""
ITEMS_MAX: Final = 20
"""Of a list within the settings, such as that of the devices, which are mostly alike."""
_GONE: Final = (
    "refused_by_agent", "forgotten", "not_polled", "refused_by_gateway", "unheard", "never_logged",
    "late_dropped", "residual_dropped", "quarantined_future", "quarantined_jump", "missing",
)  # fmt: skip
"""Events that no query saw."""
_DISTURBED: Final = (
    "lost", "cut", "queue_dropped", "closed", "under_way", "residual", "late_passed",
    "missing_total",
)  # fmt: skip
Counts = Mapping[str, Any]


def by_loss(sources: Mapping[str, Counts]) -> Mapping[str, Counts]:
    """Counts by source; of too many the worst: who lost most events, then who lost most messages
    or was late most often.
    """
    return _worst(sources, lambda counts: (_sum(counts, _GONE), _sum(counts, _DISTURBED)))


def by_clock_error(sources: Mapping[str, Counts]) -> Mapping[str, Counts]:
    """Clocks by source; of too many the worst: with most errors beyond their bound, then with the
    largest error, or bound where no error is known.
    """

    def error(clock: Counts) -> tuple[int, int]:
        beyond = clock.get("with_truth", 0) - clock.get("inside", 0)
        known = clock.get("error_ns") or clock["bound_ns"]
        return beyond, known["max"] or 0

    return _worst(sources, error)


def shortened(report: Mapping[str, Any]) -> dict[str, Any]:
    """A report with the worst of its sources; the same if they are few.

    ``left_out``: how many sources there are, if not all are in it.
    """
    before, clocks = report["conservation"]["before"], report["clock_error"]
    passes = report["conservation"]["passes"]
    run = report["run"]
    found = {
        **report,
        "run": run | {
            "settings": _few(run["settings"]),
            "query_counters": dict(list(run["query_counters"].items())[:ROWS_MAX]),
        },
        "conservation": report["conservation"] | {
            "before": before | {"sources": dict(by_loss(before["sources"]))},
            "passes": {
                label: each | {"sources": dict(by_loss(each["sources"]))}
                for label, each in passes.items()
            },
        },
        "clock_error": clocks | {"sources": _clocks(clocks["sources"])},
        "sources": report["sources"][:ROWS_MAX],
    }  # fmt: skip
    many = max(
        len(report["sources"]), len(clocks["sources"]), len(before["sources"]),
        len(run["query_counters"]), *(len(each["sources"]) for each in passes.values()),
    )  # fmt: skip
    return found | {"left_out": many} if many > ROWS_MAX else found


def how_many_sources(sources: int, worst: str = "") -> str:
    """For the heading of a table: ``each of 3 sources``, or which of too many it has."""
    if sources > ROWS_MAX:
        return f"{ROWS_MAX} of {sources:,} sources{worst}"
    return f"each of {sources} sources"


def _worst(sources: Mapping[str, Counts], badness: Callable[[Counts], Any]) -> Mapping[str, Counts]:
    if len(sources) <= ROWS_MAX:
        return sources
    order = sorted(sources, key=lambda name: badness(sources[name]), reverse=True)
    return {name: sources[name] for name in order[:ROWS_MAX]}


def _clocks(sources: Mapping[str, Counts]) -> dict[str, Counts]:
    """The worst; of too many, those that no figure draws without their time lines."""
    found = dict(by_clock_error(sources))
    if len(sources) > ROWS_MAX:
        for name in list(found)[CLOCKS_SHOWN:]:
            found[name] = {key: each for key, each in found[name].items() if key != "series"}
    return found


def _sum(counts: Counts, terms: Iterable[str]) -> int:
    return sum(counts.get(term) or 0 for term in terms)


def _few(value: Any) -> Any:
    """Settings with at most ``ITEMS_MAX`` of the items of a list."""
    if isinstance(value, Mapping):
        return {name: _few(each) for name, each in value.items()}
    if isinstance(value, list):
        kept = [_few(each) for each in value[:ITEMS_MAX]]
        more = len(value) - len(kept)
        return [*kept, f"... and {more:,} more: all are in report.json"] if more else kept
    return value
