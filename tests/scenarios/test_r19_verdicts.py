"""R19's claims are judged twice: by what is printed and by what its author's program does."""

from __future__ import annotations

import pytest

from slackwater.engine.order.registry import parse_order
from slackwater.engine.order.sequence.order import SequenceSettings
from slackwater.paper import Finding
from slackwater.scenarios.papers.r19.orders import CODE, PRINTED
from slackwater.scenarios.papers.r19.verdicts import CodedClaim, by_code, judged, summary


def claim(holds: bool, code: bool | None) -> CodedClaim:
    said = None if code is None else (code, "7 ms")
    return judged("It is so.", holds, "5 ms", "6 ms", "it is late.", said)


@pytest.mark.parametrize(
    ("holds", "code", "verdict"),
    [(True, True, True), (True, False, False), (False, True, True), (True, None, True),
     (False, None, False)],
)  # fmt: skip
def test_a_claim_says_what_the_code_makes_of_it(
    holds: bool, code: bool | None, verdict: bool
) -> None:
    made = claim(holds, code)
    assert by_code(made) == verdict
    line = f"By its author's code: {'holds' if code else 'fails'}, 7 ms."
    assert (line in made.detail.splitlines()) == (code is not None)


def test_the_summary_counts_the_verdicts_that_change() -> None:
    claims = [claim(True, False), claim(False, True), claim(False, True), claim(True, None)]
    found = {"table-1": Finding(tuple(claims[:2]), ()), "table-2": Finding(tuple(claims[2:]), ())}
    said = "By its author's code 3 of 4 hold: 2 more, and 1 of these not."
    assert summary(found).startswith(said)
    assert summary({"table-1": Finding((claim(True, True), claim(False, None)), ())}) == ""


def test_both_are_run_with_the_same_settings() -> None:
    printed, code = (parse_order(each.order) for each in (PRINTED, CODE))
    assert isinstance(printed, SequenceSettings)
    assert isinstance(code, SequenceSettings)
    assert (printed.latency_ns, printed.late) == (code.latency_ns, code.late) == (5 * 10**8, "pass")
    assert (code.alpha_milli, code.beta_milli, code.interval_factor) == (500, 500, 10**9)
