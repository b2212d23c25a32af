"""Spilling: late events are looked at later, and in the end the answer is the same."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.barrier.registry import parse_barrier
from engine.pattern.seq import PatternSettings, SeqMatcher
from engine.pattern.spill import SpillingMatcher
from engine.pattern.spill_settings import SpillSettings
from engine.query.plan import Attribute, Comparison, SeqPlan, Step
from engine.released import IN_ORDER, LATE

END = 10**6


def plan(text: str, within: int | None = None, **more: Any) -> SeqPlan:
    """``a !c b``: steps named so, types in upper case."""
    steps = tuple(
        Step(word.strip("!"), word.strip("!").upper()[0], word[0] == "!") for word in text.split()
    )
    return SeqPlan("q", "", steps, within_ns=within, **more)


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
        "k": st.sampled_from([1, 2]), "v": st.integers(0, 3), "f": st.sampled_from([1, 0.5, 2.0]),
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


def joined(text: str, within: int, join: str) -> SeqPlan:
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
    join=st.sampled_from(["none", "keys", "values"]), barrier=st.sampled_from(BARRIERS),
    rule=st.sampled_from(["pairwise", "max-delay"]), keep=st.sampled_from([0, 10, 1000]),
    t_a=st.sampled_from([0, 5]), hot=st.integers(0, 20), chunk=st.integers(1, 20),
    pending=st.integers(1, 5), wait=st.integers(0, 20), told=st.booleans(),
)  # fmt: skip
@settings(max_examples=400, deadline=None)
def test_the_net_result_is_that_without_spill(
    tools: Any, data: st.DataObject, text: str, within: int, join: str, barrier: str, rule: str,
    keep: int, t_a: int, hot: int, chunk: int, pending: int, wait: int, told: bool,
) -> None:  # fmt: skip
    made = joined(text, within, join)
    events = data.draw(st.lists(st.builds(tools.Event, **EVENT), max_size=30))
    pogs, steps = None, []
    if told:
        pogs = sorted(
            ((min(row, len(events)), *more) for row, *more in data.draw(st.lists(POG, max_size=4))),
            key=lambda pog: pog[0],
        )
    else:
        step = st.tuples(st.integers(0, len(events)), st.integers(0, 80), st.just(0))
        steps = sorted(data.draw(st.lists(step, max_size=2)))
    bounds = PatternSettings(rule, keep_late_ns=keep)
    spill = SpillSettings(None, 2 * within + hot, chunk, pending, wait)

    def spilling() -> SpillingMatcher:
        return SpillingMatcher(made, spill, bounds, barrier=parse_barrier(barrier))

    more = {"t_a": t_a, "steps": steps, "pogs": pogs, "end": END}
    plain = tools.run(
        lambda: SeqMatcher(made, bounds, barrier=parse_barrier(barrier)), events, **more
    )
    whole = tools.run(spilling, events, **more)
    assert net(whole) == net(plain)
    assert [r["at"] for r in whole] == sorted(r["at"] for r in whole)
    cuts = data.draw(st.lists(st.integers(0, len(events)), max_size=4))
    assert tools.run(spilling, events, cuts, **more) == whole
