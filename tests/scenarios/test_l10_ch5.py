"""L10 chapter 5 made anew, small: all three ways give the same matches, found by definition too."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import product
from pathlib import Path

import pytest

from engine.report.paper import Finding, PaperRun
from scenarios.papers.l10 import paper
from scenarios.papers.l10.ch5 import figures, runs
from scenarios.papers.l10.ch5.intervals import TYPES, WITHIN_NS, intervals
from scenarios.papers.l10.ch5.runs import WAYS, Setup, one_pass


@pytest.fixture(scope="module")
def findings() -> dict[str, Finding]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "TURNS", 1)
        run = PaperRun(1, 0.05, Path(), lambda _what: nullcontext(lambda _rows: None))
        chapter = paper().parts["ch5"]
        return {name: each.make(run) for name, each in chapter.reproductions.items()}


@pytest.mark.slow
def test_every_figure_has_claims_with_both_numbers(findings: dict[str, Finding]) -> None:
    assert list(findings) == [f"figure-5.{number}" for number in range(4, 12)]
    for finding in findings.values():
        assert finding.claims
        assert finding.tables
        assert finding.figures
        for claim in finding.claims:
            assert "Ours: " in claim.detail
            assert "The paper: " in claim.detail
            assert claim.holds == ("Why: " not in claim.detail)
            assert (claim.rests in claim.detail) if claim.rests else "Rests on" not in claim.detail


@pytest.mark.slow
def test_tables_have_a_row_per_point(findings: dict[str, Finding]) -> None:
    for names, figure in (
        (figures.TYPES, "5.4"), (figures.LENGTHS, "5.7"), (figures.MEANS, "5.8"),
        (figures.DENSITIES, "5.11"),
    ):  # fmt: skip
        assert [row[0] for row in findings[f"figure-{figure}"].tables[0].rows] == list(names)


@pytest.mark.parametrize("ends", [0, 1, 3])
def test_every_way_gives_the_matches_of_the_definition(ends: int) -> None:
    setup = Setup(length=3, ends=ends, rising=2, density=100)
    made = intervals(300, setup.density, setup.mean_ns, 3)
    of = [
        [row for row in range(300) if TYPES[made.kind[row]] == kind] for kind in TYPES[:3]
    ]  # fmt: skip
    points = [made.te if at >= 3 - ends else made.ts for at in range(3)]
    expected = 0
    for rows in product(*of):
        at = [points[step][row] for step, row in enumerate(rows)]
        span = max(made.te[row] for row in rows) - min(made.ts[row] for row in rows)
        rises = made.value[rows[1]] < made.value[rows[2]]
        expected += at[0] < at[1] < at[2] and span <= WITHIN_NS and rises
    assert expected > 20
    for way in WAYS.values():
        assert one_pass(made, setup, way).matches == expected, way
