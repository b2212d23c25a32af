"""L10, chapters 3 to 5, reproduced, small: claims with both numbers, matches by definition."""

from __future__ import annotations

from contextlib import nullcontext
from functools import cache
from inspect import unwrap
from itertools import combinations, product
from pathlib import Path

import pytest

from slackwater.paper import Finding, PaperRun
from slackwater.scenarios.papers.l10.ch3 import runs as runs_ch3
from slackwater.scenarios.papers.l10.ch3.workflow import (
    SELECTIVITIES,
    by_pattern,
    by_predicate,
    items,
)
from slackwater.scenarios.papers.l10.ch4 import overhead, partition, published
from slackwater.scenarios.papers.l10.ch4 import runs as runs_ch4
from slackwater.scenarios.papers.l10.ch4.sequence_scan import SEARCHES, Scan, scan
from slackwater.scenarios.papers.l10.ch4.streams import TYPES, released, stream
from slackwater.scenarios.papers.l10.ch5 import figures
from slackwater.scenarios.papers.l10.ch5 import runs as runs_ch5
from slackwater.scenarios.papers.l10.ch5.intervals import TYPES as KINDS
from slackwater.scenarios.papers.l10.ch5.intervals import WITHIN_NS, intervals
from slackwater.scenarios.papers.l10.ch5.multi_join import EndPoints, multi_join
from slackwater.scenarios.papers.l10.paper import paper

SCALES = {"ch3": 0.01, "ch4": 0.02, "ch5": 0.05}
FIGURES = {
    "ch3": [f"figure-3.{number}" for number in range(6, 12)],
    "ch4": [f"figure-4.{number}" for number in range(8, 12)],
    "ch5": [f"figure-5.{number}" for number in range(4, 12)],
}


@cache
def findings(chapter: str) -> dict[str, Finding]:
    with pytest.MonkeyPatch.context() as patch:
        for module in (runs_ch3, runs_ch4, runs_ch5, overhead):
            patch.setattr(module, "TURNS", 1)
        patch.setattr(partition, "OTHERS", dict(list(partition.OTHERS.items())[-1:]))
        run = PaperRun(1, SCALES[chapter], Path(), lambda _what: nullcontext(lambda _rows: None))
        return {
            name: unwrap(of.make)(run) for name, of in paper().parts[chapter].reproductions.items()
        }


@pytest.mark.slow
@pytest.mark.parametrize(
    "chapter", ["ch3", "ch4", pytest.param("ch5", marks=pytest.mark.deep)]
)  # fmt: skip
def test_every_figure_has_claims_with_both_numbers(chapter: str) -> None:
    found = findings(chapter)
    assert list(found) == FIGURES[chapter]
    for finding in found.values():
        assert finding.claims
        assert finding.tables
        assert finding.figures
        for claim in finding.claims:
            assert "Ours: " in claim.detail
            assert "The paper: " in claim.detail
            assert claim.holds == ("Why: " not in claim.detail)
            assert (claim.rests in claim.detail) if claim.rests else "Rests on" not in claim.detail


def test_memory_is_saved_where_little_matches() -> None:
    found = findings("ch3")
    for figure in ("3.6", "3.9"):
        assert all(claim.holds for claim in found[f"figure-{figure}"].claims)
    for finding in found.values():
        assert [row[0] for row in finding.tables[0].rows] == [f"{p} %" for p in SELECTIVITIES]


@pytest.mark.slow
def test_tables_have_a_row_per_data_set() -> None:
    found = findings("ch4")
    sizes = [f"{size:,} events" for size in published.SIZES]
    assert [row[0] for row in found["figure-4.8"].tables[0].rows] == sizes
    assert [row[0] for row in found["figure-4.9"].tables[0].rows] == sizes
    for name in ("figure-4.10", "figure-4.11"):
        for table in found[name].tables:
            assert len(table.rows) == 15
    sequences, state, _ = found["figure-4.10"].tables
    for row in state.rows:
        without, with_it = (float(str(cell)) for cell in row[1:3])
        assert 0.95 < with_it / without < 1.05, "nothing is held between events and results"
    for table in (sequences, found["figure-4.11"].tables[0]):
        assert all(float(str(row[2])) < float(str(row[1])) for row in table.rows)
    for name in ("figure-4.10", "figure-4.11"):
        assert all("By our own operator: " in claim.detail for claim in found[name].claims)


@pytest.mark.deep
def test_tables_have_a_row_per_point() -> None:
    for names, figure in (
        (figures.TYPES, "5.4"), (figures.LENGTHS, "5.7"), (figures.MEANS, "5.8"),
        (figures.DENSITIES, "5.11"),
    ):  # fmt: skip
        assert [row[0] for row in findings("ch5")[f"figure-{figure}"].tables[0].rows] == list(names)


@pytest.mark.parametrize("percent", SELECTIVITIES)
def test_every_way_of_sharing_gives_the_matches_of_the_definition(percent: int) -> None:
    made = items(300, 3)
    of_type = made.names.index("WAREHOUSE")
    for queries in (by_pattern(), by_predicate()):
        text = queries[percent]
        pattern = text[text.index("(") + 1 : text.index(")")]
        steps = [step.split()[0] for step in pattern.split(", ")]
        limit = percent if "WHERE" in text else 100
        matches = matching = 0
        for start, end in zip(made.starts, made.starts[1:], strict=False):
            rows = [row for row in range(start, end) if made.names[made.types[row]] in steps]
            found = [
                chosen for chosen in combinations(rows, len(steps))
                if [made.names[made.types[row]] for row in chosen] == steps
                and all(made.types[row] != of_type or made.grade[row] < limit for row in chosen)
            ]  # fmt: skip
            matches, matching = matches + len(found), matching + bool(found)
        cost = runs_ch3.compared(made, text, 1)
        assert set(cost) == set(runs_ch3.WAYS)
        for each in cost.values():
            assert (each.matches, each.share) == (matches, round(100 * matching / 300, 2))


@pytest.mark.parametrize("late_share", [0.0, 0.3, 0.9])
def test_the_divider_changes_the_work_alone(late_share: float) -> None:
    made = stream(3000, late_share, 40, 1)
    batch = released(made)
    everything, counters = runs_ch4.one_pass(batch, 40, True)
    assert everything > 100
    assert runs_ch4.one_pass(batch, 40, True) == (everything, counters), "work can be repeated"
    without, more = runs_ch4.one_pass(batch, 40, False)
    assert without == everything
    assert more["looked_at"] > counters["looked_at"]


@pytest.mark.parametrize("late_share", [0.0, 0.7])
def test_the_paper_s_operator_agrees_with_our_matcher(late_share: float) -> None:
    made = stream(2000, late_share, 40, 2)
    want = runs_ch4.one_pass(released(made), 40, True)[0]
    assert want > 500
    scans = [Scan(runs_ch4.WITHIN_NS, 40, partition=False)]
    scans += [
        Scan(runs_ch4.WITHIN_NS, 40, clock=on, search=of)
        for of in SEARCHES.values()
        for on in (False, True)
    ]
    if not late_share:
        scans.append(Scan(runs_ch4.WITHIN_NS, 40, late=False))
    found = [scan(made.ts, made.kind, len(TYPES), asked) for asked in scans]
    for asked, one in zip(scans, found, strict=True):
        assert one.matches == want, asked
    whole, *parted = (one.visited for one in found)
    assert want * len(TYPES) < max(parted) < whole, "whole stacks build what no window holds"


@pytest.mark.parametrize("ends", [0, 1, 3])
def test_every_way_of_intervals_gives_the_matches_of_the_definition(ends: int) -> None:
    setup = runs_ch5.JoinSetup(length=3, ends=ends, rising=2, density=100)
    made = intervals(300, setup.density, setup.mean_ns, 3)
    of = [
        [row for row in range(300) if KINDS[made.kind[row]] == kind] for kind in KINDS[:3]
    ]  # fmt: skip
    points = [made.te if at >= 3 - ends else made.ts for at in range(3)]
    expected = 0
    for rows in product(*of):
        at = [points[step][row] for step, row in enumerate(rows)]
        span = max(made.te[row] for row in rows) - min(made.ts[row] for row in rows)
        rises = made.value[rows[1]] < made.value[rows[2]]
        expected += at[0] < at[1] < at[2] and span <= WITHIN_NS and rises
    assert expected > 20
    for way in runs_ch5.WAYS.values():
        assert runs_ch5.one_pass(made, setup, way).matches == expected, way
    chain = EndPoints(3, ends, 2, WITHIN_NS)
    printed = [multi_join(made.kind, made.ts, made.te, made.value, chain, way)
               for way in runs_ch5.AS_PRINTED.values()]  # fmt: skip
    assert {each.matches for each in printed} == {expected}
    naive, basic, ibp = printed
    assert naive.tested >= basic.tested >= ibp.tested
    assert naive.buffer_size >= basic.buffer_size >= ibp.buffer_size
