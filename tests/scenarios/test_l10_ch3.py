"""L10 chapter 3 made anew, small: all ways give the same matches, found by definition too."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import combinations
from pathlib import Path

import pytest

from engine.report.paper import Finding, PaperRun
from scenarios.papers.l10 import paper
from scenarios.papers.l10.ch3 import runs
from scenarios.papers.l10.ch3.runs import WAYS, compared
from scenarios.papers.l10.ch3.workflow import SELECTIVITIES, by_pattern, by_predicate, items


@pytest.fixture(scope="module")
def findings() -> dict[str, Finding]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "TURNS", 1)
        run = PaperRun(1, 0.01, Path(), lambda _what: nullcontext(lambda _rows: None))
        chapter = paper().parts["ch3"]
        return {name: each.make(run) for name, each in chapter.reproductions.items()}


@pytest.mark.slow
def test_every_figure_has_claims_with_both_numbers(findings: dict[str, Finding]) -> None:
    assert list(findings) == [f"figure-3.{number}" for number in range(6, 12)]
    for finding in findings.values():
        assert [row[0] for row in finding.tables[0].rows] == [f"{p} %" for p in SELECTIVITIES]
        for claim in finding.claims:
            assert "Ours: " in claim.detail
            assert "The paper: " in claim.detail
            assert claim.holds == ("Why: " not in claim.detail)
            assert (claim.rests in claim.detail) if claim.rests else "Rests on" not in claim.detail


def test_memory_is_saved_where_little_matches(findings: dict[str, Finding]) -> None:
    for figure in ("3.6", "3.9"):
        assert all(claim.holds for claim in findings[f"figure-{figure}"].claims)


@pytest.mark.parametrize("percent", SELECTIVITIES)
def test_every_way_gives_the_matches_of_the_definition(percent: int) -> None:
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
        cost = compared(made, text, 1)
        assert set(cost) == set(WAYS)
        for each in cost.values():
            assert (each.matches, each.share) == (matches, round(100 * matching / 300, 2))
