"""What ``slackwater query`` says of queries that wait for promises nobody gives."""

from __future__ import annotations

from typing import Any

import pytest

TEXT = "EVENT SEQ(A a, !C c, B b) WITHIN 10 ns"
EVENTS = [{"type": "A", "ts": 1}, {"type": "C", "ts": 0}, {"type": "B", "ts": 5}]
IN_PROCESS = ("--in-process", "--order", "none")
WARNING = "warning: q1: nothing in the input promises C (kind pog)"


def asked(cli: Any, trace: Any, records: list[dict[str, Any]], *more: str, text: str = TEXT) -> Any:
    ran = cli("query", text, "--input", trace(*records), *IN_PROCESS, *more)
    assert ran.code == 0
    return ran


def test_a_negated_type_that_nobody_promises(cli: Any, trace: Any) -> None:
    other = {"kind": "pog", "type": "A", "source": "s0", "ts": 9}
    ran = asked(cli, trace, [*EVENTS, other, {"kind": "tick", "arrival": 90}],
                "--barrier", "punctuation")  # fmt: skip
    assert WARNING in ran.err
    assert "q1: matches until end: 1\n" in ran.err
    assert [line["at"] for line in ran.lines] == [90]


@pytest.mark.parametrize(
    "pog",
    [
        {"kind": "pog", "type": "C", "ts": 9},
        {"kind": "pog", "type": "C", "source": "s0", "ts": 9},
        {"kind": "pog", "source": "s0", "ts": 9},
    ],
)
def test_a_promise_anywhere_in_the_input_is_enough(pog: Any, cli: Any, trace: Any) -> None:
    ran = asked(cli, trace, [*EVENTS, pog, {"kind": "tick", "arrival": 90}],
                "--barrier", "punctuation")  # fmt: skip
    assert "warning" not in ran.err
    assert "until end" not in ran.err
    assert [line["at"] for line in ran.lines] == [4]


def test_realtime_0_waits_for_promises_too(cli: Any, trace: Any) -> None:
    assert WARNING in asked(cli, trace, EVENTS, text=f"{TEXT} REALTIME 0").err
    assert "warning" not in asked(cli, trace, EVENTS, text=f"{TEXT} REALTIME 1").err


@pytest.mark.parametrize(
    ("barrier", "types"),
    [
        ("immediate", ""), ("bounded:1s,ordered", ""), ("hold:1s", ""), ("adaptive", "C"),
        ("immediate,ordered", "A or B"), ("punctuation,ordered", "A or B or C"),
    ],
)  # fmt: skip
def test_which_types_a_barrier_waits_for(barrier: str, types: str, cli: Any, trace: Any) -> None:
    ran = asked(cli, trace, EVENTS, "--barrier", barrier)
    assert (f"promises {types} (kind" in ran.err) if types else ("kind pog" not in ran.err)


def test_behind_an_order_its_progress_is_the_promise(cli: Any, trace: Any) -> None:
    ran = cli("query", TEXT, "--input", trace(*EVENTS), "--in-process", "--order", "kslack:1ns",
              "--barrier", "punctuation")  # fmt: skip
    assert (ran.code, "warning" in ran.err) == (0, False)


def test_without_negation_nothing_waits(cli: Any, trace: Any) -> None:
    ran = asked(cli, trace, EVENTS, "--barrier", "punctuation", text="EVENT SEQ(A, B) WITHIN 9 ns")
    assert "warning" not in ran.err


def test_a_source_that_ended_holds_nothing_back(cli: Any, trace: Any) -> None:
    records = [{**event, "source": source} for event, source in zip(EVENTS, "acb", strict=True)]
    late = {"type": "C", "source": "d", "ts": 0}
    pog = {"kind": "pog", "source": "d", "type": "C", "ts": 7}
    ended = {"kind": "eos", "source": "c", "arrival": 50}
    tick = {"kind": "tick", "arrival": 90}
    ran = asked(cli, trace, [*records, late, pog, ended, tick], "--barrier", "punctuation")
    assert [line["at"] for line in ran.lines] == [50]
    ran = asked(cli, trace, [*records, late, pog, tick], "--barrier", "punctuation")
    assert [line["at"] for line in ran.lines] == [90]


def test_promises_whose_events_do_not_come_are_counted(cli: Any, trace: Any) -> None:
    lost = {"kind": "pog", "source": "s0", "seq": 4, "ts": 9}
    tick = {"kind": "tick", "arrival": 90}
    records = [*EVENTS, lost, tick]
    arguments = ("--in-process", "--barrier", "punctuation", "--order")
    ran = cli("query", TEXT, "--input", trace(*records), *arguments, "none:wait=20ns")
    assert ([line["at"] for line in ran.lines], ran.code) == ([24], 0)
    assert "3 events in process: 1 promises before their events\n" in ran.err
    ran = cli("query", TEXT, "--input", trace(*records), *arguments, "none")
    assert [line["at"] for line in ran.lines] == [90]
    assert "before their events" not in ran.err
