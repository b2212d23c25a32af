"""CHECK against its definition: corrections, several queries, cuts, restored state; of matches with
repeated steps, and of statements of a cascade.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import slackwater
from slackwater.engine.barrier.registry import parse_barrier
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import Frame
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.hosts.pipeline import run_in_process
from slackwater.engine.log.input.trace import TraceRead
from slackwater.engine.operators.window.settings import WindowSettings
from slackwater.engine.order.base import Guards
from slackwater.engine.order.registry import parse_order
from slackwater.engine.query import query
from slackwater.engine.query.analysis.cascade import read_statements
from slackwater.engine.query.plan import Plan
from tests.check.slow_checks import CheckedQuery, Look, Result, Rule, judged
from tests.spark.both_hosts import answers, log_of

ALARM = "EVENT SEQ(A a, !C c, B b) WHERE a.id = b.id AND c.id = a.id WITHIN 10"
LOAD = "SELECT count(*) AS n, sum(v) AS total GROUP BY id WINDOW TUMBLING 8"
CHECKS = {
    "alarm": "HISTORY BY a.id CHECK flapping (past_count(6) < 2) HOLD 3 "
    "CHECK alone (near_count(load, 8) >= 1 OR a.v > 2) HOLD 5 DROP "
    "CHECK rising (b.v >= a.v) CHECK apart (since_last(9) > 1) HOLD 2",
    "load": "CHECK steady (past_count(20) < 2) HOLD 4 CHECK small (total < 6) "
    "CHECK quiet (past_count(alarm, 6) = 0) HOLD 9 DROP",
}


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
    "CHECK often (past_count(w, 9) > 1) HOLD 2 DROP CHECK low (b.t < 9)"
)


def of_step(result: Result, place: int, name: str) -> int:
    return int(result["events"][place]["attrs"][name])


def alone(result: Result, look: Look) -> bool:
    return (look("near_count", "load", 8) or 0) >= 1 or of_step(result, 0, "v") > 2


def apart(_result: Result, look: Look) -> bool | None:
    since = look("since_last", None, 9)
    return None if since is None else since > 1


def flapping(_result: Result, look: Look) -> bool:
    return (look("past_count", None, 6) or 0) < 2


def of(result: Result, kind: str, name: str) -> list[int]:
    return [event["attrs"][name] for event in result["events"] if event["type"] == kind]


def small(result: Result, _look: Look) -> bool:
    a, (b,) = of(result, "A", "v"), of(result, "B", "v")
    return len(a) < 3 and sum(a) <= b + 2


def between(result: Result, _look: Look) -> bool | None:
    return next((v > 1 for v in of(result, "C", "v")), None)


def rising(result: Result, look: Look) -> bool:
    a = of(result, "A", "v")
    return a[0] <= a[-1] or (look("near_count", None, 8) or 0) > 0


def repeated(checked: bool) -> tuple[Plan, ...]:
    return (query(REPEATED + OF_REPEATED * checked, name="repeated"),)


def statements(checked: bool) -> tuple[Plan, ...]:
    return read_statements([WINDOWS + OF_WINDOWS * checked + UP + OF_UP * checked])[0]


RULES = {
    "alarm": [
        Rule("flapping", flapping, 3),
        Rule("alone", alone, 5, drop=True),
        Rule("rising", lambda one, _: of_step(one, 1, "v") >= of_step(one, 0, "v")),
        Rule("apart", apart, 2),
    ],
    "load": [
        Rule("steady", lambda _, look: (look("past_count", None, 20) or 0) < 2, 4),
        Rule("small", lambda one, _: one["value"]["total"] < 6),
        Rule("quiet", lambda _, look: look("past_count", "alarm", 6) == 0, 9, drop=True),
    ],
    "repeated": [
        Rule("flapping", flapping, 3), Rule("small", small), Rule("between", between),
        Rule("rising", rising, 4, drop=True),
    ],
    "w": [
        Rule("few", lambda one, _: one["value"]["n"] < 3),
        Rule("steady", lambda _, look: (look("past_count", None, 9) or 0) < 2, 4),
    ],
    "up": [
        Rule("flapping", flapping, 3),
        Rule("often", lambda _, look: (look("past_count", "w", 9) or 0) > 1, 2, drop=True),
        Rule("low", lambda one, _: one["events"][1]["attrs"]["t"] < 9),
    ],
}  # fmt: skip
KEYS: dict[str, Callable[[Result], Any]] = {
    "alarm": lambda one: of_step(one, 0, "id"),
    "load": lambda one: one["key"]["id"],
    "repeated": lambda one: of(one, "B", "id")[0],
    "w": lambda one: one["key"]["id"],
    "up": lambda one: one["events"][0]["attrs"]["id"],
}


def records(seed: int, n: int = 160) -> list[dict[str, Any]]:
    chance, found, arrival = random.Random(seed), list[dict[str, Any]](), 0
    for _ in range(n):
        arrival += chance.choice((0, 1, 1, 2))
        delay = chance.randint(1, 6) if chance.random() < 0.25 else 0
        found.append({
            "type": chance.choice("AABBC"), "ts": max(arrival - delay, 0), "arrival": arrival,
            "attrs": {"id": chance.randrange(2), "v": chance.randrange(4)},
        })  # fmt: skip
    return found


def settings(checked: bool, barrier: str) -> ChainSettings:
    texts = {"alarm": ALARM, "load": LOAD}
    plans = tuple(
        query(f"{text} {CHECKS[name]}" if checked else text, name=name)
        for name, text in texts.items()
    )
    return ChainSettings(
        parse_order("none"), plans, parse_barrier(barrier), guards=Guards(None),
        window=WindowSettings(correction_horizon_ns=10),
    )  # fmt: skip


def frames(made: Sequence[dict[str, Any]], folder: Path) -> list[Frame]:
    path = folder / "t.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in made), "utf-8")
    return list(TraceRead(path, "ns"))


def run(chosen: ChainSettings, given: Sequence[Frame], every: int) -> dict[str, list[Result]]:
    """Cut after so many rows, and restored there."""
    chain = Chain(chosen, "main")
    found: dict[str, list[Result]] = {plan.name: [] for plan in chosen.plans}
    for frame in given:
        for start in range(0, frame.rows, every):
            part = Frame("main", frame.batch.slice(start, every))
            for mine, results in zip(found.values(), chain.process([part]).results, strict=True):
                mine += list(results)
            chain = Chain.restored(chosen, "main", chain.to_bytes())
    for mine, results in zip(found.values(), chain.finish().results, strict=True):
        mine += list(results)
    return found


def both(checked: bool) -> tuple[Plan, ...]:
    return settings(checked, "immediate").plans


@pytest.mark.parametrize(
    ("seed", "barrier", "plans"),
    [
        (0, "bounded:4", both), (3, "immediate", both), (0, "immediate", repeated),
        (1, "immediate", statements),
        pytest.param(4, "bounded:4", both, marks=pytest.mark.slow),
        pytest.param(1, "immediate", repeated, marks=pytest.mark.slow),
        pytest.param(0, "immediate", statements, marks=pytest.mark.slow),
        *(
            pytest.param(seed, barrier, plans, marks=pytest.mark.deep)
            for seed in range(10, 20)
            for barrier in ("immediate", "bounded:4")
            for plans in (both, repeated, statements)
        ),
    ],
)  # fmt: skip
def test_results_are_those_of_the_definition(
    tmp_path: Path, seed: int, barrier: str, plans: Callable[[bool], tuple[Plan, ...]]
) -> None:
    made = records(seed, 100)
    given = frames(made, tmp_path)
    plain_settings, checked = (
        replace(settings(False, barrier), plans=plans(asked)) for asked in (False, True)
    )
    plain = run(plain_settings, given, 10_000)
    asked = {name: CheckedQuery(plain[name], KEYS[name], RULES[name]) for name in plain}
    end = made[-1]["arrival"]
    found = run(checked, given, 10_000)
    assert found == {name: judged(asked, name, end) for name in plain}
    for every in (17, 1) if plans is both and seed == 0 else (7,):
        assert run(checked, given, every) == found
    shown = [one for results in found.values() for one in results]
    assert any("doubtful" in one for one in shown)
    assert any("doubtful" not in one for one in shown)


@pytest.mark.spark
@pytest.mark.slow
def test_spark_gives_the_same(tmp_path: Path) -> None:
    from slackwater.engine.hosts.spark.host import run_on_spark  # noqa: PLC0415 - needs Java

    made = [one | {"site": site} for one in records(1, 400) for site in ("north", "south")]
    log = log_of("".join(json.dumps(one) + "\n" for one in made), tmp_path, 200, 50)
    chosen = settings(True, "immediate")
    run_in_process(log, chosen, tmp_path / "here")
    run_on_spark(log, chosen, tmp_path / "there", "local[2]", files_per_batch=1)
    here = answers(tmp_path / "here", CHECKS)
    assert here.count('"doubtful"') > 50
    assert answers(tmp_path / "there", CHECKS) == here


def test_a_joins_rows_are_checked_by_either_side(tmp_path: Path) -> None:
    made = [
        {"stream": stream, "ts": ts, "arrival": ts, "attrs": {"id": ts // 10, "v": ts}}
        for ts, stream in ((1, "a"), (2, "b"), (11, "a"), (33, "b"))
    ]
    text = (
        "SELECT a.v AS x, b.v AS y FROM a FULL JOIN b ON a.id = b.id WITHIN 5 "
        "HISTORY BY a.id CHECK early (a.v < 10) CHECK low (b.v < 5)"
    )
    chosen = replace(settings(False, "immediate"), plans=(query(text),), barrier=None)
    results = run(chosen, frames(made, tmp_path), 1)["q1"]
    last = {json.dumps(one["value"]): one.get("doubtful") for one in results if one["op"] == "+"}
    assert last['{"x": 1, "y": 2}'] is None
    assert last['{"x": 11, "y": null}'] == ["early"]
    assert last['{"x": null, "y": 33}'] == ["low"]


def test_a_query_that_is_not_asked_has_no_history() -> None:
    text = "EVENT SEQ(A a, B b) WITHIN 5 CHECK fire (past_count(fir, 9) = 0)"
    plans = (query(text), query(ALARM, name="fire"))
    with pytest.raises(UserError, match="'fir', which is not asked: the queries are q1 and fire"):
        Chain(replace(settings(False, "immediate"), plans=plans), "main")


@pytest.mark.parametrize(
    ("pattern", "times"),
    [
        ("SEQ(A a, B b)", "b.ts - a.ts"), ("SEQ(A a, B b)", "a.te - a.ts"),
        ("SEQ(A a, B b)", "2 * a.te - b.ref"), ("AND(A a, OR(B b, C c))", "a.ts - b.ts"),
        ("SEQ(A{1,2} a[], B b)", "b.ts - last(a.ts)"),
    ],
)  # fmt: skip
def test_what_clocks_may_err_in_is_for_where(pattern: str, times: str, tmp_path: Path) -> None:
    text = (
        "EVENT " + pattern.replace("{", "{{").replace("}", "}}") + " {} WITHIN 90 CHECK quick ({})"
    )
    with pytest.raises(UserError, match="CHECK quick compares times that clocks may err in") as no:
        query(text.format("", f"b.v = 1 OR NOT {times} < 5"))
    assert "put it into WHERE" in str(no.value)
    assert "or compare attributes, or raw_ts and raw_te" in str(no.value)
    stamped = times.replace(".ref", ".ts").replace(".t", ".raw_t")
    for remedy in (
        text.format("", f"{stamped} < -999"), text.format(f"WHERE {times} < 99", "b.v = 999")
    ):  # fmt: skip
        chosen = replace(settings(False, "immediate"), plans=(query(remedy),), barrier=None)
        results = run(chosen, frames(records(3), tmp_path), 17)["q1"]
        assert any(one.get("doubtful") == ["quick"] for one in results)


def test_what_is_forgotten_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slackwater.engine.operators.check.rules.REMEMBERED", 3)
    chain = Chain(settings(True, "immediate"), "main")
    chain.process(frames(records(2), tmp_path))
    chain.finish()
    counts = chain.counters()["queries"]["alarm"]
    assert counts["forgotten_by_checks"] > 5
    assert counts["doubtful"] > counts["forgotten_by_checks"] > 0
    assert counts["held_by_checks"] == 0


def test_what_a_rule_names_need_not_be_returned(tmp_path: Path) -> None:
    made = records(3)
    text = f"{ALARM} RETURN a.v AS x HISTORY BY a.id CHECK rising (b.v >= a.v)"
    chosen = replace(settings(False, "bounded:4"), plans=(query(text),))
    results = run(chosen, frames(made, tmp_path), 17)["q1"]
    values = [made[event["seq"]]["attrs"]["v"] for one in results for event in one["events"]]
    rising = [b >= a for a, b in zip(values[::2], values[1::2], strict=True)]
    assert [one.get("doubtful") for one in results] == [None if up else ["rising"] for up in rising]
    assert not all(rising)


def test_what_a_rule_names_of_repeated_steps_need_not_be_returned(tmp_path: Path) -> None:
    made = records(3)
    text = f"{REPEATED} RETURN b.id CHECK rising (first(a.v) <= last(a.v))"
    chosen = replace(settings(False, "bounded:4"), plans=(query(text),))
    results = run(chosen, frames(made, tmp_path), 17)["q1"]
    values = [
        [made[event["seq"]]["attrs"]["v"] for event in one["events"] if event["type"] == "A"]
        for one in results
    ]
    rising = [each[0] <= each[-1] for each in values]
    assert [one.get("doubtful") for one in results] == [None if up else ["rising"] for up in rising]
    assert not all(rising)


def test_what_is_held_at_the_end_of_the_input_is_judged_then() -> None:
    """B, which came meanwhile, speaks for the first A; the last A is not held and goes first."""
    events = {
        "type": ["A", "A", "B", "A"], "ts": [1, 2, 3, 4], "arrival": [1, 2, 3, 4],
        "seq": [0, 1, 2, 3], "v": [1, 2, 0, 1],
    }  # fmt: skip
    found = slackwater.query(
        events,
        {
            "a": "EVENT A a CHECK lonely (near_count(b, 90) > 0) HOLD 60 "
            "CHECK again (near_count(90) > 2 OR a.v = 1) HOLD 70 DROP",
            "b": "EVENT B b",
        },
        order="none",
    ).changes()
    shown = [(r["at"], r["events"][0]["seq"]) for r in found if r["query"] == "a"]
    assert shown == [(4, 3), (4, 0)]
    assert not any("doubtful" in r for r in found)
