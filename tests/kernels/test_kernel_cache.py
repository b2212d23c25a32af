"""Compiled kernels on disk: found again, made again when damaged, shared by processes."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from numba import config
from numba.core.caching import CacheImpl

from slackwater.engine.kernels import jit, kernel_cache
from tests.planted import Planted

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(
    os.environ.get("SLACKWATER_UNCOMPILED") == "1", reason="nothing is compiled"
)
MODULE = """
from slackwater.engine.kernels import jit

@jit.kernel
def once(x):
    return x + 0

@jit.njit
def twice(x):
    return once(x) + once(x)
"""
CALL = """
import sys
sys.path.insert(0, {folder!r})
import near
compiled = []
near.jit.when_compiling.append(lambda: compiled.append(1))
print(near.twice(21), bool(compiled))
"""


@pytest.fixture(name="cache")
def _cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def started(folder: Path, cache: Path, **environ: str) -> subprocess.Popen[str]:
    folder.mkdir(exist_ok=True)
    (folder / "near.py").write_text(MODULE)
    return subprocess.Popen(
        [sys.executable, "-c", CALL.format(folder=str(folder))], text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT,
        env=os.environ | {"SLACKWATER_CACHE": str(cache), "PYTHONPATH": str(ROOT)} | environ,
    )  # fmt: skip


def said(process: subprocess.Popen[str]) -> str:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert not err
    return out


def call(folder: Path, cache: Path, **environ: str) -> str:
    """What the kernel gives in a process of its own, and whether it is compiled."""
    return said(started(folder, cache, **environ))


@pytest.mark.slow
def test_a_kernel_is_found_again_from_any_checkout_and_at_any_time(
    tmp_path: Path, cache: Path
) -> None:
    assert call(tmp_path / "one", cache) == "42 True\n"
    assert call(tmp_path / "one", cache) == "42 False\n"
    os.utime(tmp_path / "one" / "near.py", (1, 1))
    assert call(tmp_path / "one", cache) == "42 False\n"
    assert call(tmp_path / "other", cache) == "42 False\n"
    assert call(tmp_path / "other", cache, SLACKWATER_PLAIN_NUMBA="1") == "42 True\n"


@pytest.mark.slow
def test_a_class_that_has_moved_is_no_obstacle(tmp_path: Path, cache: Path) -> None:
    """The digest is of code, and the cache's index names the classes of arguments by module."""
    kernel = "from slackwater.engine.kernels import jit\n\n@jit.njit\ndef total(pair):\n"
    pair = "from typing import NamedTuple\n\nclass Pair(NamedTuple):\n    a: int\n    b: int\n"
    call_it = (
        "import sys; sys.path.insert(0, {folder!r}); import near; from {place} import Pair; "
        "compiled = []; near.jit.when_compiling.append(lambda: compiled.append(1)); "
        "print(near.total(Pair(20, 22)), bool(compiled))"
    )
    for place, is_compiled in (("here", True), ("here", False), ("there", True), ("there", False)):
        folder = tmp_path / place
        folder.mkdir(exist_ok=True)
        (folder / "near.py").write_text(f"{kernel}    return pair.a + pair.b\n")
        (folder / f"{place}.py").write_text(pair)
        done = subprocess.run(
            [sys.executable, "-c", call_it.format(folder=str(folder), place=place)],
            text=True, capture_output=True, cwd=ROOT, timeout=120, check=False,
            env=os.environ | {"SLACKWATER_CACHE": str(cache), "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        assert (done.stdout, done.stderr) == (f"42 {is_compiled}\n", ""), place


@pytest.mark.slow
def test_a_damaged_file_is_compiled_again(tmp_path: Path, cache: Path) -> None:
    call(tmp_path, cache)
    files = sorted(path for path in cache.rglob("*twice*"))
    assert [path.suffix for path in files] == [".nbc", ".nbi"]
    (sums,) = cache.rglob("checksums.json")
    whole = {path: path.read_bytes() for path in (*files, sums)}
    damages = [
        (files[0], whole[files[0]][: len(whole[files[0]]) // 2]),
        (files[0], whole[files[0]][:-9] + bytes([whole[files[0]][-9] ^ 1]) + whole[files[0]][-8:]),
        (files[1], b""),
        (files[1], pickle.dumps(Planted(tmp_path / "ran"))),
        (sums, b"{"),
    ]
    for path, damage in damages:
        path.write_bytes(damage)
        assert call(tmp_path, cache) == "42 True\n"
        assert not (tmp_path / "ran").exists()
    assert call(tmp_path, cache) == "42 False\n"


def test_processes_that_start_at_once_compile_it_once(tmp_path: Path, cache: Path) -> None:
    both = [started(tmp_path, cache) for _ in range(2)]
    assert sorted(map(said, both)) == ["42 False\n", "42 True\n"]


OTHER_PACKAGE = """
import sys
sys.path[:0] = {folders!r}
import numpy as np
from slackwater.engine.core.clocks.epochs import CLOCK, reference
from slackwater.engine.kernels import jit

@jit.kernel
def uncertainty(clocks, ts):
    return reference(clocks, 0, 0, ts)[1]

compiled = []
jit.when_compiling.append(lambda: compiled.append(1))
clocks = np.zeros(1, CLOCK)
clocks["n"] = 1
clocks["epochs"]["rate"][0, 0] = 10**9
print(uncertainty(clocks, 2**61), bool(compiled))
"""


@pytest.mark.slow
def test_3_3_a_constant_of_the_agent_that_changes_is_compiled_anew(
    tmp_path: Path, cache: Path
) -> None:
    shutil.copytree(ROOT / "slackwater", tmp_path / "other" / "slackwater", symlinks=True)
    shutil.copytree(ROOT / "edge_agent", tmp_path / "other" / "edge_agent")
    (tmp_path / "other" / "engine").symlink_to(ROOT / "engine")
    limits = tmp_path / "other" / "edge_agent" / "records.py"
    assert "UNC_MAX_NS: Final = 2**58" in limits.read_text()
    limits.write_text(limits.read_text().replace("UNC_MAX_NS: Final = 2**58", "UNC_MAX_NS = 2**40"))

    def answer(*folders: Path) -> str:
        (tmp_path / "near.py").write_text(OTHER_PACKAGE.format(folders=[*map(str, folders)]))
        return said(
            subprocess.Popen(
                [sys.executable, str(tmp_path / "near.py")], text=True, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, cwd=tmp_path,
                env=os.environ | {"SLACKWATER_CACHE": str(cache), "PYTHONPATH": str(ROOT)},
            )
        )  # fmt: skip

    assert answer() == f"{2**58} True\n"
    assert answer(tmp_path / "other") == f"{2**40} True\n"
    assert answer() == f"{2**58} False\n"


def test_a_cache_that_cannot_be_written_keeps_nothing(tmp_path: Path, cache: Path) -> None:
    (cache / "slackwater").mkdir(parents=True, mode=0o700)
    (cache / "slackwater" / "kernels").touch()  # a file where a folder is needed
    assert call(tmp_path, cache) == "42 True\n"
    assert call(tmp_path, cache) == "42 True\n"


def test_a_numba_without_locators_keeps_kernels_in_their_folder_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = config.CACHE_DIR
    with monkeypatch.context() as older:
        older.delattr(config, "CACHE_LOCATOR_CLASSES")
        # This Numba reads the setting all the same, where an older one has none to read.
        older.setattr(CacheImpl, "__init__", _without_setting(CacheImpl.__init__))
        for compiles in (True, False):
            made = numba.njit(_half)
            kernel_cache.enable(made, tmp_path)
            kernel_cache.load_or_compile(
                made, made.compile, tmp_path, lambda: True, (numba.float64,)
            )
            assert made(3.0) == 1.5
            assert bool(made.stats.cache_misses) == compiles
    assert before == config.CACHE_DIR
    assert list(tmp_path.rglob("*_half*.nbc"))


def _half(x: float) -> float:
    return x / 2


def _without_setting(init: Any) -> Any:
    def older(self: Any, function: Any) -> None:
        config.CACHE_LOCATOR_CLASSES = ""
        try:
            init(self, function)
        finally:
            del config.CACHE_LOCATOR_CLASSES

    return older


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


QUERIES = {
    "windows": "SELECT count(*), avg(k) FROM events GROUP BY k WINDOW TUMBLING 50",
    "sequences": "EVENT SEQ(A a, !C c, B b) WHERE a.k = b.k AND c.k = a.k WITHIN 40",
}


@pytest.mark.slow
@pytest.mark.parametrize("query", ["sequences", pytest.param("windows", marks=pytest.mark.deep)])
def test_plain_numba_gives_the_same_results(query: str, tmp_path: Path) -> None:
    """By public interfaces alone; the cache is the usual one, as compiling takes long."""
    trace = tmp_path / "trace.jsonl"
    trace.write_text(
        "".join(
            f'{{"source": "s{n % 2}", "seq": {n // 2}, "ts": {10 * n - n % 3}, '
            f'"type": "{"ABC"[n % 3]}", "attrs": {{"k": {n // 3 % 2}}}}}\n'
            for n in range(1, 400)
        ),
        encoding="utf-8",
    )
    made = {}
    for plain in ("0", "1"):
        out = tmp_path / f"{plain}.jsonl"
        subprocess.run(
            [
                sys.executable, "-c", "from slackwater.engine.cli import main; main()", "query",
                QUERIES[query], "--input", trace, "--out", out, "--order", "none", "--quiet",
            ],
            check=True, cwd=ROOT, env=os.environ | {"SLACKWATER_PLAIN_NUMBA": plain},
        )  # fmt: skip
        made[plain] = out.read_bytes()
    assert made["0"] == made["1"]
    assert made["0"].count(b"\n") > 10
