"""Disks that lose what was sent, or cannot read it: the agent goes on, and what is new is kept."""

from __future__ import annotations

import json
import shutil
import signal
import sys
import time

import pytest

from slackwater.edge_agent.outbox.inspection import inspect_outbox
from slackwater.edge_agent.outbox.spool import records
from tests.live import conftest
from tests.live.conftest import Field, Program, until

pytestmark = pytest.mark.slow

BATCHES = 20


def agent_with_outbox(field: Field) -> str:
    field.site('[limits]\nframe_every = "20 ms"\ntakeover = "100 ms"\n')
    return field.agent_file("door", '[[input]]\nkind = "stdin"', '[outbox]\nfolder = "outbox"\n')


def fed(field: Field, name: str, values: range) -> Program:
    """An agent that is given ``values``, in several messages; its input stays open."""
    agent = field.fed(name)
    step = max(len(values) // BATCHES, 1)
    for at in range(values.start, values.stop, step):
        agent.feed(*(json.dumps({"v": v}) for v in range(at, min(at + step, values.stop))))
        time.sleep(0.03)
    return agent


def end_in_order(field: Field, agent: Program) -> None:
    agent.finish()
    assert not list(field.folder.glob("outbox/0*"))


def on_disk(field: Field) -> int:
    """The number after the last event on the disk."""
    found = [
        record.end
        for look in inspect_outbox(field.folder / "outbox")
        for segment in look.segments
        for record in segment.found
    ]
    return max(found, default=0)


def lose_half_of_the_newest(field: Field) -> None:
    """The disk forgets the last records of the newest segment, and how far was acked."""
    (segment,) = field.folder.glob("outbox/*/s00-*.seg")
    content = segment.read_bytes()
    places = [found.start for found in records(content, 8)]
    at = places[len(places) // 2]
    segment.write_bytes(content[:at] + bytes(len(content) - at))
    for position in field.folder.glob("outbox/*/position*"):
        position.unlink()


def test_a_disk_that_lost_what_was_sent_begins_a_new_start(field: Field) -> None:
    """Also where agents before had written new events under the old numbers, without a gateway."""
    name = agent_with_outbox(field)
    gateway = field.serve()
    first = fed(field, name, range(200))
    until(lambda: len(field.values("door")) == 200, "the events in the log")
    first.end(signal.SIGKILL)
    lose_half_of_the_newest(field)
    gateway.end()
    before = on_disk(field)
    agent = fed(field, name, range(1000, 1080))
    until(lambda: on_disk(field) == before + 80, "the events on the disk")
    agent.end(signal.SIGKILL)
    gateway = field.serve()
    last = fed(field, name, range(1080, 1160))
    end_in_order(field, last)
    assert gateway.end() == 0
    assert "the disk has lost events of stream events (the gateway has 200" in last.text
    assert "failed" not in last.text
    found = field.numbered()
    assert sorted(v for _, _, v in found) == [*range(200), *range(1000, 1160)]
    former, new = sorted({incarnation for incarnation, _, _ in found})
    assert {v for incarnation, _, v in found if incarnation == former} == set(range(200))
    assert new > former


def test_a_copy_from_before_its_events_were_sent_says_that_they_come_twice(field: Field) -> None:
    """A disk that used numbers again looks the same, and its events would be lost."""
    name = agent_with_outbox(field)
    gateway = field.serve()
    first = fed(field, name, range(20))
    until(lambda: len(field.values("door")) == 20, "the events in the log")
    first.end()
    gateway.end()
    second = fed(field, name, range(20, 25))
    until(lambda: on_disk(field) == 25, "the events on the disk")
    shutil.copytree(field.folder / "outbox", field.folder / "copy")
    gateway = field.serve()
    until(lambda: len(field.values("door")) == 25, "the events in the log")
    second.end()
    last = after_a_restore(field, name, gateway)
    assert "the gateway has 25, this disk 20" in last.text
    assert "; 5 of its events may be in the log already" in last.text
    assert field.values("door") == [*range(25), *range(20, 25), *range(100, 103)]


@pytest.mark.parametrize("later", [1, 3])
def test_a_copy_from_before_other_processes_is_a_new_start(field: Field, later: int) -> None:
    """The gateway has no events that the copy lacks, but control numbers of later processes."""
    name = agent_with_outbox(field)
    gateway = field.serve()
    agent = fed(field, name, range(20))
    until(lambda: len(field.values("door")) == 20, "the events in the log")
    shutil.copytree(field.folder / "outbox", field.folder / "copy")
    agent.end()
    for _ in range(later):
        agent = field.fed(name)
        agent.says("running")
        agent.end()
    last = after_a_restore(field, name, gateway)
    assert "the disk has lost how far it was sent; what is new is sent as a new start" in last.text
    assert "already" not in last.text
    assert field.values("door") == [*range(20), *range(100, 103)]


def after_a_restore(field: Field, name: str, gateway: Program) -> Program:
    """The agent that has sent three more values from the outbox's copy, to the gateway's end."""
    shutil.rmtree(field.folder / "outbox")
    (field.folder / "copy").rename(field.folder / "outbox")
    last = fed(field, name, range(100, 103))
    end_in_order(field, last)
    assert gateway.end() == 0
    return last


BAD_SECTORS = """
import errno
from slackwater.edge_agent.outbox.disk import DiskFiles
read = DiskFiles.read
def bad(self, name, offset, size):
    if (self.folder / name).stat().st_ino in {files}:
        raise OSError(errno.EIO, "Input/output error")
    return read(self, name, offset, size)
DiskFiles.read = bad
from slackwater.engine.cli import main
main()
"""


def test_segments_that_cannot_be_read_block_nothing(
    field: Field, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of what was written without a gateway, all but the oldest, the newest too; how many there are
    hangs on how much is read at once.
    """
    name = agent_with_outbox(field)
    field.change(name, '"outbox"\n', '"outbox"\nmax = "1 MiB"\n')
    first = fed(field, name, range(30_000))
    until(lambda: on_disk(field) == 30_000, "the events on the disk")
    first.end(signal.SIGKILL)
    _, *bad = sorted(field.folder.glob("outbox/*/s00-*.seg"))
    assert len(bad) >= 2
    gateway = field.serve()
    code = BAD_SECTORS.replace("{files}", repr({path.stat().st_ino for path in bad}))
    monkeypatch.setattr(conftest, "SLACKWATER", [sys.executable, "-c", code])
    last = fed(field, name, range(90_000, 90_010))
    until(lambda: 90_009 in field.values("door"), "the newest event")
    kept = sorted(field.folder.glob("outbox/*/*.damaged"))
    assert last.process.stdin is not None
    last.process.stdin.close()
    assert last.end(None) == 1
    assert "others are gone" in last.text
    assert not list(field.folder.glob("outbox/0*"))
    assert gateway.end() == 0
    assert last.text.count("unreadable; set aside") == len(bad)
    assert [path.name for path in kept] == [f"{path.name}.damaged" for path in bad]
    found = field.values("door")
    assert found == [*range(len(found) - 10), *range(90_000, 90_010)]
    assert len(found) > 1000


NO_POSITION = """
from slackwater.edge_agent.outbox import outbox
store = outbox.store
def bad(files, name, value):
    if name == outbox.POSITION:
        raise OSError(5, "Input/output error")
    store(files, name, value)
outbox.store = bad
from slackwater.engine.cli import main
main()
"""


def test_a_position_that_cannot_be_stored_is_in_the_status(
    field: Field, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = agent_with_outbox(field)
    field.change(name, "[agent]\n", '[agent]\nstatus = "status.json"\nstatus_every = "100 ms"\n')
    field.serve()
    monkeypatch.setattr(conftest, "SLACKWATER", [sys.executable, "-c", NO_POSITION])
    agent = fed(field, name, range(100))
    status = field.folder / "status.json"
    until(
        lambda: status.exists() and json.loads(status.read_text())["outlet"].get("store_failed"),
        "the count of failures",
    )
    agent.end()
    assert field.values("door") == list(range(100))
