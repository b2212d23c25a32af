"""L10 chapter 4 made anew, small: every option gives the same matches, and work can be repeated."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import fields, replace
from pathlib import Path

import pytest

from engine.pattern.settings import StackOptions
from engine.report.paper import Finding, PaperRun
from scenarios.papers.l10 import paper
from scenarios.papers.l10.ch4 import overhead, partition, published, runs
from scenarios.papers.l10.ch4.runs import WITHIN_NS, one_pass
from scenarios.papers.l10.ch4.sequence_scan import SEARCHES, Scan, scan
from scenarios.papers.l10.ch4.streams import TYPES, released, stream

OPTIONS = [field.name for field in fields(StackOptions)]


@pytest.fixture(scope="module")
def findings() -> dict[str, Finding]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runs, "TURNS", 1)
        patch.setattr(overhead, "TURNS", 1)
        patch.setattr(partition, "OTHERS", dict(list(partition.OTHERS.items())[-1:]))
        run = PaperRun(1, 0.02, Path(), lambda _what: nullcontext(lambda _rows: None))
        return {name: each.make(run) for name, each in paper().parts["ch4"].reproductions.items()}


@pytest.mark.slow
def test_every_figure_has_claims_with_both_numbers(findings: dict[str, Finding]) -> None:
    assert list(findings) == ["figure-4.8", "figure-4.9", "figure-4.10", "figure-4.11"]
    for finding in findings.values():
        assert finding.claims
        assert finding.tables
        assert finding.figures
        for claim in finding.claims:
            assert "Ours: " in claim.detail
            assert "The paper: " in claim.detail
            assert claim.holds == ("Why: " not in claim.detail)
            assert (claim.rests in claim.detail) if claim.rests else "Rests on" not in claim.detail


def test_tables_have_a_row_per_data_set(findings: dict[str, Finding]) -> None:
    sizes = [f"{size:,} events" for size in published.SIZES]
    assert [row[0] for row in findings["figure-4.8"].tables[0].rows] == sizes
    assert [row[0] for row in findings["figure-4.9"].tables[0].rows] == sizes
    for name in ("figure-4.10", "figure-4.11"):
        for table in findings[name].tables:
            assert len(table.rows) == 15
    for row in findings["figure-4.10"].tables[0].rows:
        without, with_it = (float(str(cell)) for cell in row[1:3])
        assert 0.95 < with_it / without < 1.05, "nothing is held between events and results"


@pytest.mark.parametrize("late_share", [0.0, 0.3, 0.9])
def test_every_option_gives_the_same_matches(late_share: float) -> None:
    made = stream(3000, late_share, 40, 1)
    batch = released(made)
    everything, counters = one_pass(batch, 40, StackOptions())
    assert everything > 100
    assert one_pass(batch, 40, StackOptions()) == (everything, counters), "work can be repeated"
    for name in OPTIONS:
        changed = replace(StackOptions(), **{name: not getattr(StackOptions(), name)})
        assert one_pass(batch, 40, changed)[0] == everything, name


@pytest.mark.parametrize("late_share", [0.0, 0.7])
def test_the_paper_s_operator_agrees_with_our_matcher(late_share: float) -> None:
    made = stream(2000, late_share, 40, 2)
    want = one_pass(released(made), 40, StackOptions())[0]
    assert want > 500
    scans = [Scan(WITHIN_NS, 40, partition=False)]
    scans += [
        Scan(WITHIN_NS, 40, clock=on, search=of) for of in SEARCHES.values() for on in (False, True)
    ]
    if not late_share:
        scans.append(Scan(WITHIN_NS, 40, late=False))
    for asked in scans:
        assert scan(made.ts, made.kind, len(TYPES), asked).matches == want, asked
