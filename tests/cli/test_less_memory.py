"""Fewer bytes in memory by ``query --spill``; memory that does not suffice is reported."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from slackwater.engine.cli import app

QUERY = "EVENT SEQ(A a, !C c, B b) WHERE a.k = b.k WITHIN 4"
OPTIONS = ("--order", "none", "--in-process", "--quiet", "--purge", "late:1000")


def events(n: int = 200) -> list[dict[str, Any]]:
    """Every third one is up to 90 late."""
    return [
        {"type": "ABAC"[i % 4] if i % 3 else "B", "ts": i - 37 * (i % 3 == 0) - 90 * (i % 5 == 0),
         "attrs": {"k": i % 2}}
        for i in range(100, 100 + n)
    ]  # fmt: skip


def net(ran: Any) -> Counter[str]:
    found: Counter[str] = Counter()
    for line in ran.lines:
        found[json.dumps([[e["ts"] for e in line["events"]], line["certainty"]])] += (
            1 if line["op"] == "+" else -1
        )
    return +found


def test_the_answers_are_the_same_and_the_files_are_gone(cli: Any, trace: Any, here: Path) -> None:
    given = trace(*events())
    plain = cli("query", QUERY, "--input", given, *OPTIONS)
    spill = "old,hot=10,chunk=5,pending=3,wait=20"
    ran = cli("query", QUERY, "--input", given, *OPTIONS, "--spill", spill)
    assert (ran.code, ran.err) == (0, "")
    assert net(ran) == net(plain) != Counter()
    assert ran.lines != plain.lines  # some came later
    assert (here / "old").is_dir()
    assert not list((here / "old").iterdir())


def test_less_than_within_in_memory(cli: Any, trace: Any, here: Path) -> None:
    given = trace(*events())
    keyed = QUERY.replace("a.k = b.k", "a.k = b.k AND c.k = a.k")
    plain = cli("query", keyed, "--input", given, *OPTIONS)
    ran = cli("query", keyed, "--input", given, *OPTIONS, "--spill", "old,hot=1,parts=3")
    assert (ran.code, ran.err) == (0, "")
    assert net(ran) == net(plain) != Counter()
    assert not list((here / "old").iterdir())


@pytest.mark.parametrize(
    ("text", "query", "said"),
    [
        ("old,parts=2", QUERY, "parts=2 needs one key that all its events share"),
        ("old", "EVENT SEQ(A a, B b)", "spill needs WITHIN"),
        ("old", "SELECT count(*) WINDOW TUMBLING 5", "--spill is for patterns"),
        ("old,cold=3", QUERY, "spill setting 'cold=3' is unknown"),
        ("state", QUERY, "name a folder, or add --spark"),
        ("full", QUERY, "full: has files in it"),
        ("full/x.txt", QUERY, "is a file; give --spill a folder"),
    ],
)
def test_what_cannot_be_is_reported(
    text: str, query: str, said: str, cli: Any, trace: Any, here: Path
) -> None:
    (here / "full").mkdir()
    (here / "full" / "x.txt").write_text("mine", encoding="utf-8")
    ran = cli("query", query, "--input", trace(*events(4)), *OPTIONS, "--spill", text)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err
    assert (here / "full" / "x.txt").read_text(encoding="utf-8") == "mine"


def test_a_folder_on_spark_is_refused_before_spark_starts(cli: Any, trace: Any) -> None:
    ran = cli("query", QUERY, "--input", trace(*events(4)), "--quiet", "--spill", "old",
              "--spark")  # fmt: skip
    assert ran.code == 2
    assert "write --spill state, or leave out --spark" in ran.err


def test_it_goes_with_purge_late_alone(cli: Any, trace: Any) -> None:
    asked = ("query", QUERY, "--input", trace(*events(4)), "--in-process", "--spill", "old")
    ran = cli(*asked, "--purge", "promises")
    assert ran.code == 2
    assert "--spill goes with --purge late[:D] alone" in ran.err


EVENTS = 60_000
ROOM = 600 << 20
"""Bytes of addresses beyond what the program itself takes."""
LIMITED = f"""
import re, resource, sys
from pathlib import Path
import numpy, pyarrow.parquet
from slackwater.engine.cli.app import run
size = int(re.search(r"VmSize:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) << 10
resource.setrlimit(resource.RLIMIT_AS, (size + {ROOM}, resource.RLIM_INFINITY))
sys.exit(run(sys.argv[1:]))
"""


@pytest.mark.slow
def test_a_join_of_all_with_all_that_does_not_fit(tmp_path: Path) -> None:
    assert resource.getrlimit(resource.RLIMIT_AS)[0] == resource.RLIM_INFINITY
    with (tmp_path / "all.jsonl").open("w") as file:
        for n in range(EVENTS):
            record = {"source": "s", "seq": n, "ts": n, "type": "AB"[n % 2], "arrival": n}
            file.write(json.dumps(record) + "\n")
    query = f"EVENT SEQ(A a, B b) WITHIN {EVENTS}"
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, "query", query, "--input", "all.jsonl", "--quiet",
         "--time-unit", "ns", "--out", "found.jsonl"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    line = done.stderr.splitlines()[-1]
    assert line.startswith("slackwater: out of memory")
    assert line.endswith("or --spill")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("error", "said"), [(MemoryError(), ""), (MemoryError("8 GiB"), ": 8 GiB")]
)
def test_what_is_known_of_it_is_said(
    error: MemoryError,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def full(_names: list[str], *, loads: bool) -> None:
        assert loads
        raise error

    monkeypatch.setattr(app, "_application", full)
    assert app.run(["query"]) == 1
    assert capsys.readouterr().err.startswith(f"slackwater: out of memory{said}; ")
