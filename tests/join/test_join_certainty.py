"""How certain rows are, beside all placements of the true times that the clocks leave open.

A placement gives every clock one whole error within its uncertainty. In each of them the join is
made by definition; a row that is there in all is certain, one that is there in some is possible.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.core.released import IN_ORDER, LATE
from tests.join.definition import Definition, Row
from tests.join.sides import Sided, net, row_of, run
from tests.join.test_join_rows import KINDS, NEAR, answering, same_id

CLOCKS = {"x": ("s0", 1, 2), "y": ("s1", 1, 1), "z": ("s2", 1, 0)}
"""Sources whose events share an error: name, epoch, uncertainty."""


@st.composite
def events_of(draw: st.DrawFn) -> list[Sided]:
    found = []
    for _ in range(draw(st.integers(0, 5))):
        clock = draw(st.sampled_from([*CLOCKS, "alone", "alone"]))
        source, epoch, unc = CLOCKS.get(clock, ("s0", -1, draw(st.integers(0, 2))))
        found.append(
            Sided(
                "T", ref=draw(st.integers(0, 9)), unc=unc, source=source, epoch=epoch,
                stream=draw(st.sampled_from("ab")), attrs={"id": draw(st.integers(0, 1))},
                status=draw(st.sampled_from([IN_ORDER, LATE])),
            )
        )  # fmt: skip
    return found


def placements(events: Sequence[Sided]) -> Iterator[list[int]]:
    """True times, for every error that each clock may have."""
    clock = [
        (event.source, event.epoch) if event.epoch >= 0 else (str(n), -1)
        for n, event in enumerate(events)
    ]
    each = {name: event.unc for name, event in zip(clock, events, strict=True)}
    for errors in itertools.product(*(range(-unc, unc + 1) for unc in each.values())):
        error = dict(zip(each, errors, strict=True))
        yield [event.ref + error[name] for name, event in zip(clock, events, strict=True)]


def shares(events: Sequence[Sided], row: Row) -> bool:
    x, y = row
    if x is None or y is None:
        return False
    one, two = events[x], events[y]
    return (one.source, one.epoch) == (two.source, two.epoch) and one.epoch >= 0


@settings(max_examples=40)
@given(
    events=events_of(), kind=st.sampled_from([*KINDS]), near=st.sampled_from([*NEAR]),
    barrier=st.sampled_from(["immediate", "punctuation"]), cuts=st.lists(st.integers(1, 4)),
)  # fmt: skip
def test_certainty_against_all_placements(
    events: list[Sided], kind: str, near: str, barrier: str, cuts: list[int]
) -> None:
    make = answering(f"SELECT a.ts FROM a {KINDS[kind]} JOIN b ON a.id = b.id {near}", barrier)
    found = run(make, events)
    assert run(make, events, cuts) == found

    def row(result: dict[str, Any]) -> Any:
        return row_of(result, "a", "b"), result["certainty"], result["probability"]

    left = net(found, row)
    given_rows = {one: (certainty, chance) for one, certainty, chance in left}
    assert len(given_rows) == len(left)
    worlds = [Definition(kind, NEAR[near], same_id).rows(events, at) for at in placements(events)]
    certain, possible = set.intersection(*worlds), set.union(*worlds)
    # No false negatives, and nothing is confirmed that is not so in every world.
    assert possible <= set(given_rows)
    confirmed = {one for one, (certainty, _) in given_rows.items() if certainty == "confirmed"}
    assert confirmed <= certain
    pairs = [one for one in given_rows if None not in one]
    assert set(pairs) == {one for one in possible if None not in one}
    assert set(pairs) & confirmed == {one for one in certain if None not in one}
    # Without a partner: certain if none is possible, and gone if one is certain.
    pair_worlds = [
        Definition("inner", NEAR[near], same_id).rows(events, at) for at in placements(events)
    ]
    sure, may = set.intersection(*pair_worlds), set.union(*pair_worlds)
    for side, asked in ((0, {"left", "full", "anti"}), (1, {"right", "full"})):
        for n in [n for n, event in enumerate(events) if event.stream == "ab"[side]]:
            alone = (n, None) if side == 0 else (None, n)
            partners = {pair[side] for pair in sure}, {pair[side] for pair in may}
            assert (alone in given_rows) == (kind in asked and n not in partners[0])
            if alone in given_rows:
                assert (alone in confirmed) == (n not in partners[1])
    for one, (certainty, chance) in given_rows.items():
        assert (chance == 1.0) if certainty == "confirmed" else (0.0 <= chance <= 1.0)
        assert chance > 0 or one not in certain


@pytest.mark.parametrize(
    ("near", "apart", "chance"),
    [
        # Errors are uniform in [-2, 2] and [-1, 1]; b - a is so far as measured.
        ("WITHIN 4", 4, Fraction(1, 2)),
        ("WITHIN 4", 6, Fraction(1, 16)),
        ("WITHIN 4", 2, Fraction(15, 16)),
    ],
)
def test_probability_of_a_pair(near: str, apart: int, chance: Fraction) -> None:
    """By the area of the rectangle of both errors in which they are near enough."""
    events = [
        Sided("T", 10, unc=2, stream="a", attrs={"id": 0}),
        Sided("T", 10 + apart, unc=1, stream="b", source="s1", attrs={"id": 0}),
    ]
    found = run(answering(f"SELECT a.ts FROM a LEFT JOIN b ON a.id = b.id {near}"), events)
    both = {len(one["events"]): one for one in found if one["op"] == "+"}
    assert both[2]["certainty"] == both[1]["certainty"] == "uncertain"
    assert both[2]["probability"] == pytest.approx(float(chance), abs=0.02)
    assert both[1]["probability"] == pytest.approx(1 - float(chance), abs=0.02)


@pytest.mark.parametrize(
    ("window", "at", "chance"),
    [
        ("TUMBLING 10", 10, 0.5), ("TUMBLING 10", 11, 0.25), ("TUMBLING 10", 12, 0.0),
        ("SLIDING 7 EVERY 3", 10, 0.5), ("SLIDING 7 EVERY 3", 11, 0.25),
        ("SLIDING 6 EVERY 4", 10, 0.5), ("SLIDING 10 EVERY 10", 11, 0.25),
    ],
)  # fmt: skip
def test_probability_of_one_window(window: str, at: int, chance: float) -> None:
    """The last window of ``b`` certainly ends at 10; ``a`` errs by up to 2, so it lies there if it
    errs downwards.
    """
    events = [
        Sided("T", at, unc=2, stream="a", attrs={"id": 0}),
        Sided("T", 5, unc=1, stream="b", source="s1", attrs={"id": 0}),
    ]
    found = run(answering(f"SELECT a.ts FROM a JOIN b ON a.id = b.id WINDOW {window}"), events)
    assert [len(one["events"]) for one in found] == ([2] if chance else [])
    for one in found:
        assert one["certainty"] == "uncertain"
        assert one["probability"] == pytest.approx(chance, abs=0.03)


SEEN = {
    "WITHIN 3": {"confirmed", "uncertain", None},
    "WITHIN 1": {"uncertain", None},
    "WINDOW TUMBLING 4": {"confirmed", "uncertain", None},
    "WINDOW TUMBLING 1": {"uncertain", None},
    "WINDOW SLIDING 6 EVERY 2": {"confirmed", "uncertain", None},
    "WINDOW SLIDING 5 EVERY 3": {"confirmed", "uncertain", None},
    "WINDOW SLIDING 3 EVERY 1": {"confirmed", "uncertain", None},
}


@pytest.mark.parametrize("near", [*NEAR])
def test_r19_takes_one_bound_for_all(near: str) -> None:
    """Each event may err by T_a/2, independently (SPEC 4.3)."""
    t_a, seen = 2, set()
    for x, y in itertools.product(range(8), repeat=2):
        events = [
            Sided("T", x, stream="a", attrs={"id": 0}, source="s0", epoch=1),
            Sided("T", y, stream="b", attrs={"id": 0}, source="s0", epoch=1),
        ]
        text = f"SELECT a.ts FROM a JOIN b ON a.id = b.id {near}"
        make = answering(text, certainty="max-delay-r19")
        found = run(make, events, t_a=t_a)
        worlds = {
            NEAR[near](x + one, y + two) for one, two in itertools.product((-1, 0, 1), repeat=2)
        }
        want = "confirmed" if worlds == {True} else "uncertain" if True in worlds else None
        assert [one["certainty"] for one in found] == [want] * (want is not None), (x, y)
        seen.add(want)
    assert seen == SEEN[near]


WITH_OWN_CLOCK = [("s1", -1, 8, 2), ("s2", -1, 12, 3), ("s3", -1, 19, 3)]
WITH_ITS_CLOCK = [("s0", 1, 12, 3), ("s2", -1, 7, 4)]


FAR_WITH_OWN_CLOCK = [("s1", -1, 17, 2), ("s2", -1, 15, 3), ("s3", -1, 0, 3)]
FAR_WITH_ITS_CLOCK = [("s0", 1, 18, 3), ("s2", -1, 16, 4)]


@pytest.mark.parametrize(
    ("every", "partners"),
    [
        *((10, each) for each in (WITH_OWN_CLOCK[:1], WITH_OWN_CLOCK, WITH_ITS_CLOCK)),
        *(
            (every, each)
            for every in (4, 5)
            for each in (FAR_WITH_OWN_CLOCK[:1], FAR_WITH_OWN_CLOCK, FAR_WITH_ITS_CLOCK)
        ),
    ],
)
def test_query_07_the_chance_of_no_partner_in_the_window(
    every: int, partners: list[tuple[str, int, int, int]]
) -> None:
    """By the area of the errors of ``a``, and of each partner by itself or with it."""
    events = [
        Sided("T", ref, unc=unc, stream="b", source=source, epoch=epoch, attrs={"id": 0})
        for source, epoch, ref, unc in partners
    ]
    events.append(Sided("T", 9, unc=3, stream="a", source="s0", epoch=1, attrs={"id": 0}))
    near = "TUMBLING 10" if every == 10 else f"SLIDING 10 EVERY {every}"
    text = f"SELECT a.ts FROM a ANTI JOIN b ON a.id = b.id WINDOW {near}"
    (found,) = [one for one in run(answering(text), events) if one["op"] == "+"]
    parts, chance = 3000, 0.0
    for part in range(parts):
        error = 3 * (2 * part + 1 - parts) / parts
        begins = [begin for begin in range(-20, 41, every) if begin <= 9 + error < begin + 10]
        begin, end, alone = min(begins), max(begins) + 10, 1.0
        for source, _, ref, unc in partners:
            inside = max(0.0, min(end, ref + unc) - max(begin, ref - unc)) / (2 * unc)
            if source == "s0":
                inside = float(begin <= ref + error < end)
            alone *= 1 - inside
        chance += alone / parts
    assert found["certainty"] == "uncertain"
    assert found["probability"] == pytest.approx(chance, abs=0.005)
