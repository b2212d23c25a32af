"""The cache of compiled kernels: one folder per state of what a kernel is made of."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest

from engine.kernels import jit


@pytest.fixture(name="tree")
def _tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three modules: ``outer`` imports ``inner`` in brackets and in a function; ``other`` none."""
    (tmp_path / "engine").mkdir()
    for name, text in {
        "inner": "SIZE = 3\n",
        "lazy": "STEP = 1\n",
        "other": "SIZE = 4\n",
        "outer": "from engine.inner import (\n    SIZE,\n)\n\ndef f():\n"
        "    from engine import lazy\n",
    }.items():
        (tmp_path / "engine" / f"{name}.py").write_text(text)
    monkeypatch.setattr(jit, "_ROOT", tmp_path)
    return tmp_path / "engine"


def digest(path: Path) -> str | None:
    for remembered in (jit._digest, jit._content, jit._content_digest, jit._imported, jit._written):
        remembered.cache_clear()
    return jit._digest(path)


@pytest.fixture(autouse=True)
def _before_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """What these tests write counts as written before this process began."""
    monkeypatch.setattr(jit, "_BEGAN", time.time() + 3600)


def test_what_is_edited_while_a_process_runs_is_not_kept(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert digest(tree / "outer.py") is not None
    began = (tree / "lazy.py").stat().st_mtime
    monkeypatch.setattr(jit, "_BEGAN", began + 1)
    assert digest(tree / "outer.py") is not None
    os.utime(tree / "lazy.py", (began + 2, began + 2))
    assert digest(tree / "outer.py") is None
    assert digest(tree / "other.py") is not None


@pytest.mark.parametrize(
    ("changed", "matters"), [("outer", True), ("inner", True), ("lazy", True), ("other", False)]
)
def test_a_kernel_is_compiled_anew_when_what_it_imports_changes(
    tree: Path, changed: str, matters: bool
) -> None:
    before = digest(tree / "outer.py")
    (tree / f"{changed}.py").write_text("SIZE = 5\n")
    assert (digest(tree / "outer.py") != before) == matters
    digest(tree / "outer.py")


def test_compiling_is_told_once_and_only_when_it_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(jit, "when_compiling", [lambda: told.append("told")])
    jit._found_or_told(lambda *_: "kept", 1)
    assert told == []
    jit._found_or_told(lambda *_: None, 1)
    jit._found_or_told(lambda *_: None, 1)
    assert told == ["told"]
    del tmp_path


@jit.njit
def _write_sorted(values: np.ndarray, out: np.ndarray) -> None:
    out[:] = np.sort(values)


@jit.kernel
def _through(values: np.ndarray, out: np.ndarray) -> None:
    _write_sorted(values, out)


def test_a_kernel_may_call_what_allocates() -> None:
    out = np.zeros(3)
    _through(np.array([2.0, 3.0, 1.0]), out)
    assert out.tolist() == [1.0, 2.0, 3.0]
