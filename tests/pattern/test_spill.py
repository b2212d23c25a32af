"""Spilling: late events are looked at later, and in the end the answer is the same."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.barrier.registry import parse_barrier
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.released import IN_ORDER, LATE, Strings
from slackwater.engine.hosts.chain.state_bytes import from_bytes, to_bytes
from slackwater.engine.operators.match.compiler.tables import layout_of
from slackwater.engine.operators.match.seq import Alone, SeqMatcher
from slackwater.engine.operators.match.spill.bounds import SpillSettings, keys_of
from slackwater.engine.operators.match.spill.chunks import FileChunks
from slackwater.engine.operators.match.spill.matcher import Spilling
from slackwater.engine.query import query
from slackwater.engine.query.pattern_settings import PatternSettings
from slackwater.engine.query.plan import Attribute, Comparison, OrPlan, SeqPlan, WindowPlan
from tests.pattern.conftest import plan

END = 10**6


def net(results: list[dict[str, Any]]) -> Counter[Any]:
    """``+`` minus ``-``, with all that a result says but for when it came."""
    found: Counter[Any] = Counter()
    for r in results:
        key = (tuple(e["seq"] for e in r["events"]), r["certainty"], r["probability"],
               r["known_at"], str([e["attrs"] for e in r["events"]]))  # fmt: skip
        found[key] += 1 if r["op"] == "+" else -1
    assert set(found.values()) <= {0, 1}
    return +found


EVENT = {
    "type": st.sampled_from("AABBNM"), "ref": st.integers(0, 60),
    "unc": st.sampled_from([0, 0, 1, 4]), "source": st.sampled_from(["s0", "s1"]),
    "epoch": st.sampled_from([-1, 0]), "status": st.sampled_from([IN_ORDER] * 2 + [LATE]),
    "attrs": st.fixed_dictionaries({}, optional={
        "k": st.sampled_from([1, 2, 1.0, 0, -0.0]), "v": st.integers(0, 3),
        "f": st.sampled_from([1, 0.5, 2.0]),
        "t": st.sampled_from("xy"),
    }),
}  # fmt: skip
SHAPES = ["a b", "a !n b", "!n a b", "a b !n", "!n a !m", "a !n b !m", "!m a !n b !n2", "a !n"]
BARRIERS = [
    f"{name}{ordered}"
    for name in ("immediate", "punctuation", "bounded:0", "bounded:4", "hold:3", "adaptive")
    for ordered in ("", ",ordered")
]
POG = st.tuples(
    st.integers(0, 30), st.sampled_from([None, "A", "B", "N", "M"]),
    st.sampled_from([None, None, "s0", "s1"]), st.integers(0, 70),
)  # fmt: skip


WRITTEN = {
    "or": "SEQ(A a, OR(B b, SEQ(M m, B c)), A d) WHERE a.k = d.k",
    "or with a key": "SEQ(A a, OR(B b, SEQ(A c, !N n)), M m) "
    "WHERE a.k = m.k AND b.k = a.k AND n.k = m.k AND c.k = a.k",
    "and": "SEQ(A a, AND(B b, M m)) WHERE a.k = b.k AND b.k = m.k",
    "not or": "SEQ(A a, !OR(N n, M m), B b) WHERE a.v = b.k AND n.v = a.v AND m.f = b.k",
    "returned": "SEQ(A a, !N n, B b) RETURN a.k + b.k AS sum",
    "functions": "SEQ(A a, !N n, B b) WHERE a.k = b.k AND n.k = a.k AND n.t LIKE 'x%' "
    "AND (upper(a.t) = upper(b.t) OR abs(a.v - b.v) < 2) AND coalesce(a.v, b.v, 0) >= 0",
    "keys of two names": "SEQ(A a, B b) WHERE a.k = b.f",
    "text": "SEQ(!N n, A a, B b) WHERE a.t = b.t AND n.t = a.t AND a.k = b.k AND n.k = a.k",
}


def joined(text: str, within: int, join: str) -> SeqPlan | OrPlan:
    if join in WRITTEN:
        pattern, returned, more = WRITTEN[join].partition(" RETURN")
        made = query(f"EVENT {pattern} WITHIN {within or 1}{returned}{more}")
        assert not isinstance(made, WindowPlan)
        return made
    bare = plan(text, within)
    names = [step.alias for step in bare.steps]
    positive = [step.alias for step in bare.steps if not step.negated]
    if join == "keys":
        return plan(text, within, equalities=(tuple(Attribute("k", name) for name in names),))
    if join == "values" and len(names) > 1:
        other = next(name for name in names if name != positive[0])
        asked = Comparison("<=", Attribute("v", other), Attribute("f", positive[0]))
        return plan(text, within, others=(asked,))
    return bare


@given(
    data=st.data(), text=st.sampled_from(SHAPES), within=st.sampled_from([0, 3, 8]),
    join=st.sampled_from(["none", "keys", "values", "keys", *WRITTEN]),
    barrier=st.sampled_from(BARRIERS),
    rule=st.sampled_from(["pairwise", "max-delay-r19"]), keep=st.sampled_from([0, 10, 1000]),
    t_a=st.sampled_from([0, 5]), hot=st.sampled_from([None, 1, 2, 5, 8, 16, 30]),
    chunk=st.integers(1, 20), pending=st.integers(1, 5), wait=st.integers(0, 20),
    parts=st.sampled_from([None, 1, 2, 5]), emitted=st.booleans(),
)  # fmt: skip
@settings(max_examples=50, deadline=None)
def test_the_net_result_is_that_without_spill(
    tools: Any, data: st.DataObject, text: str, within: int, join: str, barrier: str, rule: str,
    keep: int, t_a: int, hot: int | None, chunk: int, pending: int, wait: int, parts: int | None,
    emitted: bool,
) -> None:  # fmt: skip
    made = joined(text, within, join)
    events = data.draw(st.lists(st.builds(tools.Event, **EVENT), max_size=30))
    pogs, steps = None, []
    if emitted:
        pogs = sorted(
            ((min(row, len(events)), *more) for row, *more in data.draw(st.lists(POG, max_size=4))),
            key=lambda pog: pog[0],
        )
    else:
        step = st.tuples(st.integers(0, len(events)), st.integers(0, 80))
        steps = [(row, *more, row) for row, *more in sorted(data.draw(st.lists(step, max_size=2)))]
    bounds = PatternSettings(rule, keep_late_ns=keep)
    has_key = bool(keys_of(layout_of(made)))
    spill = SpillSettings(None, hot, chunk, pending, wait, parts if has_key else None)

    def spilling(spill: SpillSettings = spill) -> Spilling:
        return Alone(Spilling(made, bounds).spill_to(spill), parse_barrier(barrier))

    more = {"t_a": t_a, "steps": steps, "pogs": pogs, "end": END}
    plain = tools.run(
        lambda: Alone(SeqMatcher(made, bounds), parse_barrier(barrier)), events, **more
    )
    whole = tools.run(spilling, events, **more)
    assert net(whole) == net(plain)
    assert [r["at"] for r in whole] == sorted(r["at"] for r in whole)
    cuts = data.draw(st.lists(st.integers(0, len(events)), max_size=4))
    assert tools.run(spilling, events, cuts, **more) == whole
    if has_key:
        again = replace(spill, parts=1 if (parts or 2) > 1 else 3)
        assert tools.run(lambda: spilling(again), events, **more) == whole


def late_stream(tools: Any, n: int, types: str = "AABBNM") -> list[Any]:
    """A third of the events up to 60 late."""
    chance, now, events = random.Random(n), 0, []
    for _ in range(n):
        now += chance.randint(0, 3)
        late = chance.random() < 0.3
        events.append(
            tools.Event(
                chance.choice(types),
                now - chance.randint(1, 60) if late else now,
                unc=chance.choice([0, 0, 1]),
                source=chance.choice(["x", "y"]),
                status=LATE if late else IN_ORDER,
                attrs={"k": chance.randint(1, 2)},
            )
        )
    return events


SMALL = SpillSettings(None, 16, 4, pending=3, wait_ns=25)


def test_memory_is_bounded_by_what_is_hot(tools: Any) -> None:
    events = late_stream(tools, 600)
    bounds = PatternSettings(keep_late_ns=10**6)
    held = {}
    for name, make in (
        ("plain", lambda: SeqMatcher(plan("a b", 8), bounds)),
        ("spill", lambda: Spilling(plan("a b", 8), bounds).spill_to(SMALL)),
    ):
        operators: list[SeqMatcher] = []

        def made(make: Any = make, operators: list[SeqMatcher] = operators) -> SeqMatcher:
            operators.append(make())
            return operators[-1]

        tools.run(made, events, range(0, 600, 100))
        held[name] = max(operator.counters()["buffered_max"] for operator in operators)
    assert held["plain"] >= 400
    assert held["spill"] <= 120


def test_a_batch_that_is_full_goes_at_once_one_that_is_not_when_its_time_is_over(
    tools: Any,
) -> None:
    event = tools.Event
    past = [event("A", 1), event("F", 30), event("F", 31)]
    spill = SpillSettings(None, 10, 5, pending=2, wait_ns=10)

    def at(events: list[Any]) -> list[tuple[int, int]]:
        found = tools.run(
            lambda: Spilling(plan("a b", 4), PatternSettings(keep_late_ns=100)).spill_to(spill),
            events, end=END,
        )  # fmt: skip
        return [(r["at"], r["events"][1]["ref"]) for r in found]

    late = [event("B", 2, status=LATE), event("B", 3, status=LATE)]
    assert at([*past, late[0], event("F", 32), late[1]]) == [(5, 2), (5, 3)]
    # B came at 3, and at 13 others go first.
    after = [event("F", 32, release=13), event("B", 3, status=LATE, release=20)]
    assert at([*past, late[0], *after]) == [(13, 2), (30, 3)]
    assert at([*past, late[0]]) == [(13, 2)]


@pytest.mark.parametrize(
    ("text", "kinds"), [("SEQ(A a, !N n, B b)", "ANB"), ("SEQ(!N n, A a, B b)", "NAB")]
)
@pytest.mark.parametrize("late", [0, 1, 2])
def test_any_event_of_a_match_may_come_late(tools: Any, text: str, kinds: str, late: int) -> None:
    """The negated one takes back the match that stood without it; behind it none is found."""
    made = query(f"EVENT {text} WITHIN 8")
    events = [tools.Event(kind, ref) for ref, kind in enumerate(kinds, 1)]
    last = tools.replace(events.pop(late), status=LATE)
    found = tools.run(
        lambda: Spilling(made, PatternSettings(keep_late_ns=100)).spill_to(SMALL),
        [*events, tools.Event("F", 60), last], end=END,
    )  # fmt: skip
    assert [r["op"] for r in found] == (["+", "-"] if kinds[late] == "N" else [])


def test_files_hold_what_memory_does_not_and_go_in_the_end(tools: Any, tmp_path: Path) -> None:
    made, bounds = plan("a !n b", 8), PatternSettings(keep_late_ns=1000)
    events = late_stream(tools, 120)
    files = SpillSettings(tmp_path, 16, 4, pending=3, wait_ns=25)
    in_memory = tools.run(lambda: Spilling(made, bounds).spill_to(SMALL), events)
    operator = Alone(Spilling(made, bounds, site="a/../b").spill_to(files))
    strings, found = Strings(), []
    for start in range(0, 120, 20):
        found += operator.process(tools.batch(events, strings, start, start + 20))
        found += operator.advance(start + 19)
    there = list(tmp_path.rglob("*.arrow"))
    assert len(there) >= operator.counters()["chunks"] > 3
    found += operator.finish(10**9)
    strip = [{k: v for k, v in r.items() if k not in ("site", "events")} for r in found]
    assert strip == [{k: v for k, v in r.items() if k not in ("site", "events")}
                     for r in in_memory]  # fmt: skip
    assert not list(tmp_path.iterdir())


def test_what_has_expired_is_deleted(tools: Any, tmp_path: Path) -> None:
    files = SpillSettings(tmp_path, 16, 4)
    settings = PatternSettings(keep_late_ns=50)
    operator = Alone(Spilling(plan("a b", 8), settings).spill_to(files))
    strings = Strings()
    events = [tools.Event("A", ref) for ref in range(600)]
    for start in range(0, 600, 20):
        operator.process(tools.batch(events, strings, start, start + 20))
        assert len(list(tmp_path.rglob("*.arrow"))) <= 20
    assert operator.counters()["spilled"] > 500


def test_restored_it_goes_on_with_the_chunks_of_that_time(tools: Any, tmp_path: Path) -> None:
    made, bounds = plan("a !n b", 8), PatternSettings(keep_late_ns=1000)
    events, files = late_stream(tools, 200), SpillSettings(tmp_path, 16, 4, 3, 25)
    strings = Strings()
    batches = [tools.batch(events, strings, start, start + 20) for start in range(0, 200, 20)]
    operator = Alone(Spilling(made, bounds).spill_to(files))
    whole, emitted = [], []
    for released in batches[:5]:
        operator.process(released)
    saved = to_bytes(operator.snapshot())
    for released in batches[5:]:
        whole += operator.process(released)
    again = Alone(Spilling(made, bounds).spill_to(files))
    again.restore(from_bytes(saved))
    for released in batches[5:]:
        emitted += again.process(released)
    assert emitted == whole != []
    again.finish(10**9)


def test_files_of_the_two_last_snapshots_stay(tmp_path: Path) -> None:
    chunks = FileChunks(tmp_path / "q")
    saved = []
    for number in range(5):
        chunks.put(number, f"{number}!".encode())
        if number:
            chunks.delete(number - 1)
        saved.append(chunks.snapshot())
    assert sorted(path.name for path in (tmp_path / "q").iterdir()) == ["3.arrow", "4.arrow"]
    chunks.put(8, b"new")
    chunks.delete(8)
    chunks.put(9, b"newer")
    again = FileChunks(tmp_path / "q")
    again.restore(saved[-2])
    assert again.get(3) == b"3!"
    assert [path.name for path in (tmp_path / "q").iterdir()] == ["3.arrow"]


# ---- parts of the keys ------------------------------------------------------------------------


def results_of(found: list[dict[str, Any]]) -> set[tuple[Any, ...]]:
    assert {result["op"] for result in found} <= {"+"}
    return {tuple(event["seq"] for event in result["events"]) for result in found}


def test_windows_larger_than_memory(tools: Any) -> None:
    """Every event waits, a part of WITHIN is loaded at a time, and memory holds little of it."""
    chance, made = (
        random.Random(3),
        query("EVENT SEQ(A a, !C c, B b) WHERE a.k = b.k AND c.k = a.k WITHIN 1000"),
    )
    events = [
        tools.Event(chance.choice("ABC"), now, attrs={"k": chance.randrange(400)})
        for now in range(1500)
    ]
    operators: list[SeqMatcher] = []

    def spilling(spill: SpillSettings | None) -> SeqMatcher:
        bounds = PatternSettings(keep_late_ns=0)
        operators.append(
            SeqMatcher(made, bounds) if spill is None else Spilling(made, bounds).spill_to(spill)
        )
        return operators[-1]

    def most(spill: SpillSettings | None) -> tuple[Any, int]:
        operators.clear()
        found = tools.run(lambda: spilling(spill), events, range(0, 1500, 150))
        return results_of(found), max(operator.counters()["buffered_max"] for operator in operators)

    plain, all_of_them = most(None)
    assert all_of_them >= 900
    assert len(plain) > 100
    for parts, at_most in ((1, 450), (None, 450)):
        found, held = most(SpillSettings(None, 50, parts=parts))
        assert found == plain
        assert held <= at_most
    whole, _ = most(SpillSettings(None, 50, pending=10**6, wait_ns=10**6))
    assert whole == plain


def test_queries_that_cannot_spill() -> None:
    with pytest.raises(UserError, match="needs WITHIN"):
        Spilling(plan("a b")).spill_to(SMALL)
    for text in ("a b", "a !n b"):
        with pytest.raises(UserError, match="parts=2 needs one key that all its events share"):
            Spilling(plan(text, 10)).spill_to(SpillSettings(parts=2))
    with pytest.raises(UserError, match="with purge 'late' alone"):
        Spilling(plan("a b", 10), PatternSettings(purge="slack")).spill_to(SMALL)
