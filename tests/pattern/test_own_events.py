"""A match's own events are no instances of its negated steps, in whatever order they come."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from engine.pattern.seq import SeqMatcher
from engine.pattern.settings import PatternSettings
from engine.query import query
from engine.query.plan import OrPlan, SeqPlan
from engine.stream.released import LATE
from tests.pattern.chain_lines import answered, event
from tests.pattern.slow_patterns import brute_matches, rows_of

OWN = "EVENT AND(B b, SEQ(C c, !B n, D d)) WITHIN 40"


def test_in_every_order_of_arrival(tmp_path: Path) -> None:
    for words in itertools.permutations([("C", 2), ("B", 3), ("D", 4)]):
        lines = [event(kind, ts, "s", at) for at, (kind, ts) in enumerate(words)]
        found, _ = answered(tmp_path, OWN, lines)
        assert found == ["+3,2,4 confirmed @2"], words


def test_another_event_of_that_type_counts(tmp_path: Path) -> None:
    for words in itertools.permutations([("C", 2), ("B", 3), ("D", 5), ("B", 4)]):
        lines = [event(kind, ts, "s", at) for at, (kind, ts) in enumerate(words)]
        found, _ = answered(tmp_path, OWN, lines)
        taken = [result[1:4] for result in found if result[0] == "-"]
        assert sorted(taken) == sorted(result[1:4] for result in found if result[0] == "+")


PATTERNS = [
    "AND(B b, SEQ(C c, !B n, D d))", "SEQ(C c, !B n, AND(B b, D d))",
    "SEQ(AND(B b, C c), !B n, D d)", "SEQ(C c, !B n, D d, B b)", "SEQ(!B n, AND(B b, C c))",
    "SEQ(AND(B b, C c), !B n)", "AND(SEQ(B b, C c), SEQ(D d, !B n, C c2))", "SEQ(B b, !B n, B b2)",
    "OR(SEQ(B b, !B n, C c), AND(B b2, SEQ(D d, !B m, C c2)))",
]  # fmt: skip
WHERE = ["", " WHERE b.k = n.k", " WHERE c.k = n.k"]
EVENT = {
    "type": st.sampled_from("BBCCDD"), "ref": st.integers(0, 8), "status": st.just(LATE),
    "attrs": st.fixed_dictionaries({"k": st.integers(0, 1)}),
}  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(
    data=st.data(), pattern=st.sampled_from(PATTERNS), where=st.sampled_from(WHERE),
    purge=st.sampled_from(["late", "promises"]),
)  # fmt: skip
def test_by_definition_in_any_order_of_arrival(
    tools: Any, data: st.DataObject, pattern: str, where: str, purge: str
) -> None:
    if "C c" not in pattern:
        where = ""
    plan = query(f"EVENT {pattern}{where} WITHIN 5")
    assert isinstance(plan, SeqPlan | OrPlan)
    events = data.draw(st.lists(st.builds(tools.Event, **EVENT), max_size=7))
    chosen = PatternSettings(keep_late_ns=1000, purge=purge)
    results = tools.run(lambda: SeqMatcher(plan, chosen), events, pogs=[])
    net: dict[Any, int] = {}
    for r in results:
        rows = tuple(e["seq"] for e in r["events"])
        net[rows] = net.get(rows, 0) + (1 if r["op"] == "+" else -1)
        assert net[rows] in (0, 1)
    wanted = {rows_of(match) for match in brute_matches(plan, events)}
    assert {rows for rows, there in net.items() if there} == wanted
