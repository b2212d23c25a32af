"""``--barrier`` and REALTIME from the outside: SPEC 4.2, 4.5 and 4.8."""

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


def told(ran: Any) -> list[tuple[str, int]]:
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
    assert told(cli("query", QUERY, *given, *QUIET)) == want


def test_spec_4_8_realtime_says_when_unless_a_barrier_does(cli: Any, trace: Any) -> None:
    given = ("--input", trace(*records(LI + " c10! f18")), "--order", "none", *QUIET)
    assert told(cli("query", QUERY + " REALTIME 1", *given)) == [("+", 5)]
    assert told(cli("query", QUERY + " REALTIME 0", *given)) == [("+", 10)]
    assert told(cli("query", QUERY + " REALTIME 0", *given, "--barrier", "immediate")) == [("+", 5)]


def test_an_order_before_the_query_promises(cli: Any, trace: Any) -> None:
    given = ("--input", trace(*records(LI)), "--order", "kslack:3", *QUIET)
    # c13 (arrival 7) lets d10 go, and nothing below it comes in order any more.
    assert told(cli("query", QUERY, *given, "--barrier", "punctuation")) == [("+", 7)]


def test_broken_promises_are_told(cli: Any, trace: Any) -> None:
    given = ("--input", trace(*records(LI + " c9")), "--order", "none", "--in-process")
    ran = cli("query", QUERY, *given, "--barrier", "bounded:6")
    assert "q1: promises broken: 1 events" in ran.err
    assert "q1: matches corrected: 1\n" in ran.err


@pytest.mark.parametrize(
    ("barrier", "said"),
    [("x", "barrier 'x' is unknown; use immediate"), ("bounded", "needs its K"),
     ("hold:1 parsec", "unknown time unit"), ("immediate,sorted", "there is only ordered")],
)  # fmt: skip
def test_a_wrong_barrier_is_told(barrier: str, said: str, cli: Any, trace: Any) -> None:
    ran = cli("query", QUERY, "--input", trace(*records(LI)), "--barrier", barrier, *QUIET)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
