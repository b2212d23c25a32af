"""A server with a history of results: kept through a kill, and the next log begins with it."""

from __future__ import annotations

import json
import signal
import subprocess

import pytest

from engine.passes.run_history import key_histories
from tests.check.test_history_file import known
from tests.check.test_kept_history import FLAPS
from tests.live.conftest import ENV, SLACKWATER, Field, until
from tests.live.test_answers import answered, asked, run_through


@pytest.mark.slow
def test_a_server_begins_with_it_and_keeps_it_through_a_kill(field: Field) -> None:
    field.site(asked({"q1": FLAPS}, more='history = "found.db"'))
    history = field.folder / "found.db"
    gateway = field.serve()
    run_through(field, "door", range(40))
    until(lambda: history.exists() and [*key_histories(history)], "a history")
    gateway.end(signal.SIGKILL)
    gateway = field.serve()
    run_through(field, "gate", range(40))
    assert gateway.end() == 0, gateway.text
    other = ("--history", "other.db")
    said = subprocess.run(
        [*SLACKWATER, "query", FLAPS, "--input", "site.log", "--quiet", *other],
        cwd=field.folder, env=ENV, check=True, capture_output=True,
    ).stdout  # fmt: skip
    assert answered(field, "q1") + answered(field, "q1", ".end") == said
    assert known(history) == known(field.folder / "other.db") != []
    doubtful = ["doubtful" in json.loads(line) for line in said.splitlines()]
    assert not any(doubtful[:50])
    assert all(doubtful[50:])
    assert len(doubtful) > 60
    for name in ("site.log", "site.log.answers"):
        (field.folder / name).rename(field.folder / f"first.{name}")
    gateway = field.serve()
    run_through(field, "door2", range(5))
    assert gateway.end() == 0, gateway.text
    assert "doubtful" in json.loads(answered(field, "q1").splitlines()[0])
