"""Rules that compare results with facts of a table (the knowledge base of Z10 5.1)."""

from __future__ import annotations

from typing import Any

import pytest

import slackwater
from slackwater.engine.core.errors import UserError
from slackwater.engine.hosts.options import read_tables
from slackwater.engine.query import query

LIMITS = [
    {"drug": "aspirin", "most": 500, "ward": "east"},
    {"drug": "morphine", "most": 10, "ward": "west"},
    {"drug": "opium", "most": None, "ward": "west"},
    {"drug": None, "most": 0, "ward": "none"},
]
DOSES = [
    ("aspirin", 300), ("morphine", 20), ("opium", 5), ("sugar", 900), (None, 7),
    ("morphine", 10), ("aspirin", 501), ("morphine", 11),
]  # fmt: skip
EVENTS = [
    {"type": kind, "stream": kind, "ts": ts, "arrival": ts, "attrs": attrs}
    for n, (drug, dose) in enumerate(DOSES)
    for kind, ts in (("ORDER", 100 * n + 10), ("GIVE", 100 * n + 20))
    for attrs in [{"patient": n, "drug": drug, "dose": dose}]
]
LOOKUP = "LOOKUP limits ON g.drug = limits.drug "
PATTERN = f"EVENT SEQ(ORDER o, GIVE g) {LOOKUP}WHERE o.patient = g.patient WITHIN 50 ns "
REPEATED = (
    f"EVENT SEQ(ORDER o, GIVE+ g[]) {LOOKUP}"
    "WHERE g[i].patient = o.patient WITHIN 50 ns CONTIGUITY STRICT "
)
JOIN = f"SELECT g.dose FROM ORDER o JOIN GIVE g ON o.patient = g.patient {LOOKUP}WITHIN 50 ns "
RULES = (
    "HISTORY BY g.limits.ward CHECK dose (g.dose <= g.limits.most) "
    "CHECK known (g.limits.drug IS NOT NULL) CHECK often (past_count(650 ns) < 2)"
)
WHOLE = (
    "HISTORY BY first(g.limits.ward) CHECK dose (max(g.dose) <= first(g.limits.most)) "
    "CHECK known (first(g.limits.drug) IS NOT NULL) CHECK often (past_count(650 ns) < 2)"
)
WINDOW = (
    f"SELECT max(dose) AS dose, min(limits.most) AS most {LOOKUP.replace('g.', '')}"
    "WHERE type = 'GIVE' GROUP BY limits.ward WINDOW TUMBLING 400 ns "
)


def results_of(text: str) -> list[dict[str, Any]]:
    return slackwater.query(EVENTS, text, tables={"limits": LIMITS}, clock="exact").changes()


@pytest.mark.parametrize(
    "text",
    [f"EVENT GIVE g {LOOKUP}{RULES}", PATTERN + RULES, REPEATED + WHOLE, JOIN + RULES],
    ids=["one", "pattern", "repeated", "join"],
)
def test_a_rule_compares_a_result_with_its_fact(text: str) -> None:
    """A drug without a row has no ward, and a rule whose fact is null is unknown and passes."""
    assert [one.get("doubtful", []) for one in results_of(text)] == [
        [], ["dose"], [], ["known"], ["known"], ["often"], ["dose"], ["dose", "often"],
    ]  # fmt: skip


def test_a_window_s_rule_compares_its_group_with_facts() -> None:
    found = results_of(f"{WINDOW}CHECK dose (dose <= most) DROP")
    assert [
        (one["window"]["start"], one["key"]["limits.ward"], one.get("doubtful")) for one in found
    ] == [
        (0, None, None), (0, "east", None), (400, None, None),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "marked", "message", "hint"),
    [
        (PATTERN + "CHECK dose (g.dose <= g.limits.mst)", "mst", "has no column 'mst'",
         "did you mean 'most'?"),
        (PATTERN.replace("limits.drug", "limits.drg") + "CHECK dose (g.dose <= g.limits.most)",
         "drg", "has no column 'drg'", "did you mean 'drug'?"),
        (PATTERN + "CHECK dose (o.dose <= o.limits.most)", "o.limits.most", "looked up for 'g'",
         "LOOKUP limits AS limits2 ON o.drug = limits2.drug"),
        (PATTERN.replace(LOOKUP, "") + "CHECK dose (g.dose <= g.limits.most)", "g.limits.most",
         "a result has no 'g.limits.most'", "LOOKUP limits gives steps its columns"),
        (WINDOW + "CHECK dose (dose <= limits.most)", "limits.most", "no 'limits.most'",
         "SELECT max(limits.most) AS most gives it one"),
    ],
)  # fmt: skip
def test_a_fact_that_is_not_there_is_refused(
    text: str, marked: str, message: str, hint: str
) -> None:
    with pytest.raises(UserError) as error:
        query(text, tables=read_tables({"limits": LIMITS}))
    first, shown, carets, said = str(error.value).split("\n")
    assert shown[carets.index("^") : carets.rindex("^") + 1] == marked
    assert message in first
    assert hint in said


def test_a_rule_without_its_table_is_refused() -> None:
    with pytest.raises(UserError, match="there is no table 'limits'"):
        query(PATTERN + RULES)
