"""The how-tos "Add an order, a barrier, an aggregate, a sink" done as their page has them."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

ROOT = Path(__file__).resolve().parents[2]
HOW_TO = ROOT / "docs" / "how-to.md"
FILES = re.compile(r"`(engine/[\w/]+\.py)`")
FENCE = re.compile(r"```(python|diff)\n(.*?)```", re.DOTALL)


def section(title: str) -> str:
    return HOW_TO.read_text(encoding="utf-8").split(f"\n## {title}\n")[1].split("\n## ")[0]


def follow(title: str, copy: Path) -> set[str]:
    """Does in ``copy`` what the section says; gives the files that it touches.

    A block of Python is the first file named; a diff is of the one named file that has its lines.
    """
    text = section(title)
    touched: set[str] = set()
    for block in FENCE.finditer(text):
        named = FILES.findall(text[: block.start()])
        if block[1] == "python":
            (copy / named[0]).write_text(block[2], encoding="utf-8")
            touched.add(named[0])
            continue
        lines = block[2].splitlines(keepends=True)
        old = "".join(line[1:] for line in lines if line[0] != "+")
        new = "".join(line[1:] for line in lines if line[0] != "-")
        there = {one: (copy / one).read_text(encoding="utf-8") for one in named}
        ((file, content),) = ((one, text) for one, text in there.items() if text.count(old) == 1)
        (copy / file).write_text(content.replace(old, new), encoding="utf-8")
        touched.add(file)
    return touched


@pytest.fixture(name="copy", scope="module")
def _copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("copy")
    for package in ("engine", "edge_agent", "slackwater"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / package, folder / package, symlinks=True, ignore=ignored)
    return folder


def slackwater(copy: Path, *arguments: str) -> list[dict[str, object]]:
    """What the copy's command prints."""
    (copy / "t.jsonl").write_text(
        "".join(
            json.dumps(
                {
                    "type": kind,
                    "source": "s",
                    "seq": seq,
                    "ts": ts,
                    "arrival": at,
                    "attrs": {"v": v},
                }
            )
            + "\n"
            for seq, (kind, ts, at, v) in enumerate(
                [("A", 10, 11, 1), ("B", 30, 31, 5), ("A", 20, 35, 9), ("B", 60, 61, 2)]
            )
        )
    )
    program = "from slackwater.engine.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments, "--input", "t.jsonl", "--quiet"],
        cwd=copy,
        env=os.environ | {"PYTHONPATH": str(copy), "SLACKWATER_UNCOMPILED": "1"},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.slow
def test_an_order_added_as_the_page_says_orders(copy: Path) -> None:
    assert len(follow("Add an order", copy)) == 2
    found = slackwater(copy, "order", "--order", "wait:15ns")
    assert [event["ts"] for event in found] == [10, 20, 30, 60]
    assert [event["release"] for event in found] == [31, 35, 61, 61]
    hurried = slackwater(copy, "order", "--order", "wait:1ns")
    assert [event["ts"] for event in hurried] == [10, 30, 20, 60]


@pytest.mark.slow
def test_a_barrier_added_as_the_page_says_waits(copy: Path) -> None:
    assert len(follow("Add a barrier", copy)) == 2
    query = ("query", "EVENT SEQ(A a, B b) WITHIN 25 ns", "--order", "none")
    at_once = slackwater(copy, *query)
    settled = slackwater(copy, *query, "--barrier", "settled")
    assert [match["at"] for match in at_once] <= [match["at"] for match in settled]
    assert {match["at"] for match in settled} == {61} != {match["at"] for match in at_once}
    assert len(at_once) == len(settled)


@pytest.mark.slow
def test_an_aggregate_added_as_the_page_says_is_answered(copy: Path) -> None:
    assert len(follow("Add an aggregate", copy)) == 2
    for window in ("TUMBLING 100 ns", "ROWS 4", "SESSION 50 ns"):
        (found,) = slackwater(copy, "query", f"SELECT midrange(v) WINDOW {window}")
        assert found["value"] == {"midrange(v)": 5.0}


@pytest.mark.slow
def test_a_sink_added_as_the_page_says_is_written(copy: Path) -> None:
    assert len(follow("Add a sink", copy)) == 2
    query = ("query", "EVENT SEQ(A a, B b) WITHIN 25 ns", "--out", "found.arrow")
    assert slackwater(copy, *query) == []
    with pa.OSFile(str(copy / "found.arrow")) as file, pa.ipc.open_file(file) as opened:
        assert opened.read_all().num_rows == len(slackwater(copy, *query[:2])) > 0
