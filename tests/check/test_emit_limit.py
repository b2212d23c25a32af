"""EMIT AT MOST against its definition: at every instant, however the log is cut, and restored."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

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
from slackwater.engine.query.explain import explain
from slackwater.engine.query.pattern_settings import PatternSettings
from slackwater.engine.query.plan import Plan
from slackwater.engine.query.render import render
from tests.check.slow_emit_limit import Key, Result, shown, standing
from tests.spark.both_hosts import answers, log_of


def of(place: int, name: str) -> Key:
    return lambda result: result["events"][place]["attrs"].get(name)


def all_as_one(_result: Result) -> None:
    return None


def keys(*names: str) -> Key:
    return lambda result: [result["key"][name] for name in names]


PAIRS = "EVENT SEQ(A a, !C c, B b) WHERE a.id = b.id AND c.id = a.id WITHIN 8"
LOADS = "SELECT count(*) AS n, sum(v) AS total GROUP BY id, name WINDOW "
JOIN = "SELECT a.id AS id, a.v AS x, b.v AS y FROM p a LEFT JOIN q b ON a.id = b.id WITHIN 3"
CASES: dict[str, tuple[str, str, Key]] = {
    "rows": ("SELECT id, name, v FROM p, q", "1 EVERY 5 BY id", lambda r: r["value"]["id"]),
    "rows of all": ("SELECT id, v", "3 EVERY 7", all_as_one),
    "matches": (PAIRS, "1 EVERY 9 BY a.id, b.name",
                lambda r: [of(0, "id")(r), of(1, "name")(r)]),
    "few matches": (f"{PAIRS} REALTIME 0", "2 EVERY 6", all_as_one),
    "a computed key": (PAIRS, "1 EVERY 9 BY a.v + b.v",
                       lambda r: of(0, "v")(r) + of(1, "v")(r)),
    "either": ("EVENT OR(A a, SEQ(B b, B c)) WITHIN 4", "2 EVERY 9", all_as_one),
    "runs": ("EVENT SEQ(A+ a[], B? b, C c) WHERE a[i].id = c.id WITHIN 5",
             "1 EVERY 4 BY c.name", of(-1, "name")),
    "a join": (JOIN, "1 EVERY 5 BY a.id", lambda r: r["value"]["id"]),
    "windows": (f"{LOADS}TUMBLING 3", "2 EVERY 9 BY name", keys("name")),
    "early windows": (f"{LOADS}SLIDING 6 EVERY 3 EMIT ON CHANGE", "1 EVERY 6 BY id, name",
                      keys("id", "name")),
    "sessions": (f"{LOADS}SESSION 2", "1 EVERY 8 BY id", keys("id")),
    "full windows": (f"{LOADS}ROWS 3 EVERY 1", "2 EVERY 5", all_as_one),
}  # fmt: skip
QUICK = ("rows", "matches", "runs", "a join", "windows", "full windows")
"""Cases of one kind each; ``make test-all`` tries all."""


def records(seed: int, n: int) -> list[dict[str, Any]]:
    chance, found, arrival = random.Random(seed), list[dict[str, Any]](), 0
    for _ in range(n):
        arrival += chance.choice((0, 0, 1, 1, 2))
        delay = chance.randint(1, 6) if chance.random() < 0.3 else 0
        attrs = {"id": chance.randrange(2), "v": chance.randrange(4)}
        if chance.random() < 0.9:
            attrs["name"] = chance.choice(("x", "y"))
        found.append({
            "type": chance.choice("AABBC"), "stream": chance.choice("pq"), "arrival": arrival,
            "ts": max(arrival - delay, 0), "attrs": attrs,
        })  # fmt: skip
    return found


def frames(made: Sequence[dict[str, Any]], folder: Path) -> list[Frame]:
    path = folder / "t.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in made), "utf-8")
    return list(TraceRead(path, "ns"))


def settings(plans: tuple[Plan, ...], order: str = "none", barrier: str = "") -> ChainSettings:
    return ChainSettings(
        parse_order(order), plans, parse_barrier(barrier) if barrier else None,
        guards=Guards(None), window=WindowSettings(correction_horizon_ns=10),
        pattern=PatternSettings(keep_late_ns=10),
    )  # fmt: skip


def run(chosen: ChainSettings, given: Sequence[Frame], every: int) -> dict[str, list[Result]]:
    """Cut after so many rows, and restored there."""
    chain = Chain(chosen, "main")
    found: dict[str, list[Result]] = {plan.name: [] for plan in chosen.plans}
    for frame in given:
        for start in range(0, frame.rows, every):
            part = Frame("main", frame.batch.slice(start, every))
            for mine, results in zip(found.values(), chain.process([part]).results, strict=True):
                mine += list(results)
            if every < len(given[0].batch):
                chain = Chain.restored(chosen, "main", chain.to_bytes())
    for mine, results in zip(found.values(), chain.finish().results, strict=True):
        mine += list(results)
    for number, plan in enumerate(chosen.plans):
        if plan.name == "limited":
            counts = list(chain.counters()["queries"].values())[number]
            assert not counts["too_late_for_limit"]
            left, all_of = len(standing(found["limited"])), len(standing(found.get("plain", ())))
            assert "plain" not in found or counts["not_shown_by_limit"] == all_of - left
    return found


def in_order(results: Sequence[Result]) -> list[str]:
    return sorted(json.dumps(result, sort_keys=True) for result in results)


def check_every_instant(plain: Sequence[Result], limited: Sequence[Result], case: str) -> None:
    _, limit, key = CASES[case]
    most, _, every, *_ = limit.split()
    for at in sorted({result["at"] for result in [*plain, *limited]}):
        up_to = [[one for one in log if one["at"] <= at] for log in (plain, limited)]
        wanted = shown(standing(up_to[0]), int(most), int(every), key)
        assert in_order(standing(up_to[1])) == in_order(wanted), at


@pytest.mark.parametrize(
    "case",
    [case if case in QUICK else pytest.param(case, marks=pytest.mark.slow) for case in CASES],
)
@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.deep) for seed in range(2, 12))]
)
def test_what_is_shown_is_what_the_definition_says(case: str, seed: int, tmp_path: Path) -> None:
    text, limit, _ = CASES[case]
    plans = (query(text, name="plain"), query(f"{text} EMIT AT MOST {limit}", name="limited"))
    given = frames(records(seed, 120), tmp_path)
    chosen = settings(plans)
    found = run(chosen, given, 10_000)
    check_every_instant(found["plain"], found["limited"], case)
    assert 0 < len(standing(found["limited"])) < len(standing(found["plain"]))
    for cut in (1 if case in ("windows", "runs") else 5, 40):
        assert run(chosen, given, cut) == found


@pytest.mark.parametrize(
    ("order", "barrier"),
    [("kslack:4", "bounded:4"), ("sequence:timeout=fixed:3", "punctuation,ordered"),
     ("none", "hold:3"), ("mp-kslack", "adaptive")],
)  # fmt: skip
def test_orders_and_barriers_change_the_log_and_not_the_choice(
    order: str, barrier: str, tmp_path: Path
) -> None:
    for case in ("matches", "windows") if barrier not in ("hold:3", "adaptive") else ("matches",):
        text, limit, _ = CASES[case]
        plans = (query(text, name="plain"), query(f"{text} EMIT AT MOST {limit}", name="limited"))
        given = frames(records(5, 150), tmp_path)
        found = run(settings(plans, order, barrier), given, 10_000)
        assert found["limited"]
        check_every_instant(found["plain"], found["limited"], case)
        assert run(settings(plans, order, barrier), given, 13) == found


@pytest.mark.parametrize("case", ["matches", "windows", "sessions", "runs"])
def test_clocks_that_err_change_results_and_not_the_rule(case: str, tmp_path: Path) -> None:
    made: list[dict[str, Any]] = []
    for number, one in enumerate(records(11, 90)):
        if number % 40 == 20:
            sync = {"kind": "sync", "source": "ab"[number // 40], "offset": 1, "delay": 4}
            made.append(sync | {"ts": one["arrival"], "arrival": one["arrival"]})
        made.append(one | {"source": "ab"[number % 2]})
    text, limit, _ = CASES[case]
    plans = (query(text, name="plain"), query(f"{text} EMIT AT MOST {limit}", name="limited"))
    given = frames(made, tmp_path)
    found = run(settings(plans), given, 1_000)
    check_every_instant(found["plain"], found["limited"], case)
    assert {"-", "+"} == {one["op"] for one in found["limited"]}
    assert case == "windows" or {one["certainty"] for one in found["limited"]} != {"confirmed"}
    assert run(settings(plans), given, 7) == found


def test_the_order_of_arrival_does_not_change_the_choice(tmp_path: Path) -> None:
    made = [one | {"seq": number, "source": "s"} for number, one in enumerate(records(7, 60))]
    left = []
    for case, (text, limit, _) in CASES.items():
        if case == "full windows":  # of one time, ROWS go by the arrival
            continue
        found = []
        for seed in range(3):
            shuffled = random.Random(seed).sample(made, len(made))
            given = frames(
                [one | {"arrival": place} for place, one in enumerate(shuffled)], tmp_path
            )
            chosen = replace(
                settings((query(f"{text} EMIT AT MOST {limit}", name="limited"),)),
                window=WindowSettings(), pattern=PatternSettings(),
            )  # fmt: skip
            left = [
                {name: value for name, value in one.items() if name != "known_at"}
                for one in standing(run(chosen, given, 1_000)["limited"])
            ]
            found.append(in_order(left))
        assert found[0] == found[1] == found[2], case
    assert left


DERIVED = (
    "CREATE STREAM limited AS {} EMIT AT MOST {};"
    "CREATE STREAM pairs AS EVENT SEQ(limited x, limited y) WITHIN 9 RETURN x.id, y.id AS other"
    " EMIT AT MOST 1 EVERY 12; SELECT count(*) AS n, min(probability) AS p FROM pairs"
    " WINDOW TUMBLING 10"
)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 3))]
)
def test_a_statement_reads_what_is_shown(seed: int, tmp_path: Path) -> None:
    for case in ("rows", "windows"):
        text, limit, _ = CASES[case]
        plans, _ = read_statements([DERIVED.format(text, limit)], names=["last"])
        given = frames(records(seed, 100), tmp_path)
        chosen = settings(plans)
        found = run(chosen, given, 10_000)
        assert run(chosen, given, 7) == found
        read = [
            {"type": "limited", "ts": start, "te": end, "arrival": 0, "attrs": {"id": group}}
            for end, start, group in sorted(
                (one["window"]["end"] - 1, one["window"]["start"], one["key"]["id"])
                if case == "windows"
                else (one["events"][0]["ts"], one["events"][0]["ts"], one["value"]["id"])
                for one in standing(found["limited"])
            )
        ]
        alone = "EVENT SEQ(limited x, limited y) WITHIN 9 RETURN x.id, y.id AS other"
        wanted = run(settings((query(alone, name="pairs"),)), frames(read, tmp_path), 1_000)
        ends = sorted(
            max(event["te"] for event in one["events"]) for one in standing(wanted["pairs"])
        )
        few: list[int] = []
        for end in ends:
            few += [end] if not few or end - few[-1] >= 12 else []
        made = standing(found["pairs"])
        assert sorted(max(event["te"] for event in one["events"]) for one in made) == few
        counted = {one["window"]["start"]: one["value"]["n"] for one in standing(found["last"])}
        assert counted == {
            start: len([end for end in few if start <= end < start + 10])
            for start in {end // 10 * 10 for end in few}
        }


def test_checks_are_of_what_is_shown(tmp_path: Path) -> None:
    text = f"{PAIRS} HISTORY BY a.id CHECK few (past_count(9) < 1) CHECK up (b.v > a.v) HOLD 2"
    text = text.replace(" HOLD 2", "")
    plans = (
        query(f"{PAIRS} EMIT AT MOST 1 EVERY 9 BY a.id", name="limited"),
        query(f"{text} EMIT AT MOST 1 EVERY 9 BY a.id", name="checked"),
    )
    given = frames(records(3, 150), tmp_path)
    found = run(settings(plans), given, 1_000)
    checked = [{n: v for n, v in one.items() if n != "doubtful"} for one in found["checked"]]
    assert checked == [one | {"query": "checked"} for one in found["limited"]]
    assert any(one.get("doubtful") == ["up"] for one in found["checked"])
    assert run(settings(plans), given, 9) == found


def test_memory_is_of_the_horizon_and_of_what_is_shown(tmp_path: Path) -> None:
    text = "SELECT id FROM p, q EMIT AT MOST 1 EVERY 40 BY id"
    chain = Chain(settings((query(text, name="limited"),)), "main")
    made = [
        {"type": "A", "stream": "p", "ts": ts, "arrival": ts, "attrs": {"id": ts % 2}}
        for ts in range(2_000)
    ]
    most = 0
    for frame in frames(made, tmp_path):
        for start in range(0, frame.rows, 50):
            chain.process([Frame("main", frame.batch.slice(start, 50))])
            most = max(most, chain.counters()["queries"]["limited"]["kept_by_limit"])
    assert most < 150
    assert len(chain.to_bytes()) < 60_000


def test_a_result_that_comes_after_the_horizon_is_counted(tmp_path: Path) -> None:
    made = [
        {"type": "A", "ts": ts, "arrival": place, "attrs": {"id": 1}}
        for place, ts in enumerate((0, 100, 5, 103, 95))
    ]
    for cut in (1, 100):
        chain = Chain(settings((query("EVENT A a EMIT AT MOST 1 EVERY 4"),)), "main")
        found: list[Result] = []
        for frame in frames(made, tmp_path):
            for start in range(0, frame.rows, cut):
                found += chain.process([Frame("main", frame.batch.slice(start, cut))]).results[0]
        found += chain.finish().results[0]
        assert [one["events"][0]["ts"] for one in found] == [0, 100, 95]
        counts = chain.counters()["queries"]["q1"]
        assert (counts["too_late_for_limit"], counts["not_shown_by_limit"]) == (1, 1)


def test_a_half_known_match_is_counted_by_the_end_that_it_has(tmp_path: Path) -> None:
    made = [
        {"type": "B", "ts": 3, "te": 4, "arrival": 4},
        {"type": "A", "kind": "ibp", "id": "1", "ts": 6, "arrival": 6},
        {"type": "A", "kind": "ibp", "id": "2", "ts": 16, "arrival": 16},
        {"type": "A", "kind": "ibp", "id": "3", "ts": 26, "arrival": 26},
    ]
    text = "EVENT SEQ(B b BEFORE A a) WITHIN 100 REALTIME 1 EMIT AT MOST 1 EVERY 12"
    chosen = settings((query(text, name="limited"),))
    found = run(chosen, frames(made, tmp_path), 1_000)
    assert [one["events"][1]["ts"] for one in found["limited"]] == [6, 26]
    assert run(chosen, frames(made, tmp_path), 1) == found


@pytest.mark.parametrize("case", CASES)
def test_the_text_of_the_plan_is_read_back_and_explained(case: str) -> None:
    text, limit, _ = CASES[case]
    plan = query(f"{text} EMIT AT MOST {limit}")
    assert query(render(plan)) == replace_text(plan, render(plan))
    assert render(plan).count("EMIT AT MOST ") == 1
    most, _, every, *by = limit.split()
    lines = " ".join(explain(plan).split())
    of_each = f" for each {' '.join(by[1:])}" if by else ""
    assert f"shown at most {most} in any {every} ns{of_each}: in order of their ends" in lines


def replace_text(plan: Any, text: str) -> Any:
    from msgspec.structs import replace as changed  # noqa: PLC0415 - plans are structs

    changes: dict[str, Any] = {"text": text}
    for name in ("branches", "pair"):
        of_plan = getattr(plan, name, None)
        if name in plan.__struct_fields__ and of_plan is not None:
            both = isinstance(of_plan, tuple)
            changes[name] = (
                tuple(replace_text(one, text) for one in of_plan)
                if both
                else replace_text(of_plan, text)
            )
    return changed(plan, **changes)


def test_alerts_have_no_limit() -> None:
    text = "EVENT SEQ(a a1, b b1) EMIT AT MOST 1 EVERY 5 UNDER CONSTRAINT c FOR TRACE BY id AS a, b"
    with pytest.raises(UserError, match="EMIT AT MOST is not of alerts"):
        query(text)


@pytest.mark.spark
@pytest.mark.slow
def test_spark_gives_the_same(tmp_path: Path) -> None:
    from slackwater.engine.hosts.spark.host import run_on_spark  # noqa: PLC0415 - needs Java

    made = [one | {"site": site} for one in records(1, 300) for site in ("north", "south")]
    log = log_of("".join(json.dumps(one) + "\n" for one in made), tmp_path, 200, 50)
    names = ("rows", "matches", "windows")
    plans = tuple(
        query(f"{CASES[name][0]} EMIT AT MOST {CASES[name][1]}", name=name) for name in names
    )
    run_in_process(log, settings(plans), tmp_path / "here")
    run_on_spark(log, settings(plans), tmp_path / "there", "local[2]", files_per_batch=1)
    here = answers(tmp_path / "here", dict.fromkeys(names))
    assert here.count('"op": "+"') > 50
    assert answers(tmp_path / "there", dict.fromkeys(names)) == here
