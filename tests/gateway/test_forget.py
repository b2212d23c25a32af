"""``slackwater log forget``: a source that its newest start keeps out gets in again (attack-08).

Of logs whose files are merged or retired, too; and what gateways and chains make of them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from slackwater.edge_agent import messages as m
from slackwater.edge_agent import records as r
from slackwater.edge_agent.records import Kind
from slackwater.edge_agent.sequence import SEQ_MAX
from slackwater.engine.cli.app import run
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import Frame
from slackwater.engine.gateway.recall import Recalled
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.log import retention as compaction
from slackwater.engine.log.arrival_log import LogReader, LogWriter, streamed_frames
from slackwater.engine.log.log_folder import numbered_files, retired
from slackwater.engine.log.retention import forget, retire
from slackwater.engine.order.base import Guards
from slackwater.engine.order.registry import parse_order
from slackwater.engine.query import query
from tests.gateway.conftest import SYNC, Bench, a_data, a_hello

LARGEST = SEQ_MAX - 1
STARTS = (("d", 5), ("e", 1), ("d", LARGEST), ("e", 2))


def filled(folder: Path, *starts: tuple[str, int]) -> Path:
    """A log with a file for each of these (source, incarnation), each with three events."""
    bench = Bench()
    for now, (source, incarnation) in enumerate(starts, 1):
        key = f"{source}{now}"
        hello = a_hello(source, incarnation=min(incarnation, 99), start=now)
        assert bench.join(key, hello, now=now) == [m.Welcome(0, (0,))]
        bench.say(key, SYNC, a_data(0, 3), now=now)
        bench.core.disconnected(key, now)
        bench.core.finish(now)
    with LogWriter(folder / "log", 1) as writer:
        for frame in bench.log.frames:  # as a gateway wrote it that took any incarnation
            writer.append(with_largest(frame))
    return folder / "log"


def with_largest(frame: Frame) -> Frame:
    columns = frame.batch.to_pydict()
    columns[r.INCARNATION] = [LARGEST if i == 99 else i for i in columns[r.INCARNATION]]
    return Frame(frame.site, pa.RecordBatch.from_pydict(columns, schema=frame.batch.schema))


def starts_in(log: Path) -> list[tuple[str, int]]:
    """Source and incarnation of events, in order, each once for those that follow one another."""
    rows = [row for frame in LogReader(log) for row in frame.batch.to_pylist()]
    events = [(row["source"], row["incarnation"]) for row in rows if row["kind"] == Kind.EVENT]
    return [each for n, each in enumerate(events) if n == 0 or each != events[n - 1]]


def recalled(log: Path) -> Recalled:
    """As a gateway that starts."""
    return Recalled(LogReader(log).one_by_one(), retired(log).known)


def refused(log: Path, incarnation: int) -> bool:
    bench = Bench(recalled=recalled(log))
    said = bench.join("c", a_hello(incarnation=incarnation, start=9), now=99)
    return isinstance(said[0], m.ErrorMessage)


@pytest.mark.parametrize("merged", [False, True])
def test_attack_08_the_newest_start_goes_and_all_else_stays(merged: bool, tmp_path: Path) -> None:
    log = filled(tmp_path, *STARTS)
    if merged:
        compaction.merge(numbered_files(log))
        assert compaction.swept(log)
    assert refused(log, 6)
    before = [row for frame in LogReader(log) for row in frame.batch.to_pylist()]
    done = forget(log, "main", "d")
    assert (done.incarnation, done.records) == (LARGEST, 4)
    assert starts_in(log) == [("d", 5), ("e", 1), ("e", 2)]
    assert starts_in(done.former) == list(STARTS)
    kept = [row for row in before if (row["source"], row["incarnation"]) != ("d", LARGEST)]
    assert [row for frame in LogReader(log) for row in frame.batch.to_pylist()] == kept
    assert refused(log, 4)
    assert not refused(log, 6)


@pytest.mark.parametrize("forgets", [False, True])
def test_a_chain_takes_the_events_of_the_next_start(forgets: bool, tmp_path: Path) -> None:
    """Behind the largest incarnation they are late, whatever a gateway lets in."""
    plan = query("SELECT count(*) FROM events WINDOW TUMBLING 1 s", name="q")
    chosen = ChainSettings(parse_order("sequence"), (plan,), guards=Guards(None))
    log = filled(tmp_path, ("d", 5), ("d", LARGEST))
    if forgets:
        forget(log, "main", "d")
    chain = Chain(chosen, "main")
    later = list(LogReader(filled(tmp_path / "more", ("e", 1), ("e", 2), ("d", 7))))
    for frame in (*LogReader(log), later[-1]):
        chain.process([frame])
    chain.finish()
    late = sum(lane["earlier_start"] for lane in chain.counters()["lanes"])
    assert late == (0 if forgets else 3)


def test_what_is_known_of_retired_files_is_forgotten_too(tmp_path: Path) -> None:
    log = filled(tmp_path, *STARTS)
    gone = numbered_files(log)[:3]
    known = Recalled()
    for file in gone:
        for frame in streamed_frames(file.path):
            known.take(frame)
    assert retire(log, gone, known.saved(), None) is not None
    assert refused(log, 6)
    assert forget(log, "main", "d").incarnation == LARGEST
    assert retired(log).upto == 3
    assert not refused(log, 6)
    assert starts_in(log) == [("e", 2)]
    with LogWriter(log) as writer:
        assert writer.files == 4


def test_it_is_said_what_cannot_be_forgotten(tmp_path: Path) -> None:
    log = filled(tmp_path, ("door", 1))
    with pytest.raises(UserError, match=r"has no source main/dor; did you mean .main/door.*"):
        forget(log, "main", "dor")
    with pytest.raises(UserError, match="is no arrival log"):
        forget(tmp_path / "none", "main", "door")
    with LogWriter(log), pytest.raises(UserError, match="another process is writing this log"):
        forget(log, "main", "door")
    assert starts_in(log) == [("door", 1)]
    forget(log, "main", "door")
    with pytest.raises(UserError, match="a former log is still there"):
        forget(log, "main", "door")
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_a_disk_that_fails_leaves_the_log_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = filled(tmp_path, *STARTS)

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(LogWriter, "append", full)
    with pytest.raises(OSError, match="No space"):
        forget(log, "main", "d")
    assert starts_in(log) == list(STARTS)
    assert [path.name for path in tmp_path.iterdir()] == ["log"]


def test_the_command_names_the_former_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = filled(tmp_path, *STARTS)
    assert run(["log", "forget", str(log), "d", "--json"]) == 0
    reported = json.loads(capsys.readouterr().out)
    assert reported == {
        "log": str(log), "site": "main", "source": "d", "former": f"{log}.before-forget",
        "incarnation": LARGEST, "records": 4,
    }  # fmt: skip
