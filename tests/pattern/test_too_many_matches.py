"""Patterns whose matches grow much faster than events: bounded pieces, and an end with a word."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import time
from math import comb
from pathlib import Path
from typing import Any

import pytest

import slackwater
from slackwater import inputs
from slackwater.engine.core.errors import OverBudget
from slackwater.engine.core.frame import Frame
from slackwater.engine.hosts.chain import ChainSettings, site_chain
from slackwater.engine.hosts.chain.site_chain import Chain
from slackwater.engine.log.arrival_log import opened
from slackwater.engine.order.registry import parse_order
from slackwater.engine.query import query
from slackwater.engine.query.pattern_settings import PatternSettings

EXPLOSIVE = {
    "SEQ": "EVENT SEQ(A a, A b, A c, A d) WITHIN 1 d",
    "repetition": "EVENT A+ a[] WITHIN 1 d",
    "join": "SELECT a.v AS v, b.v AS w FROM events a JOIN events b WITHIN 1 d",
    "tree": "EVENT PAL(A a, A b, A c, A d) WITHIN 1 d",
    "readings": "EVENT SEQ(A+ a[], A* b[]) WITHIN 1 d",
}
"""Of attack-06."""


def table(n: int) -> dict[str, list[Any]]:
    return {"type": ["A"] * n, "ts": list(range(n)), "seq": list(range(n)), "v": [1] * n}


@pytest.mark.filterwarnings("ignore::slackwater.SlackwaterWarning")
@pytest.mark.parametrize("kind", EXPLOSIVE)
def test_attack_06_a_query_with_too_many_matches_ends_with_a_word(kind: str) -> None:
    with pytest.raises(OverBudget) as failed:
        slackwater.query(table(200), {"boom": EXPLOSIVE[kind]}, order="none", matches_max=50)
    assert pickle.loads(pickle.dumps(failed.value)).query == "boom"
    said = str(failed.value)
    one = "query 'boom': one event completes or changes more than 50 matches. Ask for fewer"
    assert said.startswith(one) or (kind == "join" and "call complete more than 250" in said)
    assert "matches_max 100" in str(failed.value)


@pytest.mark.parametrize(
    "bounded",
    ["EVENT SEQ(A a, A b, A c, A d) WITHIN 4", "EVENT A+ a[] WITHIN 1 d LIMIT 1",
     "EVENT A+ a[] WITHIN 1 d CONTIGUITY STRICT SKIP TO NEXT"],
)  # fmt: skip
def test_the_remedies_in_the_message_work(bounded: str) -> None:
    assert len(slackwater.query(table(60), bounded, order="none", matches_max=200)) >= 57


def test_more_matches_may_be_asked_for() -> None:
    found = slackwater.query(table(20), "EVENT SEQ(A a, A b, A c) WITHIN 1 d", order="none")
    assert len(found) == comb(20, 3)


def test_what_a_barrier_holds_back_is_bounded_too() -> None:
    text = "EVENT SEQ(A a, A b, !B n) WITHIN 1 d"
    events = table(40)
    events["type"][0] = "B"
    with pytest.raises(OverBudget, match="its barrier holds back more than 600 matches"):
        slackwater.query(events, text, order="none", barrier="bounded:1h", matches_max=120)


@pytest.mark.parametrize("number", [0, -1])
def test_a_bound_below_one_is_refused(number: int) -> None:
    with pytest.raises(slackwater.UserError, match=f"matches_max {number}: a number from 1"):
        slackwater.query(table(2), "EVENT A a", matches_max=number)


def test_matches_come_in_pieces_and_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls take fewer events while these give much, and more again."""
    monkeypatch.setattr(site_chain, "_MATCHES_AT_ONCE", 4)
    monkeypatch.setattr(site_chain, "_ROWS_LEAST", 1)
    events = table(60)
    events["type"] = ["A" if row < 12 else "B" for row in range(60)]
    settings = ChainSettings(
        parse_order("none"), (query("EVENT SEQ(A a, A b, A c) WITHIN 30"),),
        pattern=PatternSettings(matches_max=55),
    )  # fmt: skip
    frames = list(frames_of(events))
    chain = Chain(settings, "main")
    pieces = [sum(part.content().num_rows for part in parts) for parts in chain.next_parts(frames)]
    assert sum(pieces) == comb(12, 3)
    assert max(pieces) <= comb(11, 2)  # those of the last A
    assert len(pieces) < 30
    whole = Chain(settings, "main").process(frames)
    assert len(whole.results[0]) == comb(12, 3)


def frames_of(events: dict[str, list[Any]]) -> list[Frame]:
    with inputs.opened(events) as given:
        return list(opened(given.log).of_sites(None))


@pytest.mark.slow
@pytest.mark.parametrize("kind", EXPLOSIVE)
def test_attack_06_ends_soon_and_in_bounded_memory(tmp_path: Path, kind: str) -> None:
    trace = tmp_path / "a.jsonl"
    lines = (json.dumps({"type": "A", "ts": row, "attrs": {"v": 1}}) for row in range(3000))
    trace.write_text("\n".join(lines))
    # Its own word of the most that it had: what counts as a child's has this process's, too.
    measured = tmp_path / "status"
    program = (
        "import atexit, shutil, sys; from slackwater.engine.cli import main; "
        f"atexit.register(shutil.copyfile, '/proc/self/status', {str(measured)!r}); "
        "sys.exit(main())"
    )
    command = [
        sys.executable, "-c", program, "query", EXPLOSIVE[kind], "--input", str(trace),
        "--out", str(tmp_path / "o.jsonl"), "--quiet",
    ]  # fmt: skip
    begun = time.monotonic()
    ran = subprocess.run(command, check=False, capture_output=True, text=True, env=dict(os.environ))
    taken = time.monotonic() - begun
    used = int(measured.read_text().partition("VmHWM:")[2].split()[0]) >> 10
    assert used < 1500, f"{used} MB"
    assert taken < 300
    if kind == "join":  # 4.5 million pairs, of which one event has 6,000 at most
        assert ran.returncode == 0, ran.stderr
    else:
        assert ran.returncode == 2, ran.stderr
        assert "query 'q1': one event completes or changes more than 200,000 matches" in ran.stderr
