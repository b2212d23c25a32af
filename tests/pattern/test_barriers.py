"""Barriers: the papers' examples first, then what SPEC 4.2 says of every small stream, any cut."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.barrier.registry import parse_barrier
from slackwater.engine.core.released import IN_ORDER, LATE
from slackwater.engine.operators.match.seq import Alone, SeqMatcher
from slackwater.engine.query import query
from slackwater.engine.query.pattern_settings import PatternSettings
from slackwater.engine.query.plan import OrPlan, SeqPlan, WindowPlan
from tests.pattern.conftest import FIG, plan

END = 10**6


def stream(tools: Any, text: str) -> tuple[list[Any], list[Any]]:
    """Events and punctuations: ``c10!`` promises that no C below 10 follows."""
    words, events, pogs = text.split(), list[Any](), list[Any]()
    for word in words:
        if word.endswith("!"):
            pogs.append((len(events), word[0].upper(), None, int(word[1:-1])))
        else:
            events.append(tools.Event(word[0].upper(), int(word[1:])))
    return events, pogs


def emitted(tools: Any, made: SeqPlan | OrPlan, barrier: str, text: str) -> str:
    """``+3,6,10 @f16``: what came, and the row at whose instant (``end`` of the input)."""
    events, pogs = stream(tools, text)
    words = [word for word in text.split() if not word.endswith("!")]
    results = tools.run(
        lambda: Alone(SeqMatcher(made), parse_barrier(barrier)), events, pogs=pogs, end=END
    )
    found = []
    for r in results:
        where = words[r["at"]] if r["at"] < len(words) else "end"
        found.append(f"{r['op']}{','.join(str(e['ref']) for e in r['events'])} @{where}")
    return ",".join(found)


@pytest.mark.parametrize(
    ("barrier", "events", "want"),
    [
        # L09 Example 5: a match waits for the promise of its negated type.
        ("punctuation", FIG.replace("f16", "d17 c10! f18"), "+3,6,10 @f18"),
        # A promise below the end of the scope, or of another type, says nothing.
        ("punctuation", FIG.replace("f16", "d17 c9! b20! f18"), "+3,6,10 @end"),
        # L10 Example 4.10: K is 6, and f16 closes the scope.
        ("bounded:6", FIG, "+3,6,10 @f16"),
        ("bounded:7", FIG, "+3,6,10 @end"),
        # What comes in time is filtered, what comes later is corrected.
        ("bounded:6", FIG.replace("d15", "c9 d15"), ""),
        ("bounded:6", FIG + " c9", "+3,6,10 @f16,-3,6,10 @c9"),
        # SPEC 4.2: the other levels on the stream of L10.
        ("immediate", FIG + " c9", "+3,6,10 @d10,-3,6,10 @c9"),
        ("punctuation", FIG + " c9 c10!", ""),
    ],
)
def test_examples_of_l09_and_l10(tools: Any, barrier: str, events: str, want: str) -> None:
    assert emitted(tools, plan("a b !c d", 10), barrier, events) == want


@pytest.mark.parametrize(
    ("text", "barrier", "events", "want"),
    [
        # An open end x: x + K <= clock, p >= x.
        ("a !n b", "bounded:3", "a1 b5 c7 c8", "+1,5 @c8"),
        ("a !n b", "punctuation", "a1 b5 n4! c6 n5! c7", "+1,5 @c7"),
        ("!n a b", "bounded:3", "a1 b5 c6", "+1,5 @b5"),
        ("!n a b", "bounded:5", "a1 b5 c6", "+1,5 @c6"),
        ("!n a b", "punctuation", "n1! a1 b5 c6", "+1,5 @b5"),
        # A closed end first + W: x + K < clock, p > x.
        ("a b !n", "bounded:3", "a1 b5 c14 c15", "+1,5 @c15"),
        ("a b !n", "punctuation", "a1 b5 n11! c6 n12! c7", "+1,5 @c7"),
        # No negation: at known-at. Several: the last to close.
        ("a b", "bounded:3", "a1 b5 c9", "+1,5 @b5"),
        ("a !n b !m", "bounded:0", "a1 b5 c11 c12", "+1,5 @c12"),
        ("a !n b !m", "punctuation", "a1 b5 m12! c6 n5! c7", "+1,5 @c7"),
        # hold: known-at + h; a record at that instant goes first.
        ("a !n b", "hold:2", "a1 b5 c6 n3 c7", ""),
        ("a !n b", "hold:2", "a1 b5 c6 c7 n3", "+1,5 @c7,-1,5 @n3"),
        ("a b", "hold:1", "a1 b5 c6 c7", "+1,5 @c6"),
        # ordered: by the last event's time, once nothing earlier can come.
        ("a b", "bounded:2,ordered", "a1 b7 b5 c8 c9", "+1,5 @b5,+1,7 @c9"),
        ("a b", "immediate,ordered", "a1 b7 b5 c8 a7! c9 b6! d9 b7! d9",
         "+1,5 @d9,+1,7 @d9"),
        ("a b !n", "bounded:0,ordered", "a1 b5 a2 b4 n12 c20", "+1,4 @n12,+1,5 @n12"),
    ],
)  # fmt: skip
def test_spec_4_2_table(tools: Any, text: str, barrier: str, events: str, want: str) -> None:
    assert emitted(tools, plan(text, 10), barrier, events) == want


@pytest.mark.parametrize(
    ("events", "want"),
    [
        # A with D waits for what is promised of N; C with D has no scope.
        ("c1 d5", "+1,5 @d5"), ("a1 d5 n5! f6", "+1,5 @f6"),
        ("a1 c2 d5 n5! f6", "+2,5 @d5,+1,5 @f6"),
    ],
)  # fmt: skip
def test_a_match_waits_for_the_scopes_of_its_own_branch_of_or(
    tools: Any, events: str, want: str
) -> None:
    made = query("EVENT SEQ(OR(SEQ(A a, !N n), C c), D d) WITHIN 10")
    assert not isinstance(made, WindowPlan)
    assert emitted(tools, made, "punctuation", events) == want


def test_a_promise_of_a_source_covers_its_types_and_a_type_needs_all_its_sources(
    tools: Any,
) -> None:
    def at(*pogs: tuple[str | None, str | None]) -> int:
        events = [
            tools.Event("N", 0, source="x"), tools.Event("N", 0, source="y"),
            tools.Event("A", 1, source="z"), tools.Event("B", 5, source="z"),
            *(tools.Event("F", 6, source="z") for _ in range(6)),
        ]  # fmt: skip
        said = [(4 + i, kind, source, 5) for i, (kind, source) in enumerate(pogs)]
        made = Alone(SeqMatcher(plan("a !n b", 10)), parse_barrier("punctuation"))
        (result,) = tools.run(lambda: made, events, pogs=said, end=END)
        return int(result["at"])

    assert at(("N", None)) == at((None, None)) == 4
    assert at((None, "x"), ("N", "y")) == at(("N", "y"), ("N", "x")) == 5
    assert at(("N", "x")) == at((None, "z"), ("N", "x")) == at(("A", None), ("A", "x")) == END


def test_broken_promises_are_counted_and_corrected(tools: Any) -> None:
    for barrier, text in (("bounded:1", "a1 b5 f6 n3 n4"), ("punctuation", "a1 b5 n5! n3 n4")):
        events, pogs = stream(tools, text)
        made = Alone(SeqMatcher(plan("a !n b", 10)), parse_barrier(barrier))
        results = tools.run(lambda made=made: made, events, pogs=pogs)
        assert [r["op"] for r in results] == ["+", "-"]
        counts = made.counters()
        names = ("promises_broken", "matches_corrected", "matches_held")
        assert [counts[name] for name in names] == [2, 1, 0]


def test_adaptive_waits_once_matches_are_often_taken_back(tools: Any) -> None:
    spoilt = " ".join(f"a{t} b{t + 2} n{t + 1} n{t + 2}!" for t in range(0, 300, 10))
    calm = " ".join(f"a{t} b{t + 2} n{t + 2}!" for t in range(300, 3000, 10))
    events, pogs = stream(tools, f"{spoilt} {calm}")
    made = plan("a !n b", 5)
    results = tools.run(
        lambda: Alone(SeqMatcher(made), parse_barrier("adaptive")), events, (40, 41), pogs=pogs
    )
    taken = [r for r in results if r["op"] == "-"]
    assert 3 <= len(taken) < 12
    waited = [r["at"] > r["known_at"] for r in results if r["op"] == "+"]
    assert not any(waited[: len(taken)])
    assert waited[len(taken)]
    assert not waited[-1]


# ---- by definition --------------------------------------------------------------------------


def stands(changes: list[tuple[int, str | None]]) -> bool:
    """Whether a combination stands after the last of its changes."""
    return bool(changes) and changes[-1][1] is not None


@dataclass
class Slow:
    """SPEC 4.2 moment by moment: at each, everything is looked at again."""

    truth: Any
    barrier: str
    pogs: Sequence[Any] | None

    @property
    def name(self) -> str:
        return self.barrier.split(",")[0].split(":")[0]

    @property
    def span(self) -> int:
        return int(self.barrier.split(",")[0].partition(":")[2] or 0)

    @property
    def ordered(self) -> bool:
        return self.barrier.endswith(",ordered")

    def moments(self) -> list[tuple[int, int, int]]:
        """(instant, rows taken in, punctuations taken in), in order."""
        found = []
        said = 0
        pogs = self.pogs or []
        for row in range(len(self.truth.events) + 1):
            while said < len(pogs) and pogs[said][0] == row:
                said += 1
                found.append((row, row, said))
            if row < len(self.truth.events):
                found.append((row, row + 1, said))
        return found

    def promised(self, kind: str, rows: int, said: int) -> int:
        """The highest that ever was promised for a type."""
        best = -(10**18)
        if self.pogs is None:
            return max([best, *(e.ref for e in self.truth.events[:rows] if e.in_order)])
        for place in range(1, said + 1):
            seen = self.truth.events[: self.pogs[place - 1][0]]
            known = self.pogs[:place]
            senders = {e.source for e in seen if e.type == kind}
            senders |= {p[2] for p in known if p[1] == kind and p[2] is not None}
            everyone = {e.source for e in seen} | {p[2] for p in known if p[2] is not None}

            def least(source: str | None, known: Sequence[Any] = known) -> int:
                mine = [p[3] for p in known if p[2] == source and p[1] in (kind, None)]
                return max([-(10**18), *mine])

            of_all = min(map(least, senders or everyone), default=-(10**18))
            best = max(best, least(None), of_all)
        return best

    def clock(self, kind: str, rows: int, said: int) -> int:
        """What later records of a type are not below."""
        if self.name == "bounded":
            refs = [e.ref for e in self.truth.events[:rows]]
            return max(refs, default=-(10**18)) - self.span
        return self.promised(kind, rows, said)

    def closed(self, rows: tuple[int, ...], taken: int, said: int) -> bool:
        chosen = [self.truth.events[r] for r in rows]
        done = 0
        for step in self.truth.asked:
            done += not step.negated
            if not step.negated:
                continue
            clock = self.clock(step.type, taken, said)
            if done < len(chosen):
                if clock < chosen[done].ref:
                    return False
            elif clock <= chosen[0].ref + self.truth.within:
                return False
        return True

    def results(self) -> list[tuple[int, str, tuple[int, ...]]]:
        truth = self.truth
        matches = []
        for rows in truth.combinations():
            rank = [(truth.events[r].ref, truth.events[r].source, r) for r in rows]
            changes = truth.changes(rows)
            if stands(changes[:1]):
                matches.append((max(rows), rank, rows, dict(changes)))
        matches.sort(key=lambda match: match[:2])
        out: list[tuple[int, str, tuple[int, ...]]] = []
        given: set[tuple[int, ...]] = set()
        dead: set[tuple[int, ...]] = set()
        before = (-1, 0, 0)
        for at, taken, said in [*self.moments(), (END, len(truth.events), -1)]:
            for known, _, _, _ in matches:
                # Deadlines before this instant, when nothing more was known than before it.
                due = known + self.span
                if self.name == "hold" and before[0] <= due < at and known < before[1]:
                    out += self.leave(matches, given, dead, due, due, *before[1:], False)
            for _, _, rows, changes in matches:
                if taken > before[1] and changes.get(taken - 1, "") is None and rows not in dead:
                    dead.add(rows)
                    if rows in given:
                        out.append((at, "-", rows))
            past = at if said < 0 else at - 1
            out += self.leave(matches, given, dead, at, past, taken, said, said < 0)
            before = (at, taken, said)
        return out

    def leave(
        self, matches: list[Any], given: set[Any], dead: set[Any], at: int, past: int, taken: int,
        said: int, end: bool,
    ) -> Iterator[tuple[int, str, tuple[int, ...]]]:  # fmt: skip
        """What goes at one moment; ``past``: the last deadline that is over."""
        known = [m for m in matches if m[0] < taken and m[2] not in dead | given]
        if self.ordered:
            known.sort(key=lambda m: self.truth.events[m[2][-1]].ref)
        for row, _, rows, _ in known:
            due = end
            if self.name == "hold":
                due |= row + self.span <= past
            elif self.name == "immediate":
                due = True
            else:
                due = due or self.closed(rows, taken, said)
            if self.ordered and not end:
                last = self.truth.events[rows[-1]].ref
                kinds = [s.type for s in self.truth.asked if not s.negated]
                due &= all(self.clock(kind, taken, said) >= last for kind in kinds)
            if due:
                given.add(rows)
                yield at, "+", rows
            elif self.ordered:
                return


BARRIERS = [
    f"{name}{ordered}"
    for name in ("immediate", "punctuation", "bounded:0", "bounded:4", "hold:0", "hold:3")
    for ordered in ("", ",ordered")
]


def same(
    tools: Any, text: str, within: int, events: Any, pogs: Any, barrier: str, cuts: Any = ()
) -> Any:
    made, asked = plan(text, within), parse_barrier(barrier)

    def make() -> SeqMatcher:
        return Alone(SeqMatcher(made, PatternSettings(keep_late_ns=1000)), asked)

    truth = tools.Truth(text, within, events, lambda _: True, lambda *_: True, keep=1000)
    results = tools.run(make, events, cuts, pogs=pogs, end=END)
    found = [(r["at"], r["op"], tuple(e["seq"] for e in r["events"])) for r in results]
    assert found == sorted(found, key=lambda entry: entry[0])
    assert sorted(found) == sorted(Slow(truth, barrier, pogs).results()), barrier
    # SPEC 4.2: the net result of every barrier is that of the complete input.
    net = {key for _, op, key in found if op == "+"}
    net -= {key for _, op, key in found if op == "-"}
    assert net == {rows for rows in truth.combinations() if stands(truth.changes(rows))}
    return results


@pytest.mark.parametrize("barrier", BARRIERS)
def test_arrival_orders_of_a_small_stream(tools: Any, barrier: str) -> None:
    base = [
        tools.Event("A", 1, source="x"), tools.Event("B", 4, source="y"),
        tools.Event("N", 2, source="z"), tools.Event("F", 9), tools.Event("B", 5, source="y"),
    ]  # fmt: skip
    orders = list(itertools.permutations(base))
    for events in orders[BARRIERS.index(barrier) % 4 :: 4]:
        pogs = [(3, "N", None, 4), (4, "M", None, 6), (4, None, None, 4)]
        same(tools, "a !n b !m", 4, events, pogs, barrier)


EVENT = {
    "type": st.sampled_from("AABBNMF"), "ref": st.integers(0, 20),
    "source": st.sampled_from(["s1", "s0"]), "status": st.sampled_from([IN_ORDER] * 4 + [LATE]),
}  # fmt: skip
POG = st.tuples(
    st.integers(0, 9), st.sampled_from([None, "A", "B", "N", "M"]),
    st.sampled_from([None, None, "s0", "s1"]), st.integers(0, 24),
)  # fmt: skip


@given(
    data=st.data(),
    text=st.sampled_from(["a b", "a !n b", "!n a b", "a b !n", "a !n b !m", "a !n"]),
    within=st.sampled_from([3, 8, 30]), barrier=st.sampled_from(BARRIERS), told_=st.booleans(),
    in_order=st.booleans(),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_equals_the_definition_under_any_cut(
    tools: Any, data: st.DataObject, text: str, within: int, barrier: str, told_: bool,
    in_order: bool,
) -> None:  # fmt: skip
    events = data.draw(st.lists(st.builds(tools.Event, **EVENT), max_size=9))
    if in_order:
        events.sort(key=lambda event: event.ref)
    pogs = None
    if told_:
        drawn = data.draw(st.lists(POG, max_size=5))
        pogs = sorted(
            ((min(row, len(events)), *more) for row, *more in drawn), key=lambda pog: pog[0]
        )
    whole = same(tools, text, within, events, pogs, barrier)
    cuts = data.draw(st.lists(st.integers(0, len(events)), max_size=4))
    assert same(tools, text, within, events, pogs, barrier, cuts) == whole
