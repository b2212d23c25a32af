"""Barriers, negated steps and promises in ``slackwater query``: SPEC 4.1, 4.2, 4.5 and 4.8."""

from __future__ import annotations

from typing import Any

import pytest

QUIET = ("--in-process", "--quiet")
QUERY = "EVENT SEQ(A, B, !C, D) WITHIN 10"


def records(text: str) -> list[dict[str, Any]]:
    """``a3`` an event A at 3, ``c10!`` a promise, ``tick50`` silence until 50."""
    found: list[dict[str, Any]] = []
    for at, word in enumerate(text.split(), 1):
        if word.startswith("tick"):
            found.append({"kind": "tick", "arrival": int(word[4:])})
        elif word.endswith("!"):
            pog = {"kind": "pog", "type": word[0].upper(), "ts": int(word[1:-1]), "arrival": at}
            found.append(pog)
        else:
            found.append({"type": word[0].upper(), "ts": int(word[1:]), "arrival": at})
    return found


def changes(ran: Any) -> list[tuple[str, int]]:
    assert ran.code == 0, ran.err
    return [(line["op"], line["at"]) for line in ran.lines]


LI = "a3 c5 b6 a7 d10 b11 c13 d15 f16"


@pytest.mark.parametrize(
    ("barrier", "text", "want"),
    [
        ("immediate", LI, [("+", 5)]), ("bounded:6", LI, [("+", 9)]),
        ("bounded:6", LI + " c9", [("+", 9), ("-", 10)]),
        ("bounded:7", LI, [("+", 9)]), ("bounded:7", LI + " c9", []),
        ("punctuation", LI + " c10! f18", [("+", 10)]), ("punctuation", LI + " f17", [("+", 10)]),
        ("hold:20", LI + " tick50", [("+", 25)]), ("hold:3", LI, [("+", 8)]),
        ("hold:20,ordered", LI + " tick50", [("+", 50)]),
        ("bounded:6,ordered", LI, [("+", 9)]), ("adaptive", LI + " c9", [("+", 5), ("-", 10)]),
    ],
)  # fmt: skip
def test_spec_4_5_over_the_stream_of_l10(
    barrier: str, text: str, want: list[tuple[str, int]], cli: Any, trace: Any
) -> None:
    given = ("--input", trace(*records(text)), "--order", "none", "--barrier", barrier)
    assert changes(cli("query", QUERY, *given, *QUIET, "--changes")) == want


def test_spec_4_8_realtime_says_when_unless_a_barrier_does(cli: Any, trace: Any) -> None:
    given = ("--input", trace(*records(LI + " c10! f18")), "--order", "none", *QUIET)
    assert changes(cli("query", QUERY + " REALTIME 1", *given)) == [("+", 5)]
    assert changes(cli("query", QUERY + " REALTIME 0", *given)) == [("+", 10)]
    assert changes(cli("query", QUERY + " REALTIME 0", *given, "--barrier", "immediate")) == [
        ("+", 5)
    ]


def test_an_order_before_the_query_promises(cli: Any, trace: Any) -> None:
    given = ("--input", trace(*records(LI)), "--order", "kslack:3", *QUIET)
    # c13 (arrival 7) lets d10 go, and nothing below it comes in order any more.
    assert changes(cli("query", QUERY, *given, "--barrier", "punctuation")) == [("+", 7)]


def test_broken_promises_are_reported(cli: Any, trace: Any) -> None:
    given = ("--input", trace(*records(LI + " c9")), "--order", "none", "--in-process")
    ran = cli("query", QUERY, *given, "--barrier", "bounded:6")
    assert "q1: promises broken: 1 events" in ran.err
    assert "q1: matches corrected: 1\n" in ran.err


@pytest.mark.parametrize(
    ("barrier", "said"),
    [("x", "barrier 'x' is unknown; use immediate"), ("bounded", "needs its K"),
     ("hold:1 parsec", "unknown time unit"), ("immediate,sorted", "there is only ordered")],
)  # fmt: skip
def test_a_wrong_barrier_is_reported(barrier: str, said: str, cli: Any, trace: Any) -> None:
    ran = cli("query", QUERY, "--input", trace(*records(LI)), "--barrier", barrier, *QUIET)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


OF_L10 = "a3 c5 b6 a7 d10 b11 c13 d15 f16 c9"


def stream(text: str) -> list[dict[str, Any]]:
    """``a3 c5`` as events A at 3 and C at 5, arriving one after another."""
    return [{"type": word[0].upper(), "ts": int(word[1:])} for word in text.split()]


def matches(ran: Any) -> list[tuple[str, int, list[int]]]:
    return [(line["op"], line["at"], [e["ts"] for e in line["events"]]) for line in ran.lines]


def test_spec_4_5_aggressive_takes_the_match_back_when_c9_arrives(cli: Any, trace: Any) -> None:
    text = "EVENT SEQ(A, B, !C, D) WITHIN 10"
    ran = cli(
        "query", text, "--input", trace(*stream(OF_L10)), "--order", "none", "--changes", *QUIET
    )
    arrival = {word: at for at, word in enumerate(OF_L10.split(), 1)}
    assert matches(ran) == [("+", arrival["d10"], [3, 6, 10]), ("-", arrival["c9"], [3, 6, 10])]
    plus, minus = ran.lines
    assert minus == plus | {"op": "-", "at": arrival["c9"]}


def test_an_order_before_it_spares_the_retraction(cli: Any, trace: Any) -> None:
    text = "EVENT SEQ(A, B, !C, D) WITHIN 10"
    ran = cli("query", text, "--input", trace(*stream(OF_L10)), "--order", "kslack:8", *QUIET)
    assert (ran.code, ran.lines) == (0, [])


TEXT = "EVENT SEQ(A a, !C c, B b) WITHIN 10 ns"
EVENTS = [{"type": "A", "ts": 1}, {"type": "C", "ts": 0}, {"type": "B", "ts": 5}]
IN_PROCESS = ("--in-process", "--order", "none")
WARNING = "warning: q1: nothing in the input promises C (kind pog)"


def answered(
    cli: Any, trace: Any, records: list[dict[str, Any]], *more: str, text: str = TEXT
) -> Any:
    ran = cli("query", text, "--input", trace(*records), *IN_PROCESS, *more)
    assert ran.code == 0
    return ran


def test_a_negated_type_that_nobody_promises(cli: Any, trace: Any) -> None:
    other = {"kind": "pog", "type": "A", "source": "s0", "ts": 9}
    ran = answered(cli, trace, [*EVENTS, other, {"kind": "tick", "arrival": 90}],
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
    ran = answered(cli, trace, [*EVENTS, pog, {"kind": "tick", "arrival": 90}],
                "--barrier", "punctuation")  # fmt: skip
    assert "warning" not in ran.err
    assert "until end" not in ran.err
    assert [line["at"] for line in ran.lines] == [4]


def test_realtime_0_waits_for_promises_too(cli: Any, trace: Any) -> None:
    assert WARNING in answered(cli, trace, EVENTS, text=f"{TEXT} REALTIME 0").err
    assert "warning" not in answered(cli, trace, EVENTS, text=f"{TEXT} REALTIME 1").err


@pytest.mark.parametrize(
    ("barrier", "types"),
    [
        ("immediate", ""), ("bounded:1s,ordered", ""), ("hold:1s", ""), ("adaptive", "C"),
        ("immediate,ordered", "A or B"), ("punctuation,ordered", "A or B or C"),
    ],
)  # fmt: skip
def test_which_types_a_barrier_waits_for(barrier: str, types: str, cli: Any, trace: Any) -> None:
    ran = answered(cli, trace, EVENTS, "--barrier", barrier)
    assert (f"promises {types} (kind" in ran.err) if types else ("kind pog" not in ran.err)


def test_behind_an_order_its_progress_is_the_promise(cli: Any, trace: Any) -> None:
    ran = cli("query", TEXT, "--input", trace(*EVENTS), "--in-process", "--order", "kslack:1ns",
              "--barrier", "punctuation")  # fmt: skip
    assert (ran.code, "warning" in ran.err) == (0, False)


def test_without_negation_nothing_waits(cli: Any, trace: Any) -> None:
    ran = answered(
        cli, trace, EVENTS, "--barrier", "punctuation", text="EVENT SEQ(A, B) WITHIN 9 ns"
    )
    assert "warning" not in ran.err


def test_a_source_that_ended_holds_nothing_back(cli: Any, trace: Any) -> None:
    records = [{**event, "source": source} for event, source in zip(EVENTS, "acb", strict=True)]
    late = {"type": "C", "source": "d", "ts": 0}
    pog = {"kind": "pog", "source": "d", "type": "C", "ts": 7}
    ended = {"kind": "eos", "source": "c", "arrival": 50}
    tick = {"kind": "tick", "arrival": 90}
    ran = answered(cli, trace, [*records, late, pog, ended, tick], "--barrier", "punctuation")
    assert [line["at"] for line in ran.lines] == [50]
    ran = answered(cli, trace, [*records, late, pog, tick], "--barrier", "punctuation")
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
