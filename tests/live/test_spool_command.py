"""``slackwater agent spool``: what waits in an outbox, whether it is whole, its events."""

from __future__ import annotations

import errno
import json
import signal
import subprocess
from pathlib import Path

import pytest

from edge_agent.command import main
from tests.live.conftest import Field, until


@pytest.fixture(name="outbox")
def _outbox(field: Field) -> Path:
    """An outbox with three events, of an agent that never had a gateway and was killed."""
    agent = field.start(
        "agent", "--config",
        field.agent_file("door", '[[input]]\nkind = "stdin"', '[outbox]\nfolder = "outbox"\n'),
        stdin=subprocess.PIPE,
    )  # fmt: skip
    assert agent.process.stdin is not None
    lines = ['{"type": "A", "ts": 5, "v": 7}', '{"ts": 6, "te": 8}', '{"ts": 7, "v": -1}']
    agent.process.stdin.write("\n".join(lines) + "\n")
    agent.process.stdin.flush()
    folder = field.folder / "outbox"
    until(lambda: [f for f in folder.glob("*/*.seg") if f.stat().st_size > 60], "a segment")
    agent.end(signal.SIGKILL)
    return folder


def test_ls_and_dump_say_what_waits(outbox: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spool", "ls", str(outbox)]) == 0
    said = capsys.readouterr().out
    assert "main/door, incarnation " in said
    assert "events: 3 events wait, numbers 0 to 2, 1 files" in said
    assert main(["spool", "dump", str(outbox)]) == 0
    found = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {each.pop("incarnation") for each in found} != {0}
    same = {"site": "main", "source": "door", "stream": "events"}
    assert found == [
        {**same, "seq": 0, "type": "A", "ts": 5, "te": 5, "attrs": {"v": 7}},
        {**same, "seq": 1, "ts": 6, "te": 8},
        {**same, "seq": 2, "ts": 7, "te": 7, "attrs": {"v": -1}},
    ]


def test_verify_finds_what_is_torn_or_damaged(
    outbox: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    segment = next(outbox.glob("*/*.seg"))
    assert main(["spool", "verify", str(outbox)]) == 0
    assert "0 faults" in capsys.readouterr().out
    whole = segment.read_bytes()
    segment.write_bytes(whole[:-3])
    assert main(["spool", "verify", str(outbox)]) == 1
    assert "torn end of" in capsys.readouterr().out
    segment.write_bytes(b"XX" + whole[2:])
    assert main(["spool", "verify", str(outbox)]) == 1
    assert "bytes are damaged" in capsys.readouterr().out
    assert segment.read_bytes() == b"XX" + whole[2:]  # nothing was mended


def test_a_folder_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["spool", "ls", str(tmp_path / "none")]) == 1
    assert "No such file" in capsys.readouterr().err


def test_a_file_that_cannot_be_read_is_bad_as_a_whole(
    outbox: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def bad_sector(path: Path) -> bytes:
        raise OSError(errno.EIO, "Input/output error", str(path))

    monkeypatch.setattr(Path, "read_bytes", bad_sector)
    assert main(["spool", "verify", str(outbox)]) == 1
    assert "bytes are damaged" in capsys.readouterr().out
