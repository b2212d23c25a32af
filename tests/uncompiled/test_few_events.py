"""A few events have their answers before kernels are compiled, and these are the same."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slackwater.engine.cli.app import run
from slackwater.engine.cli.terminal import COMPILING
from slackwater.engine.hosts import pipeline
from slackwater.engine.kernels import jit
from slackwater.engine.kernels.jit import FEW, FEW_UNCOMPILED, for_rows, kernel

ROOT = Path(__file__).resolve().parents[2]
QUERIES = (
    "EVENT SEQ(A a, !C c, B b) WHERE a.k = b.k WITHIN 40 ms",
    "SELECT count(*), avg(k) FROM events GROUP BY k WINDOW TUMBLING 50 ms",
)
SUM = 6


@pytest.fixture(name="asked")
def _asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A kernel that no cache has, and the kinds of its calls: True where it is compiled."""
    monkeypatch.setenv("SLACKWATER_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("SLACKWATER_COMPILED")
    monkeypatch.setattr(jit, "uncompiled_time", jit._TimeSpent())
    jit._is_any_cached.cache_clear()
    yield _kinds
    jit._is_any_cached.cache_clear()


def _total(values: np.ndarray) -> int:
    total = 0
    for value in values:
        total += value
    return total


def _kinds(rows: int, *types: str) -> list[bool]:
    made = kernel(_total)
    entry = vars(made)
    found = []
    for kind in types or ("i8",):
        with for_rows(rows):
            assert made(np.array([1, 2, 3], kind)) == SUM
        compiled = entry["_entry"].overloads if "_entry" in entry else {}
        found.append(len(compiled) > sum(found))
    return found


def test_many_are_compiled_for_and_few_are_not(asked: Any) -> None:
    assert asked(FEW) == asked(FEW + 1) == asked(FEW_UNCOMPILED) == [False]
    assert asked(FEW_UNCOMPILED + 1) == [True]
    jit._is_any_cached.cache_clear()  # as in the next process
    assert asked(FEW) == [False]
    assert asked(FEW + 1) == [True], "the cache has it"


def test_a_kernel_is_cached_for_the_types_of_its_arguments(asked: Any) -> None:
    assert _kinds(FEW_UNCOMPILED + 1, "i8") == [True]
    jit._is_any_cached.cache_clear()
    assert _kinds(FEW + 1, "f8", "i8") == [False, True]
    assert _kinds(FEW_UNCOMPILED + 1, "f8") == [True]
    assert _kinds(FEW + 1, "f8", "i8") == [True, True]


def test_who_has_waited_long_compiles(asked: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert asked(FEW + 1) == [False]
    assert 0 < jit.uncompiled_time.seconds < jit._PATIENCE_S
    monkeypatch.setattr(jit.uncompiled_time, "seconds", jit._PATIENCE_S + 1)
    assert asked(FEW + 1) == [True]


def test_all_are_compiled_for_where_that_is_wanted(
    asked: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLACKWATER_COMPILED", "1")
    assert asked(FEW + 1) == [True]


def trace(path: Path, *, sites: int, rows: int) -> None:
    lines = []
    for place in range(rows):
        source, at = place % 3, 1_000_000 * place
        late = 9_000_000 if place % 11 == 0 else 0
        lines.append(
            f'{{"site": "x{place % sites}", "source": "s{source}", "seq": {place // 3}, '
            f'"ts": {at - late}, "arrival": {at + 5}, "type": "{"ABC"[place * 7 % 5 % 3]}", '
            f'"attrs": {{"k": {place % 4}}}}}'
        )
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("sites", [1, 3])
def test_batches_of_few_rows_change_no_result(
    sites: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace(tmp_path / "t.jsonl", sites=sites, rows=400)
    answers = []
    for rows in (1 << 18, 7):
        monkeypatch.setattr(pipeline, "_ROWS_UNCOMPILED", rows)
        out, late = tmp_path / f"o{rows}.jsonl", tmp_path / f"l{rows}.jsonl"
        words = ["query", *QUERIES, "--input", str(tmp_path / "t.jsonl"), "--out", str(out)]
        assert run([*words, "--late", str(late), "--quiet"]) == 0
        answers.append((out.read_bytes(), late.read_bytes()))
    assert answers[0] == answers[1]
    assert min(map(len, answers[0])) > 100


@pytest.mark.slow
def test_a_command_answers_alike_before_anything_is_compiled(tmp_path: Path) -> None:
    trace(tmp_path / "t.jsonl", sites=1, rows=900)
    words = [*QUERIES, "--input", "t.jsonl", "--out"]
    answers = []
    for name, more in (
        ("compiled.jsonl", {}),
        ("cold.jsonl", {"SLACKWATER_COMPILED": "0", "SLACKWATER_CACHE": str(tmp_path / "cache")}),
    ):
        done = subprocess.run(
            [sys.executable, "-c", "from slackwater.engine.cli import main; main()",
             "query", *words, name],
            cwd=tmp_path, check=True, capture_output=True, text=True,
            env=os.environ | {"PYTHONPATH": str(ROOT)} | more,
        )  # fmt: skip
        answers.append((tmp_path / name).read_bytes())
    assert COMPILING.strip() not in done.stderr
    assert not list((tmp_path / "cache").rglob("*.nb*"))
    assert answers[0] == answers[1] != b""
