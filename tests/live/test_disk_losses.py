"""Disks that lose what was sent, or cannot read it: the agent goes on, and what is new is kept."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest

from edge_agent.outbox.inspection import looked
from edge_agent.outbox.segment import records
from tests.live import conftest
from tests.live.conftest import Field, Program, until
from tests.live.test_kills import numbered

pytestmark = pytest.mark.slow

BATCHES = 20


def settings(field: Field, stream: str = "") -> str:
    field.site('[limits]\nframe_every = "20 ms"\ntakeover = "100 ms"\n')
    name = field.agent_file("door", '[[input]]\nkind = "stdin"', '[outbox]\nfolder = "outbox"\n')
    if stream:
        path = field.folder / name
        path.write_text(path.read_text() + f'[[stream]]\nname = "{stream}"\n')
    return name


def fed(field: Field, name: str, values: range) -> Program:
    """An agent that is given ``values``, in several messages; its input stays open."""
    agent = field.start("agent", "--config", name, stdin=subprocess.PIPE)
    feed(agent, values)
    return agent


def feed(agent: Program, values: range) -> None:
    assert agent.process.stdin is not None
    step = max(len(values) // BATCHES, 1)
    for at in range(values.start, values.stop, step):
        lines = [json.dumps({"v": v}) for v in range(at, min(at + step, values.stop))]
        agent.process.stdin.write("\n".join(lines) + "\n")
        agent.process.stdin.flush()
        time.sleep(0.03)


def on_disk(field: Field) -> int:
    """The number after the last event on the disk."""
    found = [
        record.end
        for look in looked(field.folder / "outbox")
        for segment in look.segments
        for record in segment.found
    ]
    return max(found, default=0)


def in_log(field: Field) -> list[int]:
    begun = any((field.folder / "site.log").glob("*.parquet"))
    return [v for _, _, v in numbered(field)] if begun else []


def finish(field: Field, agent: Program) -> None:
    assert agent.process.stdin is not None
    agent.process.stdin.close()
    assert agent.end(None) == 0, agent.text
    assert not list(field.folder.glob("outbox/0*"))


def lose_half_of_the_newest(field: Field) -> None:
    """The disk forgets the last records of the newest segment, and how far was acked."""
    (segment,) = field.folder.glob("outbox/*/s00-*.seg")
    content = segment.read_bytes()
    places = [found.start for found in records(content, 8)]
    at = places[len(places) // 2]
    segment.write_bytes(content[:at] + bytes(len(content) - at))
    for position in field.folder.glob("outbox/*/position*"):
        position.unlink()


@pytest.mark.parametrize("offline", [0, 1])
def test_a_disk_that_lost_what_was_sent_begins_a_new_start(field: Field, offline: int) -> None:
    """Also where agents before had written new events under the old numbers, without a gateway."""
    name = settings(field)
    gateway = field.serve()
    first = fed(field, name, range(200))
    until(lambda: len(in_log(field)) == 200, "the events in the log")
    first.end(signal.SIGKILL)
    lose_half_of_the_newest(field)
    gateway.end()
    values = 1000
    for _ in range(offline):
        before = on_disk(field)
        agent = fed(field, name, range(values, values + 80))
        until(lambda before=before: on_disk(field) == before + 80, "the events on the disk")
        values += 80
        agent.end(signal.SIGKILL)
    gateway = field.serve()
    last = fed(field, name, range(values, values + 80))
    finish(field, last)
    assert gateway.end() == 0
    assert "the disk has lost events of stream events (the gateway has 200" in last.text
    assert "failed" not in last.text
    found = numbered(field)
    assert sorted(v for _, _, v in found) == [*range(200), *range(1000, values + 80)]
    former, new = sorted({incarnation for incarnation, _, _ in found})
    assert {v for incarnation, _, v in found if incarnation == former} == set(range(200))
    assert new > former


BAD_SECTORS = """
import errno
from edge_agent.outbox.files import DiskFiles
read = DiskFiles.read
def bad(self, name, offset, size):
    if (self.folder / name).stat().st_ino in {files}:
        raise OSError(errno.EIO, "Input/output error")
    return read(self, name, offset, size)
DiskFiles.read = bad
from engine.cli import main
main()
"""


@pytest.mark.parametrize("gone", [False, True])
def test_segments_that_cannot_be_read_block_nothing(
    field: Field, gone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what was written without a gateway, all but the oldest, the newest too; how many there are
    hangs on how much is read at once.
    """
    name = settings(field)
    text = (field.folder / name).read_text()
    (field.folder / name).write_text(text.replace('"outbox"\n', '"outbox"\nmax = "1 MiB"\n'))
    first = fed(field, name, range(30_000))
    until(lambda: on_disk(field) == 30_000, "the events on the disk")
    first.end(signal.SIGKILL)
    _, *bad = sorted(field.folder.glob("outbox/*/s00-*.seg"))
    assert len(bad) >= 2
    gateway = field.serve()
    if gone:
        for path in bad:
            path.unlink()
    else:
        code = BAD_SECTORS.replace("{files}", repr({path.stat().st_ino for path in bad}))
        monkeypatch.setattr(conftest, "SLACKWATER", [sys.executable, "-c", code])
    last = fed(field, name, range(90_000, 90_010))
    until(lambda: 90_009 in in_log(field), "the newest event")
    kept = sorted(field.folder.glob("outbox/*/*.damaged"))
    finish(field, last)
    assert gateway.end() == 0
    assert last.text.count("unreadable; set aside") == (0 if gone else len(bad))
    aside = [] if gone else [f"{path.name}.damaged" for path in bad]
    assert [path.name for path in kept] == aside
    found = in_log(field)
    assert found == [*range(len(found) - 10), *range(90_000, 90_010)]
    assert len(found) > 1000


def test_a_start_of_other_streams_is_finished_first(field: Field) -> None:
    """What waits of the streams as they were is sent, and then what comes of the new ones."""
    first = fed(field, settings(field), range(50))
    until(lambda: on_disk(field) == 50, "the events on the disk")
    first.end(signal.SIGKILL)
    gateway = field.serve()
    last = fed(field, settings(field, "more"), range(50, 90))
    finish(field, last)
    assert gateway.end() == 0
    assert sorted(in_log(field)) == list(range(90))
