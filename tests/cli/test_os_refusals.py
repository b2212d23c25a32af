"""What the operating system refuses is reported with the place that was asked for, and a remedy."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from slackwater.edge_agent.errors import FAILED, USER_ERROR, refused
from slackwater.edge_agent.outbox.disk import DiskFiles
from slackwater.edge_agent.standard_streams import taking_name
from slackwater.engine.log.whole_file import whole_file

LINES = '{"type": "A", "ts": 3}\n{"type": "B", "ts": 5}\n'
SIMULATE = ("simulate", "soccer", "--set", "duration=50ms", "--quiet")


@pytest.mark.parametrize("arguments", [
    (*SIMULATE, "--out", "/proc/x"),
    ("run", "soccer", "--set", "duration=50ms", "--out", "/proc/x"),
    ("log", "import", "t.jsonl", "--out", "/proc/x"),
    ("order", "--input", "t.jsonl", "--out", "/proc/x.jsonl", "--in-process"),
    ("order", "--input", "t.jsonl", "--work", "/proc/x", "--in-process"),
    ("query", "EVENT A a", "--input", "t.jsonl", "--report", "/proc/x", "--in-process"),
])  # fmt: skip
def test_the_place_is_called_as_it_was_given(
    here: Path, cli: Any, arguments: tuple[str, ...]
) -> None:
    (here / "t.jsonl").write_text(LINES)
    ran = cli(*arguments)
    assert (ran.code, ran.left) == (2, {})
    assert "slackwater: /proc/x" in ran.err
    assert "/." not in ran.err


def test_a_simulation_on_a_full_disk_names_its_folder(
    here: Path, cli: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    ran = cli(*SIMULATE, "--out", "out/log")
    assert ran.code == 1
    assert ran.err.startswith("slackwater: out/log/")
    assert "No space left on device; free some" in ran.err
    assert ".writing" not in ran.err
    assert not list(here.rglob("*.*"))


def test_a_file_that_cannot_take_its_name_is_reported_by_that(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(IsADirectoryError) as raised, whole_file(tmp_path / "taken"):
        pass
    assert raised.value.filename == raised.value.filename2 == str(tmp_path / "taken")


def test_a_file_of_an_outbox_is_reported_by_its_name(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    (tmp_path / "taken").mkdir()
    with pytest.raises(IsADirectoryError) as raised:
        files.replace("taken", b"1")
    assert raised.value.filename == str(tmp_path / "taken")


def test_other_files_keep_their_names(tmp_path: Path) -> None:
    with (
        pytest.raises(FileNotFoundError) as raised,
        taking_name(tmp_path / ".new.making", tmp_path / "new"),
    ):
        (tmp_path / "other").read_bytes()
    assert raised.value.filename == str(tmp_path / "other")
    with (
        pytest.raises(FileNotFoundError) as raised,
        taking_name(tmp_path / ".new.making", tmp_path / "new"),
    ):
        (tmp_path / ".new.making" / "part" / "one").read_bytes()
    assert raised.value.filename == str(tmp_path / "new" / "part" / "one")


@pytest.mark.parametrize(("code", "remedy"), [
    (errno.ENOSPC, "TMPDIR"), (errno.EDQUOT, "TMPDIR"), (errno.EMFILE, "ulimit -n"),
    (errno.EIO, "dmesg"), (errno.ENOMEM, "end other programs"), (errno.EFBIG, "ulimit -f"),
])  # fmt: skip
def test_what_a_machine_lacks_is_reported_with_a_remedy(code: int, remedy: str) -> None:
    said, exit_code = refused(OSError(code, os.strerror(code)), "query")
    assert said.startswith(f"query: {os.strerror(code)}; ")
    assert remedy in said
    assert exit_code == FAILED
    said, exit_code = refused(OSError(code, os.strerror(code), "out/a.csv"), "query")
    assert said.startswith(f"out/a.csv: {os.strerror(code)}; ")
    assert remedy in said
    assert exit_code == FAILED


def test_a_place_of_the_users_is_an_input_at_fault_and_what_may_be_ours_is_raised() -> None:
    denied = PermissionError(errno.EACCES, "Permission denied", "/x")
    assert refused(denied, "query") == ("/x: Permission denied", USER_ERROR)
    with pytest.raises(OSError, match="Bad file"):
        refused(OSError(errno.EBADF, "Bad file descriptor"), "query")
