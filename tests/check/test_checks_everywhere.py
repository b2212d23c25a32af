"""CHECK of matches with repeated steps, and of statements of a cascade, against its definition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.chain import ChainSettings
from engine.query import query
from engine.query.analysis.cascade import read_statements
from engine.query.plan import Plan
from tests.check.slow_checks import Asked, Look, Result, Rule, judged
from tests.check.test_checks import frames, records, run, settings

REPEATED = "EVENT SEQ(A+ a[], C? c, B b) WHERE a[i].id = b.id WITHIN 5"
OF_REPEATED = (
    " HISTORY BY b.id CHECK flapping (past_count(6) < 2) HOLD 3 "
    "CHECK small (count(a) < 3 AND sum(a.v) <= b.v + 2) CHECK between (c.v > 1) "
    "CHECK rising (first(a.v) <= last(a.v) OR near_count(8) > 0) HOLD 4 DROP"
)
WINDOWS = "CREATE STREAM w AS SELECT sum(v) AS t, count(*) AS n GROUP BY id WINDOW TUMBLING 4"
OF_WINDOWS = " CHECK few (n < 3) CHECK steady (past_count(9) < 2) HOLD 4"
UP = "; CREATE STREAM up AS EVENT SEQ(w a, w b) WHERE a.id = b.id AND b.t > a.t WITHIN 12"
OF_UP = (
    " HISTORY BY a.id CHECK flapping (past_count(6) < 2) HOLD 3 "
    "CHECK told (past_count(w, 9) > 1) HOLD 2 DROP CHECK low (b.t < 9)"
)


def of(result: Result, kind: str, name: str) -> list[int]:
    return [event["attrs"][name] for event in result["events"] if event["type"] == kind]


def flapping(_result: Result, look: Look) -> bool:
    return (look("past_count", None, 6) or 0) < 2


def small(result: Result, _look: Look) -> bool:
    a, (b,) = of(result, "A", "v"), of(result, "B", "v")
    return len(a) < 3 and sum(a) <= b + 2


def between(result: Result, _look: Look) -> bool | None:
    return next((v > 1 for v in of(result, "C", "v")), None)


def rising(result: Result, look: Look) -> bool:
    a = of(result, "A", "v")
    return a[0] <= a[-1] or (look("near_count", None, 8) or 0) > 0


def repeated(checked: bool) -> tuple[Plan, ...]:
    return (query(REPEATED + OF_REPEATED * checked, name="alarm"),)


def statements(checked: bool) -> tuple[Plan, ...]:
    return read_statements([WINDOWS + OF_WINDOWS * checked + UP + OF_UP * checked])[0]


RULES = {
    "alarm": [
        Rule("flapping", flapping, 3), Rule("small", small), Rule("between", between),
        Rule("rising", rising, 4, drop=True),
    ],
    "w": [
        Rule("few", lambda one, _: one["value"]["n"] < 3),
        Rule("steady", lambda _, look: (look("past_count", None, 9) or 0) < 2, 4),
    ],
    "up": [
        Rule("flapping", flapping, 3),
        Rule("told", lambda _, look: (look("past_count", "w", 9) or 0) > 1, 2, drop=True),
        Rule("low", lambda one, _: one["events"][1]["attrs"]["t"] < 9),
    ],
}  # fmt: skip
KEYS: dict[str, Callable[[Result], Any]] = {
    "alarm": lambda one: of(one, "B", "id")[0],
    "w": lambda one: one["key"]["id"],
    "up": lambda one: one["events"][0]["attrs"]["id"],
}


@pytest.mark.parametrize("plans", [repeated, statements])
@pytest.mark.parametrize("seed", range(2))
def test_results_are_those_of_the_definition(
    tmp_path: Path, plans: Callable[[bool], tuple[Plan, ...]], seed: int
) -> None:
    made = records(seed, 90)
    given = frames(made, tmp_path)

    def chosen(checked: bool) -> ChainSettings:
        return replace(settings(False, "immediate"), plans=plans(checked))

    plain = run(chosen(False), given, 10_000)
    asked = {name: Asked(plain[name], KEYS[name], RULES[name]) for name in plain}
    end = made[-1]["arrival"]
    found = run(chosen(True), given, 10_000)
    for name, results in found.items():
        assert results == judged(asked, name, end), name
    assert run(chosen(True), given, 7) == found
    shown = [one for results in found.values() for one in results]
    assert any("doubtful" in one for one in shown)
    assert any("doubtful" not in one for one in shown)
