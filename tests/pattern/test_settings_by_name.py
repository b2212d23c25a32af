"""Barriers, purges and spilling by name: the short forms, and what is said of wrong ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slackwater.engine.barrier.registry import BarrierSettings, barrier_in_force, parse_barrier
from slackwater.engine.cli.app import run
from slackwater.engine.core.errors import UserError
from slackwater.engine.hosts.options import QueryOptions
from slackwater.engine.operators.match.spill.bounds import SpillSettings, parse_spill
from slackwater.engine.query import query
from slackwater.engine.query.pattern_settings import PurgeSettings, parse_purge

MS, S = 10**6, 10**9
QUERY = "EVENT SEQ(A a, !C c, B b) WITHIN 10"


@pytest.mark.parametrize(
    ("parse", "text", "want"),
    [
        (parse_purge, "late", PurgeSettings()),
        (parse_purge, "late:10 s", PurgeSettings("late", 10 * S)),
        (parse_purge, "slack:5", PurgeSettings("slack", 5)),
        (parse_purge, " promises : 1ms ", PurgeSettings("promises", MS)),
        (parse_spill, "x/y, hot=10, chunk=2s ,pending=5,wait=0",
         SpillSettings(Path("x/y"), 10, 2 * S, 5, 0, None)),
        (parse_spill, "state,parts=7", SpillSettings(None, parts=7)),
        (parse_barrier, "hold:3,ordered", BarrierSettings("hold", 3, ordered=True)),
    ],
)  # fmt: skip
def test_short_forms(parse: Callable[[str], Any], text: str, want: Any) -> None:
    assert parse(text) == want


@pytest.mark.parametrize(
    ("parse", "text", "said"),
    [
        (
            parse_purge,
            "often",
            "'often' is unknown; use late, late:10s, slack:1s or promises",
        ),
        (parse_purge, "slack", "purge slack needs its K, as in slack:1s"),
        (parse_purge, "late:50 years", "no fixed length"),
        (parse_purge, "slack:40000 d", "at most"),
        (parse_barrier, "later", "use immediate, punctuation, bounded:K, hold:H, adaptive"),
        (parse_barrier, "bounded", "needs its K, as in bounded:500ms"),
        (parse_barrier, "hold:", "needs its H"),
        (parse_barrier, "immediate:3", "takes no duration"),
        (parse_barrier, "hold:3,sorted", "there is only ordered"),
        (parse_barrier, "bounded:x", "not a duration"),
        (parse_barrier, "bounded:99 d,ordered,ordered", "there is only ordered"),
        (parse_barrier, "bounded:50000 d", "at most"),
        (parse_spill, "", "name the folder"),
        (parse_spill, "hot=1s", "name the folder"),
        (parse_spill, "x,hots=1s", "is unknown"),
        (parse_spill, "x,hot", "is unknown"),
        (parse_spill, "x,hot=1s,hot=2s", "twice"),
        (parse_spill, "x,hot=fast", "hot=fast"),
        (parse_spill, "x,chunk=0", "longer than 0"),
        (parse_spill, "x,pending=0", "of events from 1 to 1000000000"),
        (parse_spill, "x,pending=1.5", "of events from 1 to"),
        (parse_spill, "x,hot=290 years", "hot=290 years"),
        (parse_spill, "x,parts=5000", "of parts from 1 to 4096"),
    ],
)
def test_wrong_ones_are_refused(parse: Callable[[str], Any], text: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        parse(text)


@pytest.mark.parametrize(
    ("text", "spill", "said"),
    [
        ("EVENT SEQ(A a, B b)", "chunks", "query 'q1': spill needs WITHIN"),
        (QUERY, "chunks,parts=2", "parts=2 needs one key that all its events share"),
    ],
)
def test_a_query_that_cannot_spill_is_refused_before_any_event(
    tmp_path: Path, text: str, spill: str, said: str
) -> None:
    with pytest.raises(UserError, match=said):
        QueryOptions(spill=str(tmp_path / spill)).answering((query(text),), "ns")


def test_realtime_chooses_unless_a_barrier_is_given() -> None:
    assert barrier_in_force(None, 1) == barrier_in_force(None, None) == BarrierSettings()
    assert barrier_in_force(None, 0) == BarrierSettings("punctuation")
    assert barrier_in_force(BarrierSettings("hold", 3), 0) == BarrierSettings("hold", 3)


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
