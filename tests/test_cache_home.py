"""What is kept between runs is the user's own and whole, and runs nothing that others put there."""

from __future__ import annotations

import os
import pickle
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from engine import cache_home
from engine.cache_home import is_trusted, own_bytes, own_cache
from engine.kernels import jit
from engine.log.whole_file import temporary, whole_file, write_parquet

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(name="cache")
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SLACKWATER_CACHE", str(tmp_path / "cache"))
    cache_home._own.cache_clear()
    return tmp_path / "cache" / "slackwater"


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_cache_is_the_users_alone(cache: Path) -> None:
    assert own_cache() == cache
    assert mode(cache) == 0o700


def test_a_cache_that_others_could_read_is_closed_and_kept(cache: Path) -> None:
    cache.mkdir(parents=True, mode=0o755)
    (cache / "kept").touch()
    assert own_cache() == cache
    assert mode(cache) == 0o700
    assert (cache / "kept").exists()


@pytest.mark.parametrize("loose", [0o775, 0o777, 0o757])
def test_what_others_may_have_put_into_a_cache_goes(
    loose: int, cache: Path, tmp_path: Path
) -> None:
    (cache / "numba").mkdir(parents=True)
    (cache / "numba" / "planted.nbi").touch()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "mine").touch()
    (cache / "link").symlink_to(tmp_path / "elsewhere")
    cache.chmod(loose)
    assert own_cache() == cache
    assert list(cache.iterdir()) == []
    assert mode(cache) == 0o700
    assert (tmp_path / "elsewhere" / "mine").exists()


def test_a_cache_of_another_user_is_not_used(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own = os.geteuid()
    facts = [0, 0, 0, 0, own, 0, 0, 0, 0, 0]
    assert is_trusted(os.stat_result(facts))
    facts[4] = own + 4321
    assert not is_trusted(os.stat_result(facts))
    monkeypatch.setattr(cache_home, "is_trusted", lambda _facts: False)
    assert own_cache() is None
    assert "belongs to another user" in capsys.readouterr().err
    assert jit.cache_directory() is None
    assert list(cache.iterdir()) == []


class Planted:
    """Runs a command when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.mark),)


def run(code: str, cache: Path) -> str:
    """What ``code`` prints in an interpreter of its own, with that cache."""
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT,
        env=os.environ | {"SLACKWATER_CACHE": str(cache.parent), "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    return done.stdout


KERNEL = """
import sys
from engine.kernels import jit

@jit.njit
def twice(x):
    return 2 * x

compiled = []
jit.when_compiling.append(lambda: compiled.append(1))
print(twice(21), bool(compiled))
"""


def test_a_damaged_kernel_is_compiled_anew(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "kernel.py").write_text(KERNEL)
    code = f"import runpy; runpy.run_path({str(tmp_path / 'kernel.py')!r})"
    assert run(code, cache) == "42 True\n"
    assert run(code, cache) == "42 False\n"
    files = sorted(path for path in cache.rglob("*twice*"))
    assert [path.suffix for path in files] == [".code", ".nbc", ".nbi"]
    whole = {path: path.read_bytes() for path in files}
    for path in files:
        for other, content in whole.items():
            other.write_bytes(content)
        for damaged in (
            whole[path][: len(whole[path]) // 2],
            whole[path][:-9] + bytes([whole[path][-9] ^ 1]) + whole[path][-8:],
            pickle.dumps(Planted(tmp_path / "ran")),
        ):
            files[0].write_bytes(b"")  # which is there for what Numba keeps in the others
            path.write_bytes(damaged)
            compiled = path is not files[0]
            assert run(code, cache) == f"42 {compiled}\n"
            assert files[0].read_bytes() == whole[files[0]]
            assert not (tmp_path / "ran").exists()


CALLED = """
import sys
from engine.kernels import jit

@jit.kernel
def twice(x):
    return 2 * x

@jit.kernel
def four_times(x):
    return twice(twice(x))

compiled = []
jit.when_compiling.append(lambda: compiled.append(1))
print(twice(21), bool(compiled), four_times(21) if sys.argv[1:] else None, bool(compiled))
"""


def test_a_kernel_from_the_cache_can_be_called_by_one_that_is_compiled_now(
    cache: Path, tmp_path: Path
) -> None:
    """Its bitcode is read only then."""
    (tmp_path / "kernel.py").write_text(CALLED)
    code = f"import runpy; runpy.run_path({str(tmp_path / 'kernel.py')!r})"
    assert run(code, cache) == "42 True None True\n"
    assert run(code, cache) == "42 False None False\n"
    both = f"import sys; sys.argv.append('both'); {code}"
    assert run(both, cache) == "42 False 84 True\n"
    assert run(both, cache) == "42 False 84 False\n"


def test_a_file_of_the_cache_that_is_a_link_or_a_pipe_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    assert own_bytes(tmp_path / "file") == b"x"
    assert own_bytes(tmp_path / "link") is None
    assert own_bytes(tmp_path / "absent") is None
    assert own_bytes(tmp_path) is None
    os.mkfifo(tmp_path / "pipe")
    assert own_bytes(tmp_path / "pipe") is None


def test_a_file_in_the_making_follows_no_link(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    for name in ("a.json", "a.parquet"):
        temporary(tmp_path / name).symlink_to(victim)
    with whole_file(tmp_path / "a.json") as sink:
        sink.write(b"{}")
    write_parquet(tmp_path / "a.parquet", [pa.table({"x": [1]})], pa.schema({"x": pa.int64()}))
    assert victim.read_text() == "precious"
    assert (tmp_path / "a.json").read_text() == "{}"
    assert not (tmp_path / "a.parquet").is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "a.parquet", "victim"]
