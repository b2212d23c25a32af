"""Answers beside the true times of events, whose clocks keep the bounds that their syncs state.

A clock's true offset moves by at most RATE, any way and as often as it likes; each sync measures it
within its uncertainty, anywhere in time, before and after events, and comes at any place of the
log. Then nothing confirmed is false, and nothing true is missing. The truth is exact fractions.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.barrier.registry import parse_barrier
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.hosts.warnings import of_refuted_clocks
from slackwater.engine.operators.match.spill.bounds import SpillSettings
from slackwater.engine.order.base import Guards
from slackwater.engine.order.registry import parse_order
from slackwater.engine.query import query
from tests.clocks.test_clock_cases import answers, changes
from tests.order.conftest import frame

PPB, UNIT = 10**9, 1000
RATES = (0, 10**6, 5 * 10**7)
SPAN = 200
"""Stamps lie in so many UNITs."""
Record = dict[str, Any]
ORDERS = ("none", "kslack:0", "kslack:40us", "sequence:timeout=fixed:1ms")


class Event(NamedTuple):
    number: int
    type: str
    ts: int
    start: Fraction
    end: Fraction


class World(NamedTuple):
    records: list[Record]
    events: list[Event]


@st.composite
def worlds(draw: st.DrawFn, *, long: int = 0) -> World:
    """``long``: how long an interval takes at most [UNIT]."""
    records, events = list[tuple[int, Record]](), list[Event]()
    firsts = list[Record]()
    for source in draw(st.sampled_from(["p", "pq", "pqr"])):
        rate = draw(st.sampled_from(RATES))
        unc = draw(st.sampled_from([3, 2 * UNIT, 15 * UNIT]))
        offset = _offset(draw, rate)
        moments = draw(st.lists(st.integers(-2 * SPAN, 3 * SPAN), min_size=1, max_size=5))
        for n, moment in enumerate(sorted(moments) if draw(st.booleans()) else moments):
            ts = moment * UNIT
            off = round(offset(ts)) + draw(st.integers(2 - unc, unc - 2) | st.just(unc - 2))
            sync = {"kind": "sync", "source": source, "ts": ts, "offset": off, "delay": 2 * unc,
                    "skew_error_ppb": rate}  # fmt: skip
            if n:
                records.append((draw(st.integers(0, 100)), sync))
            else:
                firsts.append(sync)
        for _ in range(draw(st.integers(1, 5))):
            ts = draw(st.integers(0, SPAN)) * UNIT
            te = ts + draw(st.integers(0, long)) * UNIT
            number = len(events)
            event = Event(
                number, draw(st.sampled_from("ABC")), ts, ts + offset(ts), te + offset(te)
            )
            events.append(event)
            record = {"source": source, "type": event.type, "ts": ts, "te": te,
                      "attrs": {"n": number, "v": 2**number}}  # fmt: skip
            records.append((draw(st.integers(0, 100)), record))
    records.sort(key=lambda pair: pair[0])
    return World([*firsts, *(record for _, record in records)], events)


def _offset(draw: st.DrawFn, rate: int) -> Callable[[int], Fraction]:
    """Piecewise linear in the clock's own time, never steeper than ``rate``."""
    knots = sorted(draw(st.lists(st.integers(-2 * SPAN, 3 * SPAN), max_size=3, unique=True)))
    ends = [-3 * SPAN * UNIT, *(knot * UNIT for knot in knots), 4 * SPAN * UNIT]
    slopes = [
        Fraction(draw(st.sampled_from([-1, 0, 1]) | st.integers(-9, 9).map(lambda x: x / 10)))
        * rate / PPB * Fraction(999, 1000)
        for _ in ends[1:]
    ]  # fmt: skip
    base = draw(st.integers(-20, 20)) * UNIT

    def offset(ts: int) -> Fraction:
        found = Fraction(base)
        for (low, high), slope in zip(itertools.pairwise(ends), slopes, strict=True):
            found += slope * (min(max(ts, low), high) - low)
        return found

    return offset


def found_matches(text: str, world: World, order: str, **settings: Any) -> dict[Any, str]:
    standing = answers(text, world.records, order=order, **settings)
    return {
        tuple(event["attrs"]["n"] for event in each["events"]): each["certainty"]
        for each in standing
    }


Truth = Callable[[list[Event]], Iterator[tuple[int, ...]]]


def pairs(within: int) -> Truth:
    def true(events: list[Event]) -> Iterator[tuple[int, ...]]:
        for a, b in itertools.permutations(events, 2):
            ends = a.type == "A" and b.type == "B" and a.end < b.start
            if ends and b.end - a.start <= within * UNIT:
                yield a.number, b.number

    return true


def unbroken(within: int) -> Truth:
    def true(events: list[Event]) -> Iterator[tuple[int, ...]]:
        for a, b in pairs(within)(events):
            times = events[a].start, events[b].start
            if not any(c.type == "C" and times[0] < c.start < times[1] for c in events):
                yield a, b

    return true


def repeated(within: int) -> Truth:
    def true(events: list[Event]) -> Iterator[tuple[int, ...]]:
        for a, c, b in itertools.permutations(events, 3):
            types = a.type + c.type + b.type == "AAB"
            if types and a.end < c.start and c.end < b.start and b.end - a.start <= within * UNIT:
                yield a.number, c.number, b.number

    return true


def far(within: int) -> Truth:
    def true(events: list[Event]) -> Iterator[tuple[int, ...]]:
        for a, b in pairs(within)(events):
            if events[b].start - events[a].start >= 5 * UNIT:
                yield a, b

    return true


def lasting(within: int) -> Truth:
    def true(events: list[Event]) -> Iterator[tuple[int, ...]]:
        for a, b in pairs(within)(events):
            if events[a].end - events[a].start >= 20 * UNIT:
                yield a, b

    return true


def overlapping(within: int) -> Truth:
    def true(events: list[Event]) -> Iterator[tuple[int, ...]]:
        for a, b in itertools.permutations(events, 2):
            lasts = max(a.end, b.end) - min(a.start, b.start)
            meets = (a.type, b.type) == ("A", "B") and a.start < b.start < a.end
            if meets and lasts <= within * UNIT:
                yield a.number, b.number

    return true


def containing(within: int) -> Truth:
    """One that lasts too long holds another one."""

    def true(events: list[Event]) -> Iterator[tuple[int, ...]]:
        for a, b in itertools.permutations(events, 2):
            holds = (a.type, b.type) == ("A", "B") and a.start < b.start and b.end < a.end
            if holds and a.end - a.start <= within * UNIT:
                yield a.number, b.number

    return true


def without(within: int) -> Truth:
    """None inside of it."""

    def true(events: list[Event]) -> Iterator[tuple[int, ...]]:
        for a, b in pairs(within)(events):
            start, end = events[a].start, events[b].end
            if not any(
                c.type == "C" and events[a].end < c.start and c.end < events[b].start
                and max(c.end, end) - min(c.start, start) <= within * UNIT for c in events
            ):  # fmt: skip
                yield a, b

    return true


PATTERNS: dict[str, tuple[str, Callable[[int], Truth], int]] = {
    "pair": ("EVENT SEQ(A a, B b) WITHIN {} us", pairs, 0),
    "negation": ("EVENT SEQ(A a, !C c, B b) WITHIN {} us", unbroken, 0),
    "repetition": ("EVENT SEQ(A{{2}} a[], B b) WITHIN {} us", repeated, 0),
    "difference": ("EVENT SEQ(A a, B b) WHERE b.ts - a.ts >= 5 us WITHIN {} us", far, 0),
    "ISEQ": ("EVENT ISEQ[A.ts < B.ts < A.te](A, B) WITHIN {} us", overlapping, 60),
    "ISEQ contains": ("EVENT ISEQ[A CONTAINS B](A, B) WITHIN {} us", containing, 60),
    "ISEQ without": (
        "EVENT ISEQ[A.te < B.ts, A.te < C.ts, C.te < B.ts](A, B, !C) WITHIN {} us",
        without,
        30,
    ),
    "tree": ("EVENT SEQ(A CONTAIN B) WITHIN {} us", containing, 60),
    "pair of intervals": ("EVENT SEQ(A a, B b) WITHIN {} us", pairs, 40),
    "length": ("EVENT SEQ(A a, B b) WHERE a.te - a.ts >= 20 us WITHIN {} us", lasting, 40),
    "repeated intervals": ("EVENT SEQ(A{{2}} a[], B b) WITHIN {} us", repeated, 25),
}


@pytest.mark.parametrize("form", PATTERNS)
@settings(max_examples=10, deadline=None)
@given(
    data=st.data(), within=st.sampled_from([10, 40, 150]), order=st.sampled_from(ORDERS),
    rule=st.sampled_from(["pairwise", "max-delay"]),
)  # fmt: skip
def test_no_match_is_confirmed_that_is_false_and_none_is_missing(
    form: str, data: st.DataObject, within: int, order: str, rule: str
) -> None:
    text, truth, long = PATTERNS[form]
    world = data.draw(worlds(long=long))
    found = found_matches(text.format(within), world, order, certainty=rule)
    true = set(truth(within)(world.events))
    assert {match for match, certainty in found.items() if certainty == "confirmed"} <= true
    assert true <= set(found)


@settings(max_examples=30, deadline=None)
@given(world=worlds(), size=st.sampled_from([7, 50]), order=st.sampled_from(ORDERS))
def test_windows_bound_what_is_true(world: World, size: int, order: str) -> None:
    text = f"SELECT count(*) AS n, sum(v) AS s WINDOW TUMBLING {size} us"
    standing = answers(text, world.records, order=order)
    rows = {each["window"]["start"] // (size * UNIT): each for each in standing}
    true = dict[int, list[Event]]()
    for event in world.events:
        true.setdefault(event.start // (size * UNIT), []).append(event)
    assert set(true) <= set(rows)
    for window, row in rows.items():
        inside = true.get(window, [])
        assert row["certain"] <= len(inside) <= row["certain"] + row["ambiguous"]
        low, high = row["bounds"]["n"]
        assert low <= len(inside) <= high
        if inside:
            low, high = row["bounds"]["s"]
            assert low <= sum(2**event.number for event in inside) <= high


@settings(max_examples=30, deadline=None)
@given(world=worlds(), gap=st.sampled_from([5, 30]), order=st.sampled_from(ORDERS))
def test_a_session_that_is_certain_is_one(world: World, gap: int, order: str) -> None:
    text = f"SELECT count(*) AS n, sum(v) AS s WINDOW SESSION {gap} us"
    standing = answers(text, world.records, order=order)
    true, last = list[int](), None
    for event in sorted(world.events, key=lambda event: event.start):
        if last is None or event.start - last >= gap * UNIT:
            true.append(0)
        true[-1] += 2**event.number
        last = event.start
    for each in standing:
        if each["ambiguous"] == 0:
            assert each["value"]["s"] in true


def arriving(draw: st.DrawFn) -> int:
    """An instant long after all that happened."""
    return 1000 * UNIT * draw(st.integers(1, 101))


class Clock(NamedTuple):
    """Stamps of a clock that is ``offset`` behind true time, and ``after`` since ``step``."""

    offset: int
    after: int = 0
    step: int = 3 * SPAN

    def stamp(self, true: int) -> int:
        """``true`` in UNITs."""
        return true * UNIT - (self.after if true >= self.step else self.offset)


def _happened(
    draw: st.DrawFn, source: str, clock: Clock, types: str, long: int, events: list[Event]
) -> Iterator[tuple[int, Record]]:
    """Some events of one clock; none of them lasts while it is set back to before its start."""
    for _ in range(draw(st.integers(1, 6))):
        true = draw(st.integers(0, SPAN))
        end = true + draw(st.integers(0, long))
        end = end if clock.stamp(true) <= clock.stamp(end) else true
        number, ts = len(events), clock.stamp(true)
        event = Event(
            number, draw(st.sampled_from(types)), ts, Fraction(true * UNIT), Fraction(end * UNIT)
        )
        events.append(event)
        record = {"source": source, "type": event.type, "ts": ts, "te": clock.stamp(end),
                  "attrs": {"n": number, "v": 2**number}}  # fmt: skip
        yield arriving(draw), record


@st.composite
def refuted_worlds(draw: st.DrawFn, types: str = "ABC", long: int = 0) -> World:
    """Clock p is ahead by more than its sync says, and an event that takes no time to arrive proves
    it. A second sync that comes before it would prove nothing of what p stamped before the first
    one: the clock may have been set between the two.
    """
    records, events, firsts = list[tuple[int, Record]](), list[Event](), list[Record]()
    for source in draw(st.sampled_from(["pq", "pqr"])):
        unc, true = draw(st.sampled_from([3, 2 * UNIT])), draw(st.integers(-20, 20)) * UNIT
        wrong = draw(st.integers(1, 60)) * UNIT if source == "p" else 0
        off = true + wrong + unc if wrong else true + draw(st.integers(-unc, unc))
        firsts.append({"kind": "sync", "source": source, "ts": 0, "offset": off, "delay": 2 * unc,
                       "skew_error_ppb": 1})  # fmt: skip
        records += _happened(draw, source, Clock(true), types, long, events)
        delays = [0, *draw(st.lists(st.integers(0, wrong), max_size=2))] if wrong else []
        proofs = [(arriving(draw), delay) for delay in delays]
        for at, delay in proofs:
            number = len(events)
            proof = Event(number, "D", at - delay - true, *[Fraction(at - delay)] * 2)
            events.append(proof)
            record = {"source": source, "type": "D", "ts": proof.ts,
                      "attrs": {"n": number, "v": 2**number}}  # fmt: skip
            records.append((at, record))
        if draw(st.booleans()):
            arrival = max([arriving(draw), *(at for at, _ in proofs[:1])])
            sync = {"kind": "sync", "source": source, "ts": arrival - true, "offset": true,
                    "delay": 2 * unc, "skew_error_ppb": 1}  # fmt: skip
            records.append((arrival, sync))
    return _world(firsts, records, events)


@st.composite
def stepped_worlds(
    draw: st.DrawFn, types: str = "ABC", long: int = 0, more_syncs: int = 0
) -> World:
    """Clock p is set while events happen, by more than syncs may err. The sync that shows it comes
    at any place of the log, so that events may be released before by what was known until then.
    So do as many as ``more_syncs`` of before and after the step: some are overtaken by others.
    """
    records, events, firsts = list[tuple[int, Record]](), list[Event](), list[Record]()
    for source in draw(st.sampled_from(["pq", "pqr"])):
        unc, clock = draw(st.sampled_from([3, 2 * UNIT])), Clock(draw(st.integers(-20, 20)) * UNIT)
        if source == "p":
            by = draw(st.sampled_from([-1, 1])) * draw(st.integers(10, 60)) * UNIT
            clock = Clock(clock.offset, clock.offset + by, draw(st.integers(1, SPAN)))
        moments = [0] * draw(st.integers(1, 2))
        if source == "p":
            moments.append(draw(st.integers(clock.step, 2 * SPAN)))
            moments += draw(st.lists(st.integers(1, 2 * SPAN), max_size=more_syncs))
        for n, moment in enumerate(moments):
            truth = clock.offset if moment < clock.step else clock.after
            off = truth + draw(st.integers(2 - unc, unc - 2))
            sync = {"kind": "sync", "source": source, "ts": clock.stamp(moment), "offset": off,
                    "delay": 2 * unc, "skew_error_ppb": 1}  # fmt: skip
            if n:
                records.append((arriving(draw), sync))
            else:
                firsts.append(sync)
        records += _happened(draw, source, clock, types, long, events)
    return _world(firsts, records, events)


def _world(firsts: list[Record], records: list[tuple[int, Record]], events: list[Event]) -> World:
    records.sort(key=lambda pair: pair[0])
    return World([*firsts, *(record | {"arrival": at} for at, record in records)], events)


BARRIERS = ("immediate", "hold:50ms", "bounded:1ms")
SPILLS = st.builds(
    SpillSettings, st.none(), st.sampled_from([None, UNIT, 20 * UNIT]), st.just(5 * UNIT),
    st.integers(1, 4), st.sampled_from([0, 10**6, 10**7]),
)  # fmt: skip
WRONG = {
    "refuted": refuted_worlds, "stepped": stepped_worlds,
    "overtaken": partial(stepped_worlds, more_syncs=3),
}  # fmt: skip
TYPES = {"pair": "AB", "repetition": "AAB", "difference": "AB", "ISEQ": "AB"}
SPILLED = (
    "pair", "negation", "repetition", "ISEQ contains", "ISEQ without", "tree", "repeated intervals",
)  # fmt: skip
CASES = [*((form, False) for form in PATTERNS), *((form, True) for form in SPILLED)]


@settings(max_examples=20, deadline=None)
@given(
    data=st.data(), case=st.sampled_from(CASES), kind=st.sampled_from(list(WRONG)),
    order=st.sampled_from(ORDERS), rule=st.sampled_from(["pairwise", "max-delay"]),
    barrier=st.sampled_from(BARRIERS),
)  # fmt: skip
def test_what_is_judged_again_does_not_depend_on_how_the_log_is_cut(
    data: st.DataObject, case: tuple[str, bool], kind: str, order: str, rule: str, barrier: str
) -> None:
    form, spills = case
    text, _, long = PATTERNS[form]
    records = data.draw(WRONG[kind](TYPES.get(form, "ABC"), long)).records
    spill = data.draw(SPILLS) if spills else None
    one, other = (
        changes(
            text.format(40), records, order, 10**9, at_once=at_once, certainty=rule, spill=spill,
            barrier=parse_barrier(barrier),
        )
        for at_once in (False, True)
    )  # fmt: skip
    assert one == other


FIRST, *OTHERS = WRONG


@pytest.mark.parametrize(("form", "spills"), CASES)
@pytest.mark.parametrize(
    "kind", [FIRST, *(pytest.param(each, marks=pytest.mark.slow) for each in OTHERS)]
)
@settings(max_examples=6, deadline=None)
@given(
    data=st.data(), within=st.sampled_from([10, 40, 150]), order=st.sampled_from(ORDERS),
    rule=st.sampled_from(["pairwise", "max-delay"]), barrier=st.sampled_from(BARRIERS),
)  # fmt: skip
def test_no_match_rests_on_a_bound_that_was_refuted(
    kind: str, form: str, spills: bool, data: st.DataObject, within: int, order: str, rule: str,
    barrier: str,
) -> None:  # fmt: skip
    text, truth, long = PATTERNS[form]
    world = data.draw(WRONG[kind](TYPES.get(form, "ABC"), long))
    spill = data.draw(SPILLS) if spills else None
    asked = {"certainty": rule, "guard": 10**9, "spill": spill, "barrier": parse_barrier(barrier)}
    found = found_matches(text.format(within), world, order, **asked)
    true = set(truth(within)(world.events))
    assert {match for match, certainty in found.items() if certainty == "confirmed"} <= true
    assert true <= set(found)


def test_a_step_leaves_what_was_stamped_before_the_sync_before_it_as_it_is() -> None:
    """An offset of 3 us and then one of 1 us: the clock was set between the two syncs."""
    world = World(
        [
            {"kind": "sync", "source": "p", "ts": 0, "offset": 3000, "delay": 6},
            {"kind": "sync", "source": "q", "ts": 0, "offset": 0, "delay": 6},
            *({"source": "p", "type": "A", "ts": ts, "attrs": {"n": ts}} for ts in (-2000, 2000)),
            {"kind": "sync", "source": "p", "ts": 999_000, "offset": 1000, "delay": 6},
            {"source": "q", "type": "B", "ts": 9000, "attrs": {"n": 9000}},
        ],
        [],
    )
    for order in ORDERS:
        found = found_matches("EVENT SEQ(A a, B b) WITHIN 1 ms", world, order)
        assert found == {(-2000, 9000): "confirmed", (2000, 9000): "confirmed"}
    found = found_matches("EVENT SEQ(A a, B b) WITHIN 6 us", world, "none")
    assert found == {(2000, 9000): "uncertain"}  # at 5 us, or at 3 us


@pytest.mark.parametrize("by", [pytest.param(-40, marks=pytest.mark.slow), 40])
@pytest.mark.parametrize(("form", "until"), [("pair", 105), ("pair", 1000), ("negation", 1000)])
@pytest.mark.parametrize("when", ["before", "between", "after"])
def test_a_clock_that_was_set_is_not_trusted_in_whatever_order_its_syncs_come(
    by: int, form: str, until: int, when: str
) -> None:
    """At 75 clock p is set by 40, and perhaps back at 105. Three syncs lie around these."""
    text, events, records = PATTERNS[form][0].format(100), list[Event](), list[Record]()

    def offset(true: int) -> int:
        return by * UNIT if 75 <= true < until else 0

    for place in range(0, 160, 13):
        source, true = "pq"[place % 2], place + 4
        ts, at = true * UNIT - offset(true) * (source == "p"), Fraction(true * UNIT)
        events.append(Event(len(events), "ABAACB"[len(events) % 6], ts, at, at))
        records.append({"source": source, "type": events[-1].type, "ts": ts,
                        "attrs": {"n": events[-1].number}, "arrival": 10**9})  # fmt: skip
    first, *syncs = [
        {"kind": "sync", "source": "p", "ts": true * UNIT - offset(true), "delay": 6,
         "offset": offset(true), "arrival": 10**9 * (true > 0)} for true in (0, 60, 90, 120)
    ]  # fmt: skip
    matches = set(PATTERNS[form][1](100)(events))
    for some in itertools.permutations(syncs):
        place = {"before": 3, "between": 2, "after": 0}[when]
        log = [first, first | {"source": "q"}, *some[:place], *records, *some[place:]]
        found = found_matches(text, World(log, []), "none")
        assert {match for match, certainty in found.items() if certainty == "confirmed"} <= matches
        assert matches <= set(found)


@pytest.mark.parametrize("at_once", [False, True])
def test_an_event_that_waits_while_its_bound_is_refuted_errs_by_that_from_then_on(
    at_once: bool,
) -> None:
    """B waits for its turn with what is in chunks; its match must be taken back as it was given."""
    records = [
        {"kind": "sync", "source": "p", "ts": 0, "offset": 46003, "delay": 6, "skew_error_ppb": 1},
        {"kind": "sync", "source": "q", "ts": 0, "offset": 18916, "delay": 4000,
         "skew_error_ppb": 1},
        {"source": "q", "type": "A", "ts": 181_000, "arrival": 30_000_000, "attrs": {"n": 0}},
        {"source": "p", "type": "B", "ts": 182_000, "arrival": 40_000_000, "attrs": {"n": 1}},
        {"source": "p", "type": "D", "ts": 40_984_279, "arrival": 41_000_000, "attrs": {"n": 2}},
        {"source": "p", "type": "D", "ts": 77_993_846, "arrival": 78_000_000, "attrs": {"n": 3}},
    ]  # fmt: skip
    given_ = changes(
        "EVENT SEQ(A a, B b) WITHIN 40 us", records, guard=10**9, at_once=at_once,
        spill=SpillSettings(None, None, 5 * UNIT, 3, 10**6),
    )  # fmt: skip
    known = [(each["op"], each["certainty"], each["probability"]) for each in given_]
    (first, is_, sure), (back, *was), (_, *now) = known
    assert (first, back, is_) == ("+", "-", "uncertain")
    assert was == [is_, sure] != now


@st.composite
def contradicted_worlds(draw: st.DrawFn) -> World:
    """Clock p runs off by up to 400 ppm, of which its syncs state 0, or nothing. Its events happen
    between two syncs; what is known of the second may come before or after them.
    """
    seconds, records, events = 10**6 * UNIT, list[tuple[int, Record]](), list[Event]()
    firsts = list[Record]()
    stated = draw(st.sampled_from([{"skew_error_ppb": 0}, {}]))
    for source in "pq":
        rate = draw(st.integers(-400, 400)) * 1000 if source == "p" else 0
        unc, true = draw(st.sampled_from([3, 2 * UNIT])), draw(st.integers(-20, 20)) * UNIT
        least = 0 if source == "p" else -60 * UNIT
        stamps = [draw(st.integers(least, SPAN)) * UNIT for _ in range(draw(st.integers(1, 5)))]
        for ts in (0, seconds):
            off = round(true + Fraction(rate * ts, PPB)) + draw(st.integers(2 - unc, unc - 2))
            sync = {"kind": "sync", "source": source, "ts": ts, "offset": off, "delay": 2 * unc,
                    **stated}  # fmt: skip
            if ts:
                records.append((draw(st.integers(0, 100)), sync))
            else:
                firsts.append(sync)
        for place in stamps:
            # Near the end of the second, where the clock is off by all that it ran.
            ts = seconds - SPAN * UNIT + place
            ts = min(ts, seconds - 1) if source == "p" else ts
            number, at = len(events), ts + true + Fraction(rate * ts, PPB)
            events.append(Event(number, draw(st.sampled_from("ABC")), ts, at, at))
            record = {"source": source, "type": events[-1].type, "ts": ts,
                      "attrs": {"n": number, "v": 2**number}}  # fmt: skip
            records.append((draw(st.integers(0, 100)), record))
    records.sort(key=lambda pair: pair[0])
    return World([*firsts, *(record for _, record in records)], events)


@pytest.mark.parametrize("form", ["pair", "negation", "repetition", "ISEQ"])
@settings(max_examples=8, deadline=None)
@given(world=contradicted_worlds(), order=st.sampled_from(ORDERS))
def test_no_match_rests_on_a_rate_that_syncs_contradict(
    form: str, world: World, order: str
) -> None:
    """How long something lasts by that clock alone still counts by the rate that was stated."""
    text, truth, _ = PATTERNS[form]
    found = found_matches(text.format(10**6), world, order)
    true = set(truth(10**6)(world.events))
    assert {match for match, certainty in found.items() if certainty == "confirmed"} <= true


def test_a_rate_of_0_that_syncs_contradict_is_named_and_grows() -> None:
    """100 ppm in 10 s are 1 ms; the syncs are right within 1 us."""
    chain = answering("EVENT SEQ(A a, B b) WITHIN 1 s")
    syncs = [{"kind": "sync", "source": source, "ts": n * 10**10, "arrival": n * 10**10,
              "offset": n * 10**6 * (source == "p"), "delay": 2000, "skew_error_ppb": 0}
             for n in range(2) for source in "pq"]  # fmt: skip
    chain.process([frame(syncs)])
    (said,) = of_refuted_clocks({"sites": {"main": chain.counters()}})
    assert said.startswith(
        "clock p: its offset moved between syncs by 99.8 ppm, where 0 ppm are stated"
    )
    assert "State a skew_error_ppb of 99800 or more" in said
    later = [
        {"source": source, "type": kind, "seq": 0, "ts": ts, "arrival": 2 * 10**10}
        for source, kind, ts in (("q", "A", 2 * 10**10), ("p", "B", 2 * 10**10 - 500_000))
    ]
    (match,) = chain.process([frame(later)]).results[0]  # 0.5 ms apart, and p errs by 1 ms
    assert match["certainty"] == "uncertain"
    remedied = answering("EVENT SEQ(A a, B b) WITHIN 1 s")
    remedied.process([frame([sync | {"skew_error_ppb": 99_800} for sync in syncs])])
    assert of_refuted_clocks({"sites": {"main": remedied.counters()}}) == []


def answering(text: str) -> Chain:
    return Chain(ChainSettings(parse_order("none"), (query(text),), guards=Guards(None)), "main")


LENGTHS: dict[str, Callable[[Event], bool]] = {
    "te - ts >= 20 us": lambda event: event.end - event.start >= 20 * UNIT,
    "NOT ts + 20 us > te": lambda event: event.end - event.start >= 20 * UNIT,
    "te - ts NOT BETWEEN 5 us AND 20 us": lambda event: (
        not (5 * UNIT <= event.end - event.start <= 20 * UNIT)
    ),
    "abs(te - ts - 20 us) < 5 us": lambda event: 15 * UNIT < event.end - event.start < 25 * UNIT,
    "te - ts > 9 us AND (2 * te - ts < 90 us OR ref > 100 us)": lambda event: (
        event.end - event.start > 9 * UNIT
        and (2 * event.end - event.start < 90 * UNIT or event.start > 100 * UNIT)
    ),
}


@settings(max_examples=25, deadline=None)
@given(
    data=st.data(), steps=st.booleans(), size=st.sampled_from([7, 50]),
    order=st.sampled_from(ORDERS), where=st.sampled_from(list(LENGTHS)),
)  # fmt: skip
def test_windows_bound_what_lasts_as_a_condition_says(
    data: st.DataObject, steps: bool, size: int, order: str, where: str
) -> None:
    """An interval counts where it ends."""
    world = data.draw(stepped_worlds(long=40) if steps else worlds(long=40))
    text = f"SELECT count(*) AS n WHERE {where} WINDOW TUMBLING {size} us"
    rows = {row["window"]["start"]: row for row in answers(text, world.records, order=order)}
    true = dict[int, int]()
    for event in filter(LENGTHS[where], world.events):
        start = int(event.end // (size * UNIT)) * size * UNIT
        true[start] = true.get(start, 0) + 1
    assert steps or set(true) <= set(rows)  # a step may be found when its windows are gone
    for start, row in rows.items():
        low, high = row["bounds"]["n"]
        assert row["certain"] <= true.get(start, 0)
        assert low is None or low <= true.get(start, 0) <= high


@pytest.mark.parametrize("window", ["TUMBLING 500 us", "SESSION 500 us", "ROWS 1"])
def test_no_bound_rests_on_how_long_events_last_by_a_clock_that_errs(window: str) -> None:
    """By this clock 20 us are 19 to 21."""
    lasting = {"most": "max(te - ts)", "all": "sum(te - ts)", "mean": "avg(te - ts)",
               "least": "min(2 * ts)", "more": "sum(te - ts) + count(*)"}  # fmt: skip
    as_stamped = {"stamped": "sum(raw_te - raw_ts)", "n": "count(te - ts)"}
    asked = ", ".join(f"{text} AS {name}" for name, text in {**lasting, **as_stamped}.items())
    sync = {"kind": "sync", "source": "p", "ts": 0, "offset": 0, "delay": 6,
            "skew_error_ppb": RATES[-1]}  # fmt: skip
    event = {"source": "p", "type": "A", "ts": 100 * UNIT, "te": 120 * UNIT}
    (row,) = answers(f"SELECT {asked} WINDOW {window}", [sync, event])
    assert row["value"]["mean"] == row["value"]["stamped"] == 20 * UNIT
    assert row["bounds"] == {"stamped": [20 * UNIT] * 2, "n": [1, 1]}


WINDOWS = ("TUMBLING 7 us", "TUMBLING 50 us", "SLIDING 40 us EVERY 10 us", "ROWS 2", "SESSION 9 us")


@pytest.mark.parametrize("order", ORDERS)
def test_once_a_bound_is_refuted_a_nanosecond_refutes_it_again(order: str) -> None:
    """Clock p is 3 us ahead. An event that took 952 ns shows 2,048 of it; one that took none, the
    rest, which is less than what refutes a bound that held so far.
    """
    records = [{"kind": "sync", "source": "p", "ts": 0, "offset": 3003, "delay": 6}] + [
        {"source": "p", "type": "D", "ts": ts, "attrs": {"v": 1}, "arrival": arrival}
        for ts, arrival in ((999_048, 10**6), (2 * 10**6, 2 * 10**6))
    ]
    text = "SELECT count(*) AS n WINDOW TUMBLING 50 us"
    found = answers(text, records, order=order, guard=10**9)
    assert [each["window"]["start"] for each in found if each["value"]["n"]] == [10**6, 2 * 10**6]
    assert not any(each["certain"] for each in found)


@settings(max_examples=25, deadline=None)
@given(
    world=refuted_worlds() | stepped_worlds(), window=st.sampled_from(WINDOWS),
    order=st.sampled_from(ORDERS),
)  # fmt: skip
def test_no_window_bound_rests_on_a_bound_that_was_refuted(
    world: World, window: str, order: str
) -> None:
    text = f"SELECT count(*) AS n, sum(v) AS s WINDOW {window}"
    standing = answers(text, world.records, order=order, guard=10**9)
    groups = {sum(2**event.number for event in group) for group in _groups(world.events, window)}
    for row in standing:
        if window.startswith(("ROWS", "SESSION")):
            assert row["certainty"] == "uncertain" or row["value"]["s"] in groups
            continue
        start, end = row["window"]["start"], row["window"]["end"]
        inside = [event for event in world.events if start <= event.start < end]
        assert row["certain"] <= len(inside)
        numbers = {"n": len(inside)} | ({"s": sum(2**e.number for e in inside)} if inside else {})
        for name, value in numbers.items():
            low, high = row["bounds"][name]
            assert low is None or low <= value <= high


def _groups(events: list[Event], window: str) -> Iterator[list[Event]]:
    """Rows of two, or sessions."""
    in_order, size = sorted(events, key=lambda event: event.start), int(window.split()[1])
    if window.startswith("ROWS"):
        yield from (in_order[n : n + size] for n in range(0, len(in_order), size))
        return
    session = list[Event]()
    for event in in_order:
        if session and event.start - session[-1].start >= size * UNIT:
            yield session
            session = []
        session.append(event)
    yield session
