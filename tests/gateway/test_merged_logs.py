"""The logs of two gateways as one, beside lists of what came where."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.edge_agent.records import Kind
from slackwater.engine.cli.app import run
from slackwater.engine.core.clocks.choice import ClockChoice
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import Frame
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.log.arrival_log import LogReader, LogWriter
from slackwater.engine.order.registry import parse_order
from slackwater.engine.query import query
from slackwater.engine.server.merged_logs import MergedLogs

MS = 10**6
APART = 40 * MS
Row = dict[str, Any]


def written(folder: Path, rows: list[Row], cut: Random) -> Path:
    """A log of frames of random length; of each site the rows in order of arrival."""
    frames = []
    for site in sorted({row["site"] for row in rows}):
        mine = sorted((row for row in rows if row["site"] == site), key=lambda row: row["arrival"])
        while mine:
            n = cut.randint(1, 6)
            frames.append((mine[0]["arrival"], site, mine[:n]))
            mine = mine[n:]
    with LogWriter(folder, rows_per_file=cut.randint(1, 20)) as log:
        for _, site, part in sorted(frames, key=lambda each: each[0]):
            log.append(Frame(site, batch_of(part)))
    return folder


def batch_of(rows: list[Row]) -> pa.RecordBatch:
    texts = ("source", "type", "stream")
    numbers = ("kind", "seq", "incarnation", "ts", "arrival", "delay", "offset", "first_seq")
    columns: dict[str, pa.Array] = {}
    for name in texts:
        columns[name] = pa.array([row.get(name) for row in rows], pa.string()).dictionary_encode()
    for name in numbers:
        type_ = pa.int8() if name == "kind" else pa.int64()
        columns[name] = pa.array([row.get(name) for row in rows], type_)
    columns["attrs.v"] = pa.array([row.get("v") for row in rows], pa.int64())
    if all(row["kind"] == Kind.EVENT for row in rows):  # as frames leave columns out
        for name in ("kind", "delay", "offset", "first_seq"):
            del columns[name]
    return pa.RecordBatch.from_pydict(columns)


def rows_of(frames: Any) -> list[Row]:
    found = []
    for frame in frames:
        for row in frame.batch.to_pylist():
            full = {"kind": 0, "stream": "events", "incarnation": 0} | row
            found.append(full | {"site": frame.site})
    return found


def world(random: Random) -> tuple[list[list[Row]], list[Row]]:
    """What two gateways have written, and what agents have sent, in true order of arrival.

    An agent sends to one gateway at a time. What a gateway has and has not acked comes again to
    the other one. The second gateway's clock is ahead or behind by less than ``APART``.
    """
    off = [0, random.randint(-APART + 1, APART - 1)]
    logs: list[list[Row]] = [[], []]
    sent: list[Row] = []
    for site, source in (("a", "s1"), ("a", "s2"), ("b", "s1")):
        at, seq = random.randint(0, 300) * MS, 0
        for _ in range(random.randint(1, 5)):
            gateway, first = random.randrange(2), seq
            base = {"site": site, "source": source, "stream": "events", "incarnation": 7}
            here = logs[gateway]

            def put(row: Row, at: int, here: list[Row] = here, ahead: int = off[gateway]) -> None:
                here.append({**row, "arrival": at + ahead})

            sync = {"kind": int(Kind.SYNC), "seq": None, "ts": at, "offset": 5, "delay": 2 * MS}
            put({**base, **sync, "first_seq": first}, at)
            for _ in range(random.randint(0, 8)):
                at += random.randint(0, 10) * MS
                row = {**base, "kind": 0, "seq": seq, "ts": at, "type": "A", "v": seq}
                sent.append(row)
                put(row, at)
                seq += 1
            pog = {"kind": int(Kind.POG), "seq": seq, "ts": at}
            put({**base, **pog}, at)
            at += random.randint(1, 20) * MS
            seq = random.randint(max(first, seq - 2), seq)  # not all of it was acked
    return logs, sent


@given(st.integers(0, 10**9))
def test_each_event_is_there_once_and_no_promise_comes_before_it(seed: int) -> None:
    import tempfile  # noqa: PLC0415 - a folder for each example

    random = Random(seed)
    logs, sent = world(random)
    if not all(logs):
        return
    with tempfile.TemporaryDirectory() as scratch:
        folders = [written(Path(scratch, str(n)), log, random) for n, log in enumerate(logs)]
        merged = MergedLogs(folders, APART)
        rows = rows_of(merged)
        with LogWriter(Path(scratch, "out")) as out:  # which refuses arrivals that go back
            for frame in MergedLogs(folders, APART):
                out.append(frame)
        assert rows_of(LogReader(Path(scratch, "out"))) == rows
    check(rows, sent, logs)
    assert merged.copies == sum(map(len, logs)) - len(rows)


def check(rows: list[Row], sent: list[Row], logs: list[list[Row]]) -> None:
    def key(row: Row) -> tuple[str, str, int]:
        return row["site"], row["source"], row["seq"]

    events = [key(row) for row in rows if row["kind"] == 0]
    assert sorted(events) == sorted(set(map(key, sent)))
    by_site: dict[str, list[int]] = {}
    for row in rows:
        by_site.setdefault(row["site"], []).append(row["arrival"])
    assert all(arrivals == sorted(arrivals) for arrivals in by_site.values())
    for place, row in enumerate(rows):
        if row["kind"] == Kind.POG:
            after = [each for each in rows[place:] if each["kind"] == 0]
            late = [e for e in after if key(e)[:2] == key(row)[:2] and e["seq"] < row["seq"]]
            assert not late
    syncs = [row for row in rows if row["kind"] == Kind.SYNC]
    assert len(syncs) == sum(row["kind"] == Kind.SYNC for log in logs for row in log)
    assert {row["delay"] for row in syncs} <= {2 * MS, 2 * MS + 2 * APART}
    widened = sum(row["delay"] > 2 * MS for row in syncs)
    assert widened == sum(row["kind"] == Kind.SYNC for row in logs[1])
    assert all(row["first_seq"] == 0 for row in syncs)


def test_a_log_that_another_program_cannot_be_put_beside(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"source": "s", "seq": 0, "ts": 1}\n')
    log = tmp_path / "a.log"
    assert run(["log", "import", str(tmp_path / "a.jsonl"), "--out", str(log)]) == 0
    with pytest.raises(UserError, match="without arrivals"):
        MergedLogs([log, log], 0)


def test_attributes_of_two_types_are_refused_with_the_site(tmp_path: Path) -> None:
    row = {"site": "a", "kind": 0, "source": "s", "seq": 0, "ts": 1, "arrival": 1, "v": 1}
    one = written(tmp_path / "one", [row], Random(1))
    batch = batch_of([row | {"seq": 1}])
    place = batch.schema.names.index("attrs.v")
    other = batch.set_column(place, "attrs.v", pa.array(["x"]).dictionary_encode())
    with LogWriter(tmp_path / "two") as log:
        log.append(Frame("a", other))
    with pytest.raises(UserError, match="site 'a': an attribute has another type"):
        list(MergedLogs([one, tmp_path / "two"], 0))


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [
        {"site": "a", "kind": 0, "source": "s", "seq": n, "ts": n, "arrival": n, "v": n}
        for n in range(6)
    ]
    for name, part in (("one", rows[:4]), ("two", rows[2:])):
        written(tmp_path / name, part, Random(1))
    logs, out = [str(tmp_path / name) for name in ("one", "two")], str(tmp_path / "both")

    merge = ["log", "merge"]
    assert run([*merge, *logs, "--out", out]) == 2
    assert "add --apart, how far" in capsys.readouterr().err
    assert run([*merge, *logs, "--out", out, "--apart", "5"]) == 2
    assert "write its unit, as in 5ms" in capsys.readouterr().err
    assert run([*merge, logs[0], "--out", out, "--apart", "5ms"]) == 2
    assert run([*merge, *logs, "--out", out, "--apart", "5ms", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["copies"] == 2
    assert [row["seq"] for row in rows_of(LogReader(out))] == list(range(6))
    assert run([*merge, *logs, "--out", out, "--apart", "5ms"]) == 2


def test_a_gateway_that_stood_by_has_nothing_to_add(tmp_path: Path) -> None:
    row = {"site": "a", "kind": 0, "source": "s", "seq": 0, "ts": 1, "arrival": 1, "v": 1}
    one = written(tmp_path / "one", [row], Random(1))
    LogWriter(tmp_path / "two").close()
    assert [each["seq"] for each in rows_of(MergedLogs([one, tmp_path / "two"], 0))] == [0]
    (tmp_path / "other").mkdir()
    with pytest.raises(UserError, match="the folder is empty"):
        MergedLogs([one, tmp_path / "other"], 0)
    with pytest.raises(UserError, match="nothing came"):
        MergedLogs([tmp_path / "two"], 0)


@pytest.mark.parametrize("ahead", [40 * MS, -40 * MS])
def test_agents_of_both_gateways_say_how_far_their_clocks_are_apart(
    ahead: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs: list[list[Row]] = [[], []]
    for turn, source in enumerate("ssuuss"):
        gateway, at = turn % 2, turn * 1000 * MS
        of = {"site": "a", "source": source, "incarnation": 7, "stream": "events"}
        offset = (5 if source == "s" else 900) * MS + ahead * gateway
        sync = {"kind": int(Kind.SYNC), "ts": at, "offset": offset, "delay": 2 * MS}
        first = {"first_seq": turn, "seq": None, "arrival": at + offset}
        event = {"kind": 0, "seq": turn, "ts": at, "v": 1, "arrival": at + offset + 1}
        logs[gateway] += [{**of, **sync, **first}, {**of, **event}]
    folders = [written(tmp_path / f"{n}", log, Random(1)) for n, log in enumerate(logs)]
    merged = MergedLogs(folders, 50 * MS)
    list(merged)
    (compared,) = merged.comparisons()
    assert (compared.log, compared.other) == (folders[1], folders[0])
    assert compared.low_ns <= ahead <= compared.high_ns
    assert compared.high_ns - compared.low_ns < 10 * MS

    merge = ["log", "merge", *map(str, folders), "--out"]
    assert run([*merge, str(tmp_path / "near"), "--apart", "5ms"]) == 0
    said = capsys.readouterr()
    assert "more than --apart 5ms" in said.err
    assert "ahead of that of" in said.out
    advised = said.err.split("with --apart ")[1].split()[0]
    assert run([*merge, str(tmp_path / "far"), "--apart", advised]) == 0
    assert "warning" not in capsys.readouterr().err


@pytest.mark.parametrize("order", ["none", "kslack:0", "sequence"])
def test_what_came_to_a_slow_gateway_may_have_happened_later_than_it_says(
    order: str, tmp_path: Path
) -> None:
    """q's event happened at 300 ms of the first gateway's clock; the second one is 40 ms behind."""

    def of(source: str, number: int, at: int, ts: int | None = None) -> Row:
        start = {"site": "a", "source": source, "incarnation": 7, "stream": "events"}
        stamp = (at if ts is None else ts) * MS
        return start | {
            "kind": 0, "seq": number, "ts": stamp, "type": "A", "v": 1, "arrival": at * MS,
        }  # fmt: skip

    def sync(source: str, at: int, offset: int) -> Row:
        return of(source, 0, at, at - offset) | {
            "kind": int(Kind.SYNC), "seq": None, "offset": offset * MS, "delay": MS, "type": None,
        }  # fmt: skip

    first = [sync("p", 1, 0), *(of("p", n, 15 + 20 * n) for n in range(60))]
    second = [of("q", 0, 260, 200), sync("q", 261, 60), of("q", 1, 280, 220)]
    folders = [written(tmp_path / f"{n}", log, Random(1)) for n, log in enumerate([first, second])]
    chosen = ChainSettings(
        parse_order(order), (query("SELECT count(*) AS n WINDOW TUMBLING 20 ms"),),
        clock=ClockChoice(exact=False),
    )  # fmt: skip
    chain = Chain(chosen, "a")
    changes = [
        each for frame in MergedLogs(folders, APART) for each in chain.process([frame]).results[0]
    ]
    changes += chain.finish().results[0]
    standing: dict[int, Row] = {
        each["window"]["start"]: each for each in changes if each["op"] == "+"
    }
    assert standing[300 * MS]["certainty"] == "unknown"
    assert "certainty" not in standing[1000 * MS]
