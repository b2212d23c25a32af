"""``slackwater query`` with negated steps: SPEC 4.1, 4.5 from the outside, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

QUIET = ("--in-process", "--quiet")
LI = "a3 c5 b6 a7 d10 b11 c13 d15 f16 c9"


def stream(text: str) -> list[dict[str, Any]]:
    """``a3 c5`` as events A at 3 and C at 5, arriving one after another."""
    return [{"type": word[0].upper(), "ts": int(word[1:])} for word in text.split()]


def told(ran: Any) -> list[tuple[str, int, list[int]]]:
    return [(line["op"], line["at"], [e["ts"] for e in line["events"]]) for line in ran.lines]


def test_spec_4_5_aggressive_takes_the_match_back_when_c9_arrives(cli: Any, trace: Any) -> None:
    text = "EVENT SEQ(A, B, !C, D) WITHIN 10"
    ran = cli("query", text, "--input", trace(*stream(LI)), "--order", "none", *QUIET)
    arrival = {word: at for at, word in enumerate(LI.split(), 1)}
    assert told(ran) == [("+", arrival["d10"], [3, 6, 10]), ("-", arrival["c9"], [3, 6, 10])]
    plus, minus = ran.lines
    assert minus == plus | {"op": "-", "at": arrival["c9"]}


def test_an_order_before_it_spares_the_retraction(cli: Any, trace: Any) -> None:
    text = "EVENT SEQ(A, B, !C, D) WITHIN 10"
    ran = cli("query", text, "--input", trace(*stream(LI)), "--order", "kslack:8", *QUIET)
    assert (ran.code, ran.lines) == (0, [])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("EVENT SEQ(!A, !B) WITHIN 5", "every step is negated"),
        ("EVENT SEQ(A, !B)", "'B' is negated and stands at an end"),
        ("EVENT SEQ(A, !B b, C) RETURN b.ts", "'b' is negated, so no match has it"),
        ("EVENT SEQ(A, !B b, !C c, D) WHERE b.ts < c.ts", "this joins two negated steps, b and c"),
        ("EVENT SEQ(A, !SEQ(B, C), D)", "SEQ(...) cannot be negated"),
    ],
)
def test_what_cannot_be_meant_is_told(text: str, said: str, cli: Any, trace: Any) -> None:
    ran = cli("query", text, "--input", trace(*stream("a1")), *QUIET)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert "^" in ran.err
