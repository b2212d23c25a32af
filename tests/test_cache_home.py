"""What is kept between runs is the user's own and whole, and runs nothing that others put there."""

from __future__ import annotations

import os
import pwd
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slackwater.engine import cache_home
from slackwater.engine.cache_home import is_trusted, own_bytes, own_cache
from slackwater.engine.kernels import jit
from slackwater.engine.log.whole_file import temporary, whole_file, write_parquet
from slackwater.engine.query.analysis.analyse import query
from slackwater.engine.query.language import parse

ROOT = Path(__file__).resolve().parents[1]
TEXT = "EVENT SEQ(A a, !C c, B b) WHERE a.key = b.key AND c.key = a.key WITHIN 5 s RETURN a.key"


@pytest.fixture(name="cache")
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SLACKWATER_CACHE", str(tmp_path / "cache"))
    cache_home._private_folder.cache_clear()
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
    (cache / "kernels").mkdir(parents=True)
    (cache / "kernels" / "planted.nbi").touch()
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
    parse._parser.cache_clear()
    assert query(TEXT)
    assert list(cache.iterdir()) == []


def test_attack2_06_a_user_without_a_home_has_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(user: int) -> Any:
        raise KeyError(user)

    for name in ("SLACKWATER_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    cache_home._private_folder.cache_clear()
    assert own_cache() is None
    assert jit.cache_directory() is None


def test_attack2_06_commands_that_simulate_need_no_cache(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    closed = {
        "SLACKWATER_CACHE": str(tmp_path / "file" / "x"), "PYTHONPATH": str(ROOT),
        "NUMBA_CACHE_LOCATOR_CLASSES": "IPythonCacheLocator",  # as where Numba can write nowhere
    }  # fmt: skip
    for command in (
        ["simulate", "soccer", "--set", "duration=0.1s", "--out", "log"],
        ["emulate", str(ROOT / "docs" / "samples" / "links.toml"), "--check"],
    ):
        done = subprocess.run(
            [sys.executable, "-c", "from slackwater.engine.cli import main; main()", *command],
            check=False, capture_output=True, text=True, cwd=tmp_path, env=os.environ | closed,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")


def run(code: str, cache: Path) -> str:
    """What ``code`` prints in an interpreter of its own, with that cache."""
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT,
        env=os.environ | {"SLACKWATER_CACHE": str(cache.parent), "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    return done.stdout


@pytest.mark.slow
def test_a_damaged_grammar_is_made_again(cache: Path) -> None:
    asked = f"from slackwater.engine.query import query; print(query({TEXT!r}).name)"
    expected = run(asked, cache)
    (path,) = cache.glob("grammar-*.pickle")
    whole = path.read_bytes()
    for damaged in (b"", whole[: len(whole) // 2], b"x\n" + whole):
        path.write_bytes(damaged)
        assert run(asked, cache) == expected
        assert path.read_bytes().partition(b"\n")[0] == whole.partition(b"\n")[0]


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
