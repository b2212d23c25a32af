"""SPEC 4.7's goldens: L10 Examples 5.3 to 5.5, from a trace to the lines that are printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import slackwater
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.hosts.options import QueryOptions
from slackwater.engine.operators.match.seq import SeqMatcher
from slackwater.engine.order.registry import parse_order
from slackwater.engine.query import query
from slackwater.engine.query.joins import INDEXES
from slackwater.engine.query.pattern_settings import PatternSettings
from tests.interval.conftest import Event, matches
from tests.order.conftest import frame
from tests.pattern.conftest import run
from tests.pattern.trees.definition import MIRRORS, RELATIONS, Span, stands

TEXT = "EVENT ISEQ[A.ts < B.te < C.te < D.te](A, B, C, D) WITHIN 30"
STREAM = "b3|6 d6|10 b9|11 c4|12 a7|14 d9|15 a8|16"
FIRST, SECOND = "a7|14 b9|11 c4|12 d9|15", "a8|16 b9|11 c4|12 d9|15"
Record = dict[str, Any]


def interval(name: str) -> Record:
    start, end = map(int, name[1:].split("|"))
    return {"type": name[0].upper(), "ts": start, "te": end, "id": name}


def stream(*, ibp: bool) -> list[Record]:
    """Intervals by their ends and IBPs by their starts; at one instant IBPs first."""
    whole = [interval(name) for name in STREAM.split()]
    timed = [(each["te"], 1, each) for each in whole]
    if ibp:
        begun = [{**each, "kind": "ibp"} for each in whole]
        timed += [(each["ts"], 0, {k: v for k, v in each.items() if k != "te"}) for each in begun]
    return [each for _, _, each in sorted(timed, key=lambda one: one[:2])]


def names(result: Record) -> str:
    return " ".join(f"{e['type'].lower()}{e['ts']}|{e['te']}" for e in result["events"])


@pytest.mark.parametrize("ibp", [False, True])
@pytest.mark.parametrize("purge", ["late", "promises"])
@pytest.mark.parametrize("index", INDEXES)
def test_l10_examples_5_4_and_5_5(tmp_path: Path, index: str, purge: str, ibp: bool) -> None:
    trace = tmp_path / "trace.jsonl"
    records = stream(ibp=ibp)
    trace.write_text("".join(json.dumps(each) + "\n" for each in records))
    line_of = {each["id"]: n for n, each in enumerate(records, 1) if "te" in each}
    results = list(slackwater.query(trace, TEXT, intervals=index, purge=purge))
    assert [(each["at"], names(each)) for each in results] == [
        (line_of["d9|15"], FIRST), (line_of["a8|16"], SECOND),
    ]  # fmt: skip
    assert all(each["certainty"] == "confirmed" for each in results)


@pytest.mark.parametrize(("ibp", "dropped", "unannounced"), [(False, 1, 0), (True, 2, 0)])
def test_what_is_dropped_without_buffering(ibp: bool, dropped: int, unannounced: int) -> None:
    """d6|10 finds no C that ends before it; of b3|6 only IBPs tell that no A has begun."""
    counters, found = answered(stream(ibp=ibp))
    assert found == [FIRST, SECOND]
    assert counters["dropped"] == dropped
    assert counters["ibp"] == (7 if ibp else 0)
    assert counters["unannounced"] == unannounced


def test_a_type_whose_ibp_was_lost_is_trusted_no_more() -> None:
    """b9|11 came, and no IBP of it: from then on any start of a B is taken to be possible."""
    records = [e for e in stream(ibp=True) if (e["id"], e.get("kind")) != ("b9|11", "ibp")]
    counters, found = answered(records)
    assert found == [FIRST, SECOND]
    assert (counters["ibp"], counters["unannounced"]) == (6, 1)


def answered(records: list[Record]) -> tuple[Record, list[str]]:
    """Under purge=promises, cut after each record, with a restart there."""
    settings = QueryOptions(purge="promises").answering((query(TEXT),), "ns")
    chain, found = Chain(settings, "main"), []
    for number, each in enumerate(records):
        more = {"source": "s0", "arrival": number, "id": STREAM.split().index(each["id"])}
        if "kind" not in each:
            more["seq"] = sum("kind" not in e for e in records[:number])
        found += chain.process([frame([{**each, **more}])]).results[0]
        chain = Chain.restored(settings, "main", chain.to_bytes())
    found += chain.finish().results[0]
    counters = chain.counters()
    assert counters["records"].get("ibp", 0) == sum("kind" in each for each in records)
    return counters["queries"]["q1"], [names(each) for each in found]


def test_l10_example_5_3() -> None:
    """A overlaps B, B overlaps C; that A starts before B is L10's open relation."""
    plan = query("EVENT ISEQ[A OVERLAPS B, B OVERLAPS C](A, B, C)")
    assert [(str(r.left.alias), r.left.name, str(r.right.alias), r.right.name)
            for r in plan.relations] == [
        ("A", "ts", "B", "ts"), ("A", "te", "B", "te"), ("B", "ts", "A", "te"),
        ("B", "ts", "C", "ts"), ("B", "te", "C", "te"), ("C", "ts", "B", "te"),
    ]  # fmt: skip


def test_l10_example_5_1() -> None:
    """HIGH contains STAY, over L10's readings of 5.4.1; and HIGH overlaps DRY."""
    spans = [
        ("MEDIUM", 0, 8), ("STAY", 9, 11), ("HIGH", 8, 12), ("STAY", 7, 13), ("DRY", 10, 14),
        ("MEDIUM", 12, 16),
    ]  # fmt: skip
    records = [
        {"type": kind, "ts": ts, "te": te, "source": "s0", "seq": n, "arrival": te}
        for n, (kind, ts, te) in enumerate(spans)
    ]
    plans = (
        query("EVENT ISEQ[h CONTAINS s](HIGH h, STAY s) WITHIN 30", name="stay"),
        query("EVENT ISEQ[HIGH OVERLAPS DRY](HIGH, DRY) WITHIN 30", name="dry"),
    )
    chain = Chain(ChainSettings(parse_order("sequence"), plans), "main")
    stay, dry = chain.process([frame(records)]).results
    assert [names(each) for each in stay] == ["high8|12 stay9|11"]
    assert [names(each) for each in dry] == ["high8|12 dry10|14"]


def test_l10_example_5_2() -> None:
    """Readings above 120 F after an attack, as points and as the two intervals that they make: the
    attacks are traced once each, and what was hot before an attack does not follow it.
    """
    heat = [90, 95, 125, 130, 128, 121, 100, 90, 91, 140, 150, 135, 110, 90]
    attacks = [1, 8]
    readings = [
        {"type": "TEMPERATURE_READING", "ts": 2 * at, "te": 2 * at, "attrs": {"value": each}}
        for at, each in enumerate(heat)
    ]
    spans = [("SERVER_OVERHEAT", 4, 12), ("FAN_FAILURE", 18, 24)]
    began = [
        {"type": "NETWORK_ATTACK", "ts": at, "te": at, "attrs": {"value": 0}} for at in attacks
    ]
    made = [{"type": kind, "ts": ts, "te": te, "attrs": {"value": 0}} for kind, ts, te in spans]
    by_points = traced(
        [*began, *readings],
        "EVENT SEQ(NETWORK_ATTACK a, TEMPERATURE_READING r) WHERE r.value > 120 WITHIN 16",
    )
    by_intervals = traced(
        [*began, *made],
        "EVENT ISEQ[a BEFORE f](NETWORK_ATTACK a, FAN_FAILURE f) WITHIN 16",
        "EVENT ISEQ[a BEFORE o](NETWORK_ATTACK a, SERVER_OVERHEAT o) WITHIN 16",
    )
    assert by_points == [["1 10", "1 4", "1 6", "1 8", "8 10", "8 18", "8 20", "8 22"]]
    assert by_intervals == [["8 18|24"], ["1 4|12"]]


def traced(records: list[Record], *texts: str) -> list[list[str]]:
    """Per query the attack and what it led to, by begin."""
    in_order = sorted(records, key=lambda each: (each["te"], each["ts"]))
    numbered = [
        {**each, "source": "s0", "seq": n, "arrival": each["te"]} for n, each in enumerate(in_order)
    ]
    plans = tuple(query(text, name=f"q{n}") for n, text in enumerate(texts))
    chain = Chain(ChainSettings(parse_order("sequence"), plans), "main")
    return [
        sorted(
            f"{attack['ts']} {led['ts']}" + (f"|{led['te']}" if led["te"] > led["ts"] else "")
            for attack, led in (each["events"] for each in of)
        )
        for of in chain.process([frame(numbered)]).results
    ]


def test_each_pair_of_intervals_is_in_one_of_allens_relations() -> None:
    """L10 Table 5.1: all proper intervals of a small line, two by two, each in one of 13."""
    spans = [Span(start, end) for start in range(4) for end in range(start + 1, 5)]
    events = [
        Event(kind, span.start, long=span.end - span.start, source=kind)
        for kind in "AB"
        for span in spans
    ]
    every: list[tuple[int, ...]] = []
    for word in [*RELATIONS, *MIRRORS]:
        plan = query(f"EVENT ISEQ[a {word} b](A a, B b)")
        settings = PatternSettings(keep_late_ns=10**6)
        found = [*matches(run(lambda: SeqMatcher(plan, settings), events))]  # noqa: B023
        assert found, word
        assert all(stands(word, spans[a], spans[b - len(spans)]) for a, b in found), word
        every += found
    assert len(every) == len(set(every)) == len(spans) ** 2


def test_the_probability_of_an_interval_relation() -> None:
    """a overlaps b: a.ts < b.ts and a.te < b.te are open, b.ts < a.te is certain."""

    def emitted(restrictions: str, *events: Event) -> tuple[str, float]:
        steps = ", ".join(f"{event.type} {event.type.lower()}" for event in events)
        plan = query(f"EVENT ISEQ[{restrictions}]({steps})")
        (result,) = run(lambda: SeqMatcher(plan, PatternSettings()), list(events))
        return result["certainty"], result["probability"]

    a, b = Event("A", 0, 5, "x", long=40), Event("B", 0, 5, "y", long=40)
    assert emitted("a OVERLAPS b", a, b) == ("uncertain", 0.5)
    # Both ends move together, so the tighter of the two orders decides: b.te is 5 after a.te.
    later = Event("B", 5, 5, "y", long=40)
    assert emitted("a OVERLAPS b", a, later)[1] == pytest.approx(1 - 5**2 / (2 * 10**2))
    # A third event that is certain: sampled, not by the closed form.
    chance = emitted("a OVERLAPS b, a.te < c.ts", a, later, Event("C", 90))[1]
    assert chance == pytest.approx(1 - 5**2 / (2 * 10**2), abs=0.01)
    # One clock: exact.
    one = [Event(kind, ref, 5, "x", 1, long=40) for ref, kind in enumerate("AB")]
    assert emitted("a OVERLAPS b", *one) == ("confirmed", 1.0)
