"""R19 5.2.2.3: two sources, one of whose clocks is ahead (Table 5.10, Figure 5.13)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from slackwater.paper import Finding, PaperRun
from slackwater.scenario import Claim, Table
from slackwater.scenarios.papers import drawing
from slackwater.scenarios.papers.drawing import Curve
from slackwater.scenarios.papers.r19 import palette, published
from slackwater.scenarios.papers.r19.clock_sync import SyncResult, synchronised
from slackwater.scenarios.papers.r19.log_writing import (
    DEPARTED,
    SHIFT_NS,
    TRUE_TS,
    PublishedSource,
    frames,
)
from slackwater.scenarios.papers.r19.orders import CODE, OURS, PRINTED, Approach
from slackwater.scenarios.papers.r19.passes import the_data_set
from slackwater.scenarios.papers.r19.released_stream import ReleasedOrder, observe
from slackwater.scenarios.papers.r19.single_source import ACCURACY
from slackwater.scenarios.papers.r19.sync_draws import LEG_NS, Draws, draws
from slackwater.scenarios.papers.r19.sync_draws import table as table_of_draws
from slackwater.scenarios.papers.r19.verdicts import judged
from slackwater.scenarios.papers.verdicts import failing, listed, percent, share

_JUDGED: Final = (PRINTED, CODE, OURS)
_SYNCED: Final = ACCURACY - 0.02
"""R19's least accuracy with time sync [%]."""
_LEG: Final = f"how long a leg of the time sync takes, here {LEG_NS // 1000} us and more"
_EACH: Final = "0, 1, 5, 10 ms, 1 min, 1 h"
_SMALL: Final = ("1 ms", "5 ms", "10 ms")


@dataclass(frozen=True, slots=True)
class OffsetCase:
    """One row of Table 5.10: by approach's name, without time sync and with it.

    ``alike``: two right clocks, measured as wrong as these. ``errors_ns``: by how much the two
    sources' offsets were measured wrong. ``bound_ns``: by how much that may swap two events.
    """

    without: Mapping[str, ReleasedOrder]
    synced: Mapping[str, ReleasedOrder]
    alike: Mapping[str, ReleasedOrder]
    errors_ns: tuple[int, int]
    bound_ns: int


def with_and_without_sync(run: PaperRun) -> Finding:
    """Table 5.10."""
    cases = _cases(run)
    many = draws(run)
    claims = (*_bare_claims(run, cases), *_synced_claims(cases, many))
    return Finding(claims, (*_tables(run, cases), table_of_draws(many)))


def left_by_offset(run: PaperRun) -> Finding:
    """Figure 5.13."""
    cases = _cases(run)
    offsets = list(published.OFFSETS)
    ours = [
        Curve(
            f"{each.name}, {what}",
            offsets,
            [max(of(cases[offset])[each.name].after_previous_ms, 1) for offset in offsets],
            colour,
        )
        for each, what, of, colour in (
            (PRINTED, "no sync", _without, palette.BARE),
            (PRINTED, "synced", _synced, palette.PRINTED),
            (CODE, "no sync", _without, palette.MP),
            (CODE, "synced", _synced, palette.CODE),
        )
    ]
    paper = [
        Curve(f"the paper, {what}", offsets, [row[at] for row in published.OFFSETS.values()],
               colour, published=True)
        for what, at, colour in (("no sync", 1, palette.AQ), ("synced", 3, palette.OURS))
    ]  # fmt: skip
    figure = drawing.bars(
        "figure-5-13",
        "Events out of order after ordering, by offset of one of two clocks",
        "Counted as R19 does (see Table 5.10). Hatched: the paper's numbers. The axis of events is "
        "logarithmic.",
        [*ours, *paper],
        ("offset of one source's clock", "events left out of order"),
        log_y=True,
    )
    beyond = sum(_synced(case)[OURS.name].beyond for case in cases.values()) or "none"
    many = draws(run)

    def more(each: Approach) -> list[tuple[str, bool, str]]:
        """Whether, in the middle, a sync leaves more than right clocks do."""
        right = many.right[each.name]
        middle = {offset: many.median(offset, each.name) for offset in offsets[1:]}
        return [
            (offset, value >= right, f"{value:g} against {right}")
            for offset, value in middle.items()
        ]

    printed, code = more(PRINTED), more(CODE)
    claim = judged(
        "With time sync a few more events are out of order when clocks are off than when they are "
        "right, as offsets are measured inaccurately.",
        all(part[1] for part in printed),
        f"medians over the syncs: {listed(said for _, _, said in printed)}",
        "52, then 78 / 75 / 72 / 74 / 73",
        failing(printed),
        (all(part[1] for part in code), listed(said for _, _, said in code)),
        rests=f"{_LEG}: "
        + many.with_legs(
            all(part[1] for part in printed), lambda count: count >= many.right[PRINTED.name]
        )
        + " (at 10 ms).",
        also=f"By more than the clocks' declared bounds, {OURS.name} leaves {beyond} out of order.",
    )
    return Finding((claim,), _tables(run, cases)[:2], (figure,))


def _without(case: OffsetCase) -> Mapping[str, ReleasedOrder]:
    return case.without


def _synced(case: OffsetCase) -> Mapping[str, ReleasedOrder]:
    return case.synced


def _alike(case: OffsetCase) -> Mapping[str, ReleasedOrder]:
    return case.alike


_Of = Callable[[OffsetCase], Mapping[str, ReleasedOrder]]


def _count(case: OffsetCase, each: Approach, of: _Of) -> int:
    """Events out of order as R19 counts: after a later one, times in whole ms."""
    return of(case)[each.name].after_previous_ms


def _numbers(cases: dict[str, OffsetCase], each: Approach, of: _Of) -> str:
    return listed(f"{_count(case, each, of):,}" for case in cases.values())


def _equal(cases: dict[str, OffsetCase], each: Approach) -> bool:
    """Whether a corrected clock gives what a right clock does that is measured as wrong."""
    return all(_count(case, each, _synced) == _count(case, each, _alike) for case in cases.values())


def _cases(run: PaperRun) -> dict[str, OffsetCase]:
    return run.once("offsets", lambda: {name: _case(run, name) for name in published.OFFSETS})


def _case(run: PaperRun, name: str) -> OffsetCase:
    ahead_ns = published.OFFSETS[name][0]
    place = list(published.OFFSETS).index(name)
    chance = np.random.default_rng((run.seed, 510, place))
    measured = (synchronised(0, LEG_NS, chance), synchronised(ahead_ns, LEG_NS, chance))
    if not ahead_ns:  # the paper's row without any inaccuracy
        measured = (SyncResult(0, measured[0].delay_ns), SyncResult(0, measured[1].delay_ns))
    return OffsetCase(
        without=_observed(run, name, ahead_ns, None),
        synced=_observed(run, name, ahead_ns, measured),
        alike=_observed(run, f"0 instead of {name}", 0, _of_right_clock(measured, ahead_ns)),
        errors_ns=(measured[0].error_ns(0), measured[1].error_ns(ahead_ns)),
        bound_ns=_bound_ns(measured),
    )


def _of_right_clock(
    measured: tuple[SyncResult, SyncResult], ahead_ns: int
) -> tuple[SyncResult, SyncResult]:
    """What a time sync with the same errors makes of two right clocks."""
    first, second = measured
    return first, SyncResult(second.error_ns(ahead_ns), second.delay_ns)


def _bound_ns(measured: tuple[SyncResult, SyncResult]) -> int:
    """By how much the order of two events may be wrong: both clocks' bounds."""
    return sum((each.delay_ns + 1) // 2 for each in measured)


def _observed(
    run: PaperRun, name: str, ahead_ns: int, measured: tuple[SyncResult, SyncResult] | None
) -> dict[str, ReleasedOrder]:
    first, second = measured or (None, None)
    publishers = (
        PublishedSource("0", sync=first),
        PublishedSource("1", SHIFT_NS, ahead_ns, second),
    )
    truth = TRUE_TS if ahead_ns else DEPARTED
    bound_ns = _bound_ns(measured) if measured else 0
    found = {}
    for each in _JUDGED:
        said = "with" if measured else "without"
        with run.watched(f"offset {name}, {said} sync: {each.name}") as advanced:
            log = frames(the_data_set(run, 3), publishers, ())
            found[each.name] = observe(log, each.order, truth, bound_ns, advanced)
    return found


def _injected(run: PaperRun) -> int:
    return 2 * int(the_data_set(run, 3).delayed.sum())


def _over(accuracies: list[float]) -> str:
    return f"{percent(float(np.median(accuracies)))} ({percent(min(accuracies))})"


def _accuracy(run: PaperRun, count: int) -> float:
    return 100 * (1 - count / _injected(run))


def _bare_claims(run: PaperRun, cases: dict[str, OffsetCase]) -> tuple[Claim, ...]:
    injected = _injected(run)
    bare = {name: _count(case, PRINTED, _without) for name, case in cases.items()}
    any_earlier = cases["10 ms"].without[PRINTED.name].after_any
    small = [bare[name] for name in _SMALL]
    least_by_code = min(_count(cases[name], CODE, _without) for name in _SMALL)
    turn = cases["10 ms"].without[PRINTED.name]
    return (
        judged(
            "Without time sync, an offset of 1, 5 or 10 ms puts more events out of order than were "
            "injected: accuracy is negative.",
            min(small) > injected,
            listed(f"{count:,}" for count in small) + f" of {injected:,} injected",
            "502,560 / 505,235 / 539,849 of 166,424",
            "R19 compares an event with the one before it only. The printed timeout passes over a "
            "source after fractions of a ms, so that the sources come out in turns, at 10 ms of "
            f"{turn.released / turn.turns:.1f} events each, and of a turn one event is counted. "
            f"Compared with all before it (L10's definition), {any_earlier:,} are out of order.",
            (
                least_by_code > injected,
                listed(f"{_count(cases[name], CODE, _without):,}" for name in _SMALL),
            ),
        ),
        judged(
            "Without time sync, an offset of 1 h puts fewer events out of order than one of 1 ms: "
            "accuracy is positive again.",
            bare["1 h"] < min(bare["1 ms"], injected),
            f"{bare['1 h']:,} (accuracy {percent(_accuracy(run, bare['1 h']))})",
            "18,001 (89.18 %)",
            f"with 1 ms it is {bare['1 ms']:,}, of {injected:,} injected.",
            (
                _count(cases["1 h"], CODE, _without)
                < min(_count(cases["1 ms"], CODE, _without), injected),
                f"{_count(cases['1 h'], CODE, _without):,}",
            ),
            also="That is only because an event is compared with the one before it: of "
            f"{cases['1 h'].without[PRINTED.name].released:,} events, "
            f"{cases['1 h'].without[PRINTED.name].after_any:,} come after some later one.",
        ),
    )


def _synced_claims(cases: dict[str, OffsetCase], many: Draws) -> tuple[Claim, ...]:
    """By all syncs that were drawn, and the first by one at full size and its twin."""
    accurate, code = (
        {offset: many.accuracies(offset, each.name) for offset in many.counts}
        for each in (PRINTED, CODE)
    )
    parts, code_parts = (
        [(offset, float(np.median(of)) >= _SYNCED, _over(of)) for offset, of in each.items()]
        for each in (accurate, code)
    )
    legs = many.with_legs(
        all(part[1] for part in parts),
        lambda count: 100 * (1 - count / many.injected) >= _SYNCED,
    )
    middle = listed(f"{many.median(offset, PRINTED.name):g}" for offset in many.counts)
    return (
        judged(
            "With time sync the number of events out of order does not depend on the offset: "
            f"{_EACH}.",
            _equal(cases, PRINTED),
            f"{_numbers(cases, PRINTED, _synced)}; with right clocks and a sync as wrong, "
            f"{_numbers(cases, PRINTED, _alike)}",
            "52, then 78 / 75 / 72 / 74 / 73",
            failing(
                (name, _count(case, PRINTED, _synced) == _count(case, PRINTED, _alike),
                 f"{_count(case, PRINTED, _synced):,} against {_count(case, PRINTED, _alike):,}")
                for name, case in cases.items()
            ),
            (_equal(cases, CODE), _numbers(cases, CODE, _synced)),
            also="What differs from row to row is how wrong the sync was. Medians over the syncs "
            f"of each offset, in a tenth of the events: {middle}.",
        ),
        judged(
            f"With time sync the accuracy is at least {_SYNCED:.2f} % at every offset: "
            f"{_EACH}.",
            all(part[1] for part in parts),
            f"medians and least over the syncs: {listed(said for _, _, said in parts)}",
            "99.95 to 99.97 %",
            f"{failing(parts)} With right clocks and no sync {many.right[PRINTED.name]:,} of "
            f"{many.injected:,} are left "
            f"({percent(100 * (1 - many.right[PRINTED.name] / many.injected))}).",
            (all(part[1] for part in code_parts), listed(said for _, _, said in code_parts)),
            rests=f"{_LEG}: {legs} (at 10 ms).",
        ),
    )  # fmt: skip


def _tables(run: PaperRun, cases: dict[str, OffsetCase]) -> tuple[Table, ...]:
    count = (
        "Counted as R19 does: an event is out of order when the one just before it has a larger "
        f"true time, times in whole ms. Injected: {_injected(run):,}. The order is made by what "
        "the clocks say, without the future guard."
    )
    return (
        _accuracies(run, cases, "Without time sync", (1, 2), _without, ""),
        _accuracies(run, cases, "With time sync", (3, 4), _synced, count),
        _sync_errors(cases),
        *(_definitions(cases, each) for each in (CODE, OURS)),
    )


def _accuracies(
    run: PaperRun,
    cases: dict[str, OffsetCase],
    title: str,
    columns: tuple[int, int],
    of: _Of,
    note: str,
) -> Table:
    """Events left out of order and accuracies; ``columns``: the paper's places for them."""
    rows = []
    for name, paper in published.OFFSETS.items():
        row: list[str | int | float] = [name, *(paper[column] for column in columns)]
        for each in _JUDGED:
            left = _count(cases[name], each, of)
            row += [left, share(_accuracy(run, left))]
        rows.append(tuple(row))
    headings = [
        f"{whose}{unit}"
        for whose in ("paper", *(each.name for each in _JUDGED))
        for unit in (" [events]", ", accuracy [%]")
    ]
    return Table(f"{title}: events left out of order", ("offset", *headings), tuple(rows), note)


def _sync_errors(cases: dict[str, OffsetCase]) -> Table:
    rows = tuple(
        (name, *(f"{error / 1000:.1f}" for error in case.errors_ns), f"{case.bound_ns / 1000:.1f}")
        for name, case in cases.items()
    )
    return Table(
        "How wrong the time sync was",
        ("offset", "source 0 [us]", "source 1 [us]", "declared bound of the pair [us]"),
        rows,
        "Events of the two sources are 33 us apart in the mean, so errors of a few us swap many.",
    )


def _definitions(cases: dict[str, OffsetCase], each: Approach) -> Table:
    rows = []
    for name, case in cases.items():
        bare, synced = case.without[each.name], case.synced[each.name]
        rows.append(
            (name, bare.after_previous, bare.after_any, synced.after_previous, synced.after_any,
             synced.beyond, synced.dropped)
        )  # fmt: skip
    counts = ("after one just before", "after any before")
    return Table(
        f"By definition, times in ns: {each.name}",
        ("offset", *(f"no sync: {count}" for count in counts),
         *(f"synced: {count}" for count in counts), "synced: beyond the bound", "dropped [events]"),
        tuple(rows),
        "After any before: L10's definition, and ours elsewhere. Beyond the bound: out of order by "
        "more than both clocks' declared bounds.",
    )  # fmt: skip
