"""What a sweep finds: against plain enumeration over made-up answers."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import UserError
from engine.sweep.cells import Answer, jobs_of
from engine.sweep.findings import Estimate, Findings
from engine.sweep.grid import Axis, cells, nearest, read_axes
from engine.sweep.page import frontier

AXES = (Axis("link.delay", ("1ms", "10ms", "100ms")), Axis("count", ("1", "2", "3", "4")))


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("a=1,2, 3", ("1", "2", "3")),
        ("a.b=none,kslack:1s", ("none", "kslack:1s")),
        ("a=0..1/3", ("0", "0.5", "1")),
        ("a=1..1000/4", ("1", "10", "100", "1000")),
        ("a=1ms..2ms/2", ("1ms", "2ms")),
        ("a=500us..1s/2", ("500us", "1s")),
        ("a=0 %..10 %/2", ("0", "0.1")),
        ("a=-1s..1s/3", ("-1", "0", "1")),
    ],
)
def test_axes_are_read(text: str, values: tuple[str, ...]) -> None:
    if text == "a=-1s..1s/3":
        with pytest.raises(UserError):
            read_axes([text, text])
        return
    assert read_axes([text])[0].values == values


@pytest.mark.parametrize(
    "text",
    ["a", "a=", "=1", "a=1..", "a=2..1", "a=1..2/1", "a=1ms..2", "a=1,1", "a=1,,2", "a=x..y",
     "a=1..2/5000", "a=1parsec..2parsec"],
)  # fmt: skip
def test_a_bad_axis_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(UserError, match=r"--sweep (a|=1)"):
        read_axes([text])


def test_too_many_cells_are_refused() -> None:
    with pytest.raises(UserError, match="at most 10,000"):
        read_axes(["a=1..2/200", "b=1..2/200"])


def test_the_frontier_lies_between_cells_that_hold_and_cells_that_do_not() -> None:
    holds = [[True, True, False], [True, False, False]]
    assert frontier(holds) == [
        ((1.5, -0.5), (1.5, 0.5)), ((0.5, 0.5), (1.5, 0.5)), ((0.5, 0.5), (0.5, 1.5)),
    ]  # fmt: skip
    assert frontier([[True, True]]) == frontier([[False], [False]]) == []


def test_the_nearest_value_is_of_the_same_size() -> None:
    assert nearest(AXES[0], "20 ms") == "10ms"
    assert nearest(AXES[0], 90_000_000) == "100ms"
    assert nearest(AXES[0], None) == "1ms"
    assert read_axes(["link.jitter=1s, 20ms, 300ms"])[0].values == ("20ms", "300ms", "1s")
    assert read_axes(["engine.order=sequence,none"])[0].values == ("sequence", "none")
    assert nearest(Axis("order", ("none", "kslack:1s")), "kslack:1s") == "kslack:1s"


def test_every_cell_has_a_job_for_each_seed() -> None:
    jobs = jobs_of(AXES, cells(AXES), 5, 3, ["duration=1s"])
    assert len(jobs) == 3 * 4 * 3
    assert len({(job.cell, job.seed) for job in jobs}) == len(jobs)
    assert jobs[-1].pairs == ("duration=1s", "seed=7", "link.delay=100ms", "count=4")


@given(st.integers(0, 2**32), st.integers(1, 4))
def test_the_least_change_is_the_nearest_cell_that_holds(seed: int, seeds: int) -> None:
    draw = random.Random(seed)
    answers = []
    for cell in cells(AXES):
        sure = draw.choice([0.0, 0.5, 1.0])
        for number in range(seeds):
            claims = {text: (draw.random() < sure, "it is 1") for text in ("a", "b")}
            error = "too many" if draw.random() < 0.05 else None
            claims = {} if error else claims
            answers.append(Answer(cell, number, claims, {} if error else {"q": {"m": 1.0}}, error))
    found = Findings.of(AXES, answers)
    good = [
        cell for cell in cells(AXES) if all(each.holds for each in answers if each.cell == cell)
    ]
    assert [cell for cell in cells(AXES) if found.all_hold(cell)] == good
    own = draw.choice(cells(AXES))
    best = found.least_change(own)
    assert (best is None) == (not good)
    if own in good:
        assert best == own
    if best is not None:
        changed = sum(one != other for one, other in zip(best, own, strict=True))
        assert best in good
        assert changed == min(
            sum(one != other for one, other in zip(each, own, strict=True)) for each in good
        )


def test_a_spread_is_a_confidence_interval() -> None:
    spread = Estimate.of([1.0, 2.0, 3.0])
    assert spread.mean == 2.0
    assert spread.half == pytest.approx(4.30 / 3**0.5)
    assert Estimate.of([1.0]).half is None
