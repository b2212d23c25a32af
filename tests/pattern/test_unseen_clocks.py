"""Purge, expiry and closing count on the clock of every synchronised source (SPEC 4.3)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pattern.chain_lines import answered, event, pog, sync


def test_a_purge_by_promises_keeps_what_an_unseen_source_may_need(tmp_path: Path) -> None:
    """What s2 sends is wrong by up to 8, though it has sent nothing when B would be dropped."""
    lines = [
        sync("s1", 0), sync("s2", 8), event("B", 100, "s1"), pog("A", 101, "s2", 100),
        pog(None, 101, "s1", 100), event("A", 101, "s2"),
    ]  # fmt: skip
    for purge in ("late", "promises"):
        found, counts = answered(tmp_path, "EVENT SEQ(A a, B b)", lines, purge=purge)
        assert found == ["+101,100 uncertain @101"], purge
        assert counts.get("promises_broken", 0) == 0


@pytest.mark.parametrize("purge", ["late:0", "slack:0", "late", "promises:0"])
@pytest.mark.parametrize("order", ["none", "kslack:0", "sequence"])
def test_expiry_counts_on_the_error_of_the_partner(tmp_path: Path, purge: str, order: str) -> None:
    lines = [sync("s1", 8), sync("s2", 8), event("A", 0, "s1"), event("B", 28, "s2"),
             event("F", 90, "s1"), event("F", 90, "s2")]  # fmt: skip
    found, _ = answered(tmp_path, "EVENT SEQ(A a, B b) WITHIN 16", lines, purge=purge, order=order)
    assert [result.split(" @")[0] for result in found] == ["+0,28 uncertain"]


@pytest.mark.parametrize("purge", ["late:0", "slack:0", "late"])
@pytest.mark.parametrize("certainty", ["pairwise", "max-delay"])
def test_a_negated_step_at_the_end_is_in_doubt_as_long_as_clocks_say(
    tmp_path: Path, purge: str, certainty: str
) -> None:
    lines = [sync("s1", 8), sync("s2", 8), event("A", 0, "s1"), event("B", 5, "s1"),
             event("C", 28, "s2")]  # fmt: skip
    text = "EVENT SEQ(A a, B b, !C c) WITHIN 16"
    found, _ = answered(tmp_path, text, lines, purge=purge, order="kslack:0", certainty=certainty)
    assert found[-1].startswith("+0,5 uncertain")


@pytest.mark.parametrize(
    ("text", "x"),
    [("SEQ(A a, !C c, B b)", 10), ("SEQ(A a, B b, !C c)", 18), ("SEQ(!C c, A a, B b)", 2)],
)
@pytest.mark.parametrize("barrier", ["punctuation", "punctuation,ordered", "bounded:0"])
def test_nothing_leaves_before_an_unseen_source_cannot_change_it(
    tmp_path: Path, text: str, x: int, barrier: str
) -> None:
    """s2 promises that nothing below x + 2 comes, and what it sends then may lie 8 earlier."""
    lines = [
        sync("s1", 0), sync("s2", 8), pog("C", 0, "s2", 0), event("A", 2, "s1"),
        event("B", 10, "s1"), pog("C", x + 2, "s2", x + 10), pog(None, x + 2, "s1", x + 10),
        event("C", x + 2, "s2", x + 11),
    ]  # fmt: skip
    text = f"EVENT {text} WITHIN 16"
    if barrier == "bounded:0":
        c = max(x + 2, 10)
        lines[5:] = [event("F", c - 1, "s1", x + 10), event("C", c, "s2", x + 11)]
    found, counts = answered(tmp_path, text, lines, barrier)
    assert (counts["promises_broken"], [result[0] for result in found]) == (0, ["+"])
    assert "uncertain" in found[0]


def test_a_scope_closes_where_no_clock_reaches_it_any_more(tmp_path: Path) -> None:
    """x = 10, s2 errs by 8: a C at 18 may lie before it, one at 19 cannot."""

    def at(promised: int) -> list[str]:
        lines = [
            sync("s1", 0), sync("s2", 8), pog("C", 0, "s2", 0), event("A", 2, "s1"),
            event("B", 10, "s1"), pog("C", promised, "s2", 30), event("F", 40, "s1"),
        ]  # fmt: skip
        return answered(tmp_path, "EVENT SEQ(A a, !C c, B b)", lines, "punctuation")[0]

    assert at(18) == ["+2,10 confirmed @40"]
    assert at(19) == ["+2,10 confirmed @30"]


def test_what_grows_with_the_age_of_a_sync_is_counted_on_too(tmp_path: Path) -> None:
    """At 0.1 % for 10 s a clock is wrong by 10 ms more than when it was synchronised."""
    second, ms = 10**9, 10**6
    late, c = 10 * second, 10 * second + 8 * ms
    lines = [
        sync("s1", 0), sync("s2", ms, skew_error_ppb=10**6), pog("C", 0, "s2", 0),
        event("A", late - second, "s1"), event("B", late, "s1"),
        pog("C", c, "s2", c), event("C", c, "s2", c + ms),
    ]  # fmt: skip
    found, counts = answered(tmp_path, "EVENT SEQ(A a, !C c, B b)", lines, "punctuation")
    assert [result.split()[1] for result in found] == ["uncertain"]
    assert (counts["promises_broken"], found[0][0]) == (0, "+")


def test_a_source_that_is_synchronised_while_a_match_waits_counts(tmp_path: Path) -> None:
    lines = [
        sync("s1", 0), sync("s2", 0), pog("C", 0, "s2", 0), event("A", 2, "s1"),
        event("B", 10, "s1"), sync("s2", 8, 11), pog("C", 12, "s2", 12), event("C", 12, "s2", 13),
    ]  # fmt: skip
    found, counts = answered(tmp_path, "EVENT SEQ(A a, !C c, B b)", lines, "punctuation")
    assert found == ["+2,10 uncertain @13"]
    assert counts["promises_broken"] == 0


def test_results_in_order_wait_for_what_two_errors_may_bring_together(tmp_path: Path) -> None:
    """A at 20 and B at 9, each wrong by up to 6, may be a match that is older than 1,10."""
    lines = [
        sync("s1", 0), sync("s2", 6), sync("s3", 6), event("A", 1, "s1"), event("B", 10, "s1"),
        event("B", 9, "s2", 11), pog("A", 0, "s3", 11), pog(None, 99, "s1", 12),
        pog(None, 99, "s2", 13), pog(None, 17, "s3", 14), pog("B", 99, "s3", 15),
        event("A", 20, "s3"), pog(None, 99, "s3", 21),
    ]  # fmt: skip
    found, counts = answered(tmp_path, "EVENT SEQ(A a, B b)", lines, "immediate,ordered")
    assert [result.split()[0] for result in found] == ["+1,9", "+20,9", "+1,10"]
    assert counts["promises_broken"] == 0
