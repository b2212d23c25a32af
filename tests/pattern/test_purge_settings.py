"""Purges by name: the short form, what is refused, and what a user sees of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from engine.cli.app import run
from engine.errors import UserError
from engine.query.purge_settings import PurgeSettings, parse_purge

QUERY = "EVENT SEQ(A a, !C c, B b) WITHIN 10"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("late", PurgeSettings()), ("late:10 s", PurgeSettings("late", 10 * 10**9)),
        ("slack:5", PurgeSettings("slack", 5)), ("promises", PurgeSettings("promises")),
        (" promises : 1ms ", PurgeSettings("promises", 10**6)),
    ],
)  # fmt: skip
def test_short_forms(text: str, want: PurgeSettings) -> None:
    assert parse_purge(text) == want


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("often", "purge 'often' is unknown; use late, late:10s, slack:1s or promises"),
        ("slack", "purge slack needs its K, as in slack:1s"),
        ("late:50 years", "unit"), ("slack:40000 d", "at most"),
    ],
)  # fmt: skip
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        parse_purge(text)


def test_the_command_takes_a_purge_and_explains_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "t.jsonl"
    records = [{"type": kind, "ts": ts} for kind, ts in (("A", 1), ("B", 5), ("A", 40), ("B", 4))]
    trace.write_text("".join(json.dumps(record) + "\n" for record in records))
    counts = {}
    for purge in ("late", "slack:5"):
        assert run(["query", QUERY, "--input", str(trace), "--order", "none", "--in-process",
                    "--purge", purge]) == 0  # fmt: skip
        counts[purge] = len(capsys.readouterr().out.splitlines())
    # b4 comes when the clock stands at 40: with K = 5 nothing may come so late.
    assert counts == {"late": 2, "slack:5": 1}
    assert run(["query", "EXPLAIN " + QUERY, "--purge", "slack:5"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "+ 10 ns (WITHIN) + 5 ns (K) lies behind the event clock" in said
    assert run(["query", "EXPLAIN " + QUERY, "--purge", "promises"]) == 0
    assert "once promises leave it without a partner" in " ".join(capsys.readouterr().out.split())
