"""The kind ``exec``: real programs."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from slackwater.edge_agent.errors import SettingsError
from slackwater.engine.sinks.base import RefusedError, RetryError
from slackwater.engine.sinks.kinds import exec_sink
from tests.sinks.receivers import Answers, run_through, table_of
from tests.sinks.test_http import items

KEEPS = """
import json, sys
lines = sys.stdin.readlines()
if any(json.loads(line)["result"].get("n") == 13 for line in lines):
    sys.stderr.write("no 13 here\\n")
    sys.exit(65)
with open(sys.argv[1], "a") as sink:
    sink.writelines(lines)
"""


def python(text: str, *more: str) -> dict[str, Any]:
    return {"command": [sys.executable, "-c", text, *more]}


def test_lines_go_to_the_program_and_what_it_refuses_is_kept(tmp_path: Path) -> None:
    answers = Answers(tmp_path / "answers")
    answers.write(*({"n": n} for n in range(40)))
    kept = tmp_path / "kept.jsonl"
    run_through(answers.forwarder(exec_sink(table_of(python(KEEPS, str(kept))), "s"), batch=25))
    found = [json.loads(line) for line in kept.read_text().splitlines()]
    assert [each["result"]["n"] for each in found] == [n for n in range(40) if n != 13]
    dead = json.loads((tmp_path / "answers" / ".sinks" / "s.dead.jsonl").read_text())
    assert dead["result"]["n"] == 13
    assert dead["reason"].endswith("ended with 65: no 13 here")


def test_a_program_that_ends_early_or_badly_gets_all_again() -> None:
    for text, said in (
        ("import sys; sys.exit('full disk')", r"ended with 1: full disk"),
        ("import os; os.kill(os.getpid(), 9)", r"ended with -9"),
        ("import sys; sys.stderr.write('a' * 5000 + ' the end'); sys.exit(3)", r"with 3: a{9}"),
    ):
        with pytest.raises(RetryError, match=said):
            exec_sink(table_of(python(text)), "s").deliver(items(50_000))


def test_a_program_that_is_not_there_is_tried_again() -> None:
    with pytest.raises(RetryError, match="no-such-program: No such file"):
        exec_sink(table_of({"command": ["no-such-program"]}), "s").deliver(items(1))


def test_a_program_that_hangs_is_killed_with_its_children(tmp_path: Path) -> None:
    place = tmp_path / "pid"
    text = f"sleep 60 & echo $! > {place}; wait"
    table = table_of({"command": ["sh", "-c", text], "timeout": "300 ms"})
    begun = time.monotonic()
    with pytest.raises(RetryError, match=r"sh took over 0\.3 s"):
        exec_sink(table, "s").deliver(items(1))
    assert time.monotonic() - begun < 5
    child = int(place.read_text())
    for _ in range(100):
        if not Path(f"/proc/{child}").exists() or "Z" in Path(f"/proc/{child}/stat").read_text():
            return
        time.sleep(0.02)
    os.kill(child, 9)
    pytest.fail("its child lives")


def test_refusing_all_is_a_refusal() -> None:
    with pytest.raises(RefusedError, match="ended with 65"):
        exec_sink(table_of(python("import sys; sys.exit(65)")), "s").deliver(items(1))


@pytest.mark.parametrize(
    ("command", "said"),
    [([], "write"), ("cat", "write"), (["a\0b"], "has a character NUL"), ([3], "write")],
)
def test_a_command_is_a_list_of_texts(command: Any, said: str) -> None:
    with pytest.raises(SettingsError, match=f"command: {said}"):
        exec_sink(table_of({"command": command}), "s")
