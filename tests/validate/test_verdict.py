"""The verdict's numbers by hand, and what is said of each kind of trouble."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from msgspec import structs

from slackwater.engine.apps.validate.quality import ClockQuality, LinkQuality, Setup, SourceQuality
from slackwater.engine.apps.validate.verdict import (
    Fitness,
    Measured,
    ResultRequirements,
    judge,
    overall,
    percent,
    requirements_of,
)
from slackwater.engine.query import query

MS = 10**6
SECOND = 10**9
LINK = LinkQuality(
    least_ns=5 * MS, p50_ns=6 * MS, p95_ns=9 * MS, p999_ns=25 * MS, most_ns=30 * MS,
    transit_error_ns=MS, round_trip_ns=20 * MS, trials=1000,
)  # fmt: skip
# States a skew that does not err, so what it may be wrong by is half its delay and its precision.
CLOCK = ClockQuality(offset_ns=0, delay_ns=9 * MS, precision_ns=500_000, skew_error_ppb=0, age_ns=1)


def setup(clock: ClockQuality = CLOCK, link: LinkQuality = LINK, more: int = 0) -> Setup:
    own = SourceQuality(site="main", name="door", clock=clock, link=link)
    others = [replace(own, name=f"other-{n}") for n in range(more)]
    return Setup(sources=(own, *others), alike=not more)


def test_a_clock_errs_by_half_its_delay_and_precision_and_what_grows() -> None:
    assert CLOCK.fresh_ns == 5 * MS
    # The line itself is rounded down twice; nothing else grows.
    assert 5 * MS <= CLOCK.bound_ns() <= 5 * MS + 10
    growing = replace(CLOCK, skew_error_ppb=50_000, age_ns=60 * SECOND)
    assert growing.held_ns == 5 * MS + 3 * MS
    assert 5 * MS < growing.bound_ns() == growing.held_ns
    assert growing.bound_ns(SECOND) < growing.bound_ns()


@pytest.mark.parametrize(
    ("text", "orders", "comparisons"),
    [
        ("EVENT SEQ(A a, B b) WITHIN 1 s", 1, 2),
        ("EVENT SEQ(A a, !N n, B b, C c) WITHIN 1 s", 2, 3),
        ("EVENT AND(A a, B b, C c) WITHIN 1 s", 0, 1),
        ("EVENT SEQ(A a, AND(B b, C c), D d) WITHIN 1 s", 4, 5),
        ("EVENT SEQ(A a) WITHIN 1 s", 0, 0),
        ("EVENT SEQ(A a, OR(B b, SEQ(C c, D d))) WITHIN 1 s", 2, 3),
    ],
)
def test_what_a_pattern_asks_of_clocks(text: str, orders: int, comparisons: int) -> None:
    found = requirements_of(query(text))
    assert (found.orders, found.comparisons) == (orders, comparisons)


def test_the_numbers_of_a_pattern() -> None:
    plan = requirements_of(query("EVENT SEQ(A a, B b, C c) WITHIN 10 s"))
    found = judge(plan, setup(), ResultRequirements())
    g = found.order_gap_ns
    assert g == 2 * CLOCK.bound_ns()
    assert found.smallest_ns == 3 * g + 1
    assert found.expected == pytest.approx(1 - (1 - 3 * g / (10 * SECOND)) ** 2)
    assert found.timeout_ns == 20 * MS
    assert found.hold_ns == 20 * MS + g
    assert found.detection_p95_ns == 9 * MS + found.hold_ns
    assert found.fitness is Fitness.FIT
    assert found.reasons == ()
    near = judge(plan, setup(), ResultRequirements(gap_ns=100 * MS))
    assert near.expected == pytest.approx(1 - math.exp(-g / (100 * MS)) ** 2)
    assert near.fitness is Fitness.CARE
    by_delay = judge(plan, setup(), ResultRequirements(certainty="max-delay-r19"))
    assert by_delay.order_gap_ns == 9 * MS


@pytest.mark.parametrize("names", ["A a, B b", "A a, B b, C c", "A a, B b, C c, D d"])
@pytest.mark.parametrize("within_ms", [50, 200])
def test_the_expected_share_is_that_of_events_spread_evenly(names: str, within_ms: int) -> None:
    found = judge(
        requirements_of(query(f"EVENT SEQ({names}) WITHIN {within_ms} ms")),
        setup(),
        ResultRequirements(),
    )
    more = len(names.split(", ")) - 1
    after = np.sort(np.random.default_rng(3).uniform(0, within_ms * MS, (40_000, more)), axis=1)
    ends = np.full((len(after), 1), within_ms * MS)
    apart = np.diff(np.hstack([0 * ends, after, ends]), axis=1)
    uncertain = (apart <= found.order_gap_ns).any(axis=1).mean()
    assert found.expected == pytest.approx(uncertain, abs=0.01)


def test_where_no_match_can_be_certain_all_are_expected_to_be_uncertain() -> None:
    plan = requirements_of(query("EVENT SEQ(A a, B b) WITHIN 15 ms"))
    for wanted in (ResultRequirements(), ResultRequirements(gap_ns=SECOND)):
        found = judge(plan, setup(), wanted)
        assert found.expected == 1
        assert "no match can be certain" in found.reasons[0]


def test_a_remedy_says_what_it_would_bring() -> None:
    plan = requirements_of(query("EVENT SEQ(A a, B b) WITHIN 60 ms"))
    seldom = replace(CLOCK, delay_ns=MS, skew_error_ppb=50_000, age_ns=600 * SECOND)
    found = judge(plan, setup(seldom), ResultRequirements())
    often = judge(plan, setup(replace(seldom, age_ns=100 * SECOND)), ResultRequirements())
    assert 0.05 < often.expected < found.expected
    assert found.change_first.endswith(f"; then {percent(often.expected)} are still uncertain")
    measured = judge(plan, setup(seldom), ResultRequirements(), Measured(100, 90))
    assert "; then" not in measured.change_first


def test_a_slow_link_is_to_be_mended_before_it_is_waited_for() -> None:
    plan = requirements_of(query("EVENT SEQ(A a, B b) WITHIN 1 min"))
    late = structs.replace(LINK, p999_ns=2 * SECOND)
    assert judge(plan, setup(link=late), ResultRequirements()).change_first.startswith(
        "write order ="
    )
    slow = judge(plan, setup(link=structs.replace(late, p95_ns=SECOND)), ResultRequirements())
    assert slow.change_first.startswith(
        "door: improve its link, 5 % of its events take longer than 1 s"
    )


def test_the_numbers_of_a_window() -> None:
    plan = requirements_of(query("SELECT count(*) FROM events WINDOW TUMBLING 1 s"))
    u = CLOCK.bound_ns()
    found = judge(plan, setup(), ResultRequirements(uncertain=0.1))
    assert found.expected == pytest.approx(4 * u / (SECOND + 2 * u))
    assert found.fitness is Fitness.FIT
    at_least = requirements_of(
        query(f"SELECT count(*) FROM events WINDOW TUMBLING {found.smallest_ns} ns")
    )
    assert judge(at_least, setup(), ResultRequirements(uncertain=0.1)).expected <= 0.1
    below = requirements_of(query("SELECT count(*) FROM events WINDOW TUMBLING 9 ms"))
    short = judge(below, setup(), ResultRequirements(uncertain=1.0))
    assert short.fitness is Fitness.NOT_FIT
    assert "largest sync delay" in short.reasons[0]


@pytest.mark.parametrize(("loss", "resent"), [(0.001, 1), (0.02, 1), (0.1, 2), (0.5, 9 - 1)])
def test_the_wait_for_what_is_sent_again(loss: float, resent: int) -> None:
    link = structs.replace(LINK, lost=round(loss * 1000))
    found = judge(
        requirements_of(query("EVENT SEQ(A a, B b) WITHIN 1 min")),
        setup(link=link),
        ResultRequirements(),
    )
    assert found.timeout_ns == 20 * MS + 220 * MS * (2**resent - 1)
    never = setup(link=structs.replace(link, resends=False))
    reported = judge(
        requirements_of(query("EVENT SEQ(A a, B b) WITHIN 1 min")), never, ResultRequirements()
    )
    assert reported.timeout_ns == 20 * MS
    assert "not sent again" in " ".join(reported.reasons)


@pytest.mark.parametrize(
    ("clock", "said"),
    [
        (CLOCK, "shorten the way"),
        (
            replace(CLOCK, delay_ns=4 * MS, skew_error_ppb=50_000, age_ns=3_600 * SECOND),
            "synchronise",
        ),
        (replace(CLOCK, precision_ns=16 * MS), "reads in steps of"),
        (ClockQuality(offset_ns=None), "let the agent reach"),
    ],
)
def test_what_to_change_first(clock: ClockQuality, said: str) -> None:
    plan = requirements_of(query("EVENT SEQ(A a, B b) WITHIN 15 ms"))
    found = judge(plan, setup(clock), ResultRequirements())
    assert found.fitness is Fitness.NOT_FIT
    assert said in found.change_first


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("EVENT SEQ(A a, B b) WITHIN 10 s", 1.0),
        ("SELECT count(*) WINDOW TUMBLING 10 s", 1.0),
        ("EVENT SEQ(A a) WITHIN 1 s", 0.0),  # compares no times
    ],
)
def test_clocks_that_nothing_is_known_of_decide_nothing(text: str, share: float) -> None:
    found = judge(
        requirements_of(query(text)), setup(ClockQuality(offset_ns=None)), ResultRequirements()
    )
    assert found.share == share
    assert (found.fitness is Fitness.NOT_FIT) == (share > 0)


def test_what_was_answered_counts_more_than_what_is_expected() -> None:
    plan = requirements_of(query("EVENT SEQ(A a, B b) WITHIN 10 s"))
    for uncertain, fitness in ((0, Fitness.FIT), (10, Fitness.CARE), (30, Fitness.NOT_FIT)):
        found = judge(plan, setup(), ResultRequirements(), Measured(100, uncertain))
        assert found.share == uncertain / 100
        assert found.fitness is fitness
    assert judge(plan, setup(), ResultRequirements(), Measured(0, 0)).share > 0


def test_the_two_least_known_clocks_make_the_gap_and_concerns_count() -> None:
    good = replace(CLOCK, delay_ns=MS)
    three = setup(more=1)
    mixed = replace(three, sources=(*three.sources, replace(three.sources[0], clock=good)))
    assert mixed.pair_ns == three.pair_ns == 2 * CLOCK.bound_ns()
    assert mixed.t_a_ns == 9 * MS
    assert overall([], mixed) is Fitness.FIT
    assert overall([], replace(mixed, concerns=(("a", False),))) is Fitness.CARE
    assert overall([], replace(mixed, concerns=(("a", False), ("b", True)))) is Fitness.NOT_FIT
