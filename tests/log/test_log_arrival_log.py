"""The arrival log: written whole, in order, going on after a crash; read only where complete."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.core.errors import ContractViolation, UserError
from slackwater.engine.core.frame import STRING, Frame
from slackwater.engine.log import arrival_log, whole_file
from slackwater.engine.log.arrival_log import LOG_SCHEMA, LogReader, LogWriter
from slackwater.engine.log.input.input_log import open_input


def frame(first: int, rows: int = 2, site: str = "main", **attrs: list[Any]) -> Frame:
    arrival = list(range(first, first + rows))
    columns = {
        "source": pa.array(["s0"] * rows, STRING),
        "seq": pa.array(arrival, pa.int64()),
        "ts": pa.array([2**61 + a for a in arrival], pa.int64()),
        "arrival": pa.array(arrival, pa.int64()),
        **{f"attrs.{name}": pa.array(values) for name, values in attrs.items()},
    }
    return Frame(site, pa.RecordBatch.from_pydict(columns))


def written(directory: Path, *frames: Frame, rows_per_file: int = 4) -> list[Path]:
    with LogWriter(directory, rows_per_file) as writer:
        for each in frames:
            writer.append(each)
    return LogReader(directory).files


def same(found: list[Frame], wanted: list[Frame]) -> bool:
    return [(f.site, f.batch.to_pylist()) for f in found] == [
        (f.site, f.batch.to_pylist()) for f in wanted
    ]


def test_frames_come_back_in_order_and_equal(tmp_path: Path) -> None:
    frames = [frame(0, v=[1, None]), frame(0, site="b"), frame(2, 3), frame(5, s=["é", ""])]
    files = written(tmp_path / "log", *frames)
    assert same(list(LogReader(tmp_path / "log")), frames)
    assert [pq.ParquetFile(file).metadata.num_rows for file in files] == [2, 2]
    table = pq.read_table(files[0])
    assert table.schema.equals(LOG_SCHEMA)
    assert table.drop_columns(["payload"]).to_pylist() == [
        {"site": "main", "first_arrival": 0, "last_arrival": 1, "rows": 2},
        {"site": "b", "first_arrival": 0, "last_arrival": 1, "rows": 2},
    ]


def test_headers_alone_say_when_frames_arrived(tmp_path: Path) -> None:
    written(tmp_path / "log", frame(0), frame(7, site="b"), frame(2, 3), rows_per_file=4)
    reported = [("main", 0, 1), ("b", 7, 8), ("main", 2, 4)]
    assert list(LogReader(tmp_path / "log").spans()) == reported


def test_a_file_has_no_more_frames_than_memory_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrival_log, "FRAMES_PER_FILE", 3)
    frames = [frame(at) for at in range(0, 14, 2)]
    files = written(tmp_path / "log", *frames, rows_per_file=1000)
    assert [pq.ParquetFile(file).metadata.num_rows for file in files] == [3, 3, 1]
    assert same(list(LogReader(tmp_path / "log")), frames)
    monkeypatch.setattr(arrival_log, "BYTES_PER_FILE", 1)
    assert len(written(tmp_path / "bytes", frame(0), frame(2), rows_per_file=10**9)) == 2


def test_the_writer_holds_little_beside_the_payloads_of_small_frames(tmp_path: Path) -> None:
    each = frame(0)
    with LogWriter(tmp_path / "log") as writer:
        writer.append(each)
        gc.collect()
        before, arrow = len(gc.get_objects()), pa.total_allocated_bytes()
        for at in range(2, 2002, 2):
            writer.append(frame(at))
        gc.collect()
        assert pa.total_allocated_bytes() - arrow < 1000 * 100, "frames are kept"
        assert len(gc.get_objects()) - before < 2_500


def test_names_and_mtimes_rise_in_ms(tmp_path: Path) -> None:
    frames = [frame(at) for at in range(0, 40, 2)]
    files = written(tmp_path / "log", *frames, rows_per_file=1)
    assert [file.name for file in files] == [f"frames-{n:012d}.parquet" for n in range(1, 21)]
    times = [file.stat().st_mtime_ns for file in files]
    assert all(time % 10**6 == 0 for time in times)
    assert all(earlier < later for earlier, later in pairwise(times))


def test_a_writer_goes_on_where_the_files_end(tmp_path: Path) -> None:
    files = written(tmp_path / "log", frame(0), frame(2, 4))
    far = files[-1].stat().st_mtime_ns + 10**15  # the clock was set back meanwhile
    os.utime(files[-1], ns=(far, far))
    with LogWriter(tmp_path / "log") as writer:
        with pytest.raises(ContractViolation, match="frame of arrival 4 after 5"):
            writer.append(frame(4))
        writer.append(frame(5))
    new = LogReader(tmp_path / "log").files
    assert [file.name for file in new[:-1]] == [file.name for file in files]
    assert new[-1].stat().st_mtime_ns == far // 10**6 * 10**6 + 10**6
    assert same(list(LogReader(tmp_path / "log")), [frame(0), frame(2, 4), frame(5)])


def test_a_temporary_file_of_a_crash_is_neither_read_nor_in_the_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = tmp_path / "log"
    written(log, frame(0))

    def crash(*_: object) -> None:
        raise KeyboardInterrupt

    writer = LogWriter(log)
    writer.append(frame(2))
    with monkeypatch.context() as patch:
        patch.setattr(whole_file.os, "fsync", crash)
        with pytest.raises(KeyboardInterrupt), writer:
            writer.flush()
    left = [path.name for path in log.iterdir() if path.name.endswith(".writing")]
    assert left == [".frames-000000000002.parquet.writing"]
    assert same(list(LogReader(log)), [frame(0)])
    written(log, frame(2), frame(4))
    assert same(list(LogReader(log)), [frame(0), frame(2), frame(4)])


def _write_on(directory: str) -> None:
    there = Path(directory).is_dir()
    first = max(f.last_arrival for f in LogReader(directory)) + 1 if there else 0
    writer = LogWriter(directory, rows_per_file=1)
    for at in range(first, 10**9, 2):
        writer.append(frame(at))


@pytest.mark.slow
def test_kill_9_loses_only_what_was_not_flushed(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    log, have = tmp_path / "log", 0
    for _ in range(2):
        process = context.Process(target=_write_on, args=(str(log),))
        process.start()
        while not log.exists() or len(list(log.glob("frames-*.parquet"))) < have + 20:
            assert process.is_alive()
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        found = list(LogReader(log))
        assert [f.first_arrival for f in found] == [2 * at for at in range(len(found))]
        assert len(found) >= have + 20
        have = len(found)


def test_a_writer_is_the_only_one_and_takes_frames_that_hold_something(tmp_path: Path) -> None:
    with LogWriter(tmp_path / "log") as writer:
        with pytest.raises(UserError, match="another process is writing this log"):
            LogWriter(tmp_path / "log")
        with pytest.raises(ContractViolation, match="site 'main': an empty frame"):
            writer.append(frame(0).slice(0, 0))
        assert writer.flush() is None
    assert list((tmp_path / "log").glob("*.parquet")) == []
    LogWriter(tmp_path / "log").close()
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="file: cannot be written: File exists"):
        LogWriter(tmp_path / "file")


def test_arrivals_that_are_line_numbers_are_remembered(tmp_path: Path) -> None:
    with LogWriter(tmp_path / "log") as writer:
        writer.arrival_given = False
        writer.append(frame(0))
    assert LogReader(tmp_path / "log").arrival_given is False
    written(tmp_path / "log", frame(2))
    assert LogReader(tmp_path / "log").arrival_given is True


def message(directory: Path) -> str:
    with pytest.raises(UserError) as raised:
        list(LogReader(directory))
    return str(raised.value).removeprefix(str(directory))


def test_folders_that_are_no_log_are_named(tmp_path: Path) -> None:
    log = tmp_path / "x"
    assert message(log) == ": no such folder; an arrival log is a folder"
    log.write_text("")
    assert message(log) == (
        ": is a file, not a folder; an arrival log is a folder, which slackwater log import makes "
        "of it"
    )
    log.unlink()
    log.mkdir()
    assert message(log) == ": not an arrival log: the folder is empty"
    LogWriter(log).close()
    assert message(log) == ": not an arrival log: the folder is empty"
    (log / ".frames-000000000001.parquet.writing").write_bytes(b"PAR1")
    assert message(log) == (
        ": not an arrival log: nothing but unfinished files "
        "(.frames-000000000001.parquet.writing); was the writer cut off?"
    )
    for name in "abcde":
        (log / f"{name}.txt").write_text("")
    found = ".frames-000000000001.parquet.writing, a.txt, b.txt and 3 more"
    assert message(log) == f": not an arrival log: it holds {found}"


def test_row_wise_parquet_is_no_log(tmp_path: Path) -> None:
    pq.write_table(pa.table({"ts": [1], "site": ["a"]}), tmp_path / "rows.parquet")
    want = (
        ": not an arrival log: rows.parquet has the columns ts, site; "
        "make a log of it with slackwater log import"
    )
    assert message(tmp_path) == want
    with pytest.raises(UserError, match=r"not an arrival log: rows\.parquet"):
        LogWriter(tmp_path)


@pytest.mark.parametrize("kept", [0, 3, 100, -4])
def test_a_damaged_file_is_named(kept: int, tmp_path: Path) -> None:
    file = written(tmp_path / "log", frame(0))[0]
    file.write_bytes(file.read_bytes()[:kept])
    assert message(tmp_path / "log").startswith(f"/{file.name}: damaged file: ")
    with pytest.raises(UserError, match=f"/{file.name}: damaged file: "):
        list(open_input(tmp_path / "log"))


def test_one_by_one_the_first_needs_no_other(tmp_path: Path) -> None:
    noise = [os.urandom(1 << 20).hex() for _ in range(3)]
    frames = [frame(at, 1, s=[text]) for at, text in enumerate(noise)]
    (file,) = written(tmp_path / "log", *frames)
    assert same(list(LogReader(tmp_path / "log").one_by_one()), frames)
    data = bytearray(file.read_bytes())
    data[len(data) * 5 // 6] ^= 1  # in the last
    file.write_bytes(data)
    reader = LogReader(tmp_path / "log").one_by_one()
    assert same([next(reader), next(reader)], frames[:2])
    with pytest.raises(UserError, match="damaged file"):
        next(reader)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"payload": b"x"}, "site 'main': damaged frame payload"),
        ({"payload": None}, "row 0 has no site or no payload"),
        ({"site": None}, "row 0 has no site or no payload"),
        ({"rows": 3}, "row 0 does not describe its payload"),
        ({"first_arrival": 1}, "row 0 does not describe its payload"),
        ({"last_arrival": 2}, "row 0 does not describe its payload"),
    ],
)
def test_rows_that_contradict_their_payload(
    change: dict[str, Any], said: str, tmp_path: Path
) -> None:
    row = {"site": "main", "first_arrival": 0, "last_arrival": 1, "rows": 2,
           "payload": frame(0).to_bytes()} | change  # fmt: skip
    pq.write_table(pa.Table.from_pylist([row], LOG_SCHEMA), tmp_path / "a.parquet")
    assert message(tmp_path).startswith(f"/a.parquet: damaged file: {said}")


def test_files_of_two_logs_do_not_mix(tmp_path: Path) -> None:
    written(tmp_path / "log", frame(0), frame(6, site="b"))
    other = written(tmp_path / "other", frame(1), frame(1, site="c"))
    (tmp_path / "log" / "g.parquet").write_bytes(other[0].read_bytes())
    assert len(list(LogReader(tmp_path / "log"))) == 4  # arrival 1 after 1 is no step back
    early = written(tmp_path / "early", frame(0, site="b"))
    (tmp_path / "log" / "h.parquet").write_bytes(early[0].read_bytes())
    want = (
        "/h.parquet: row 0: site 'b' goes back to arrival 0 after 7 of "
        "frames-000000000001.parquet; files of two logs?"
    )
    assert message(tmp_path / "log") == want


@settings(deadline=None, max_examples=15)
@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(1, 5), st.booleans()), min_size=1, max_size=12
    ),
    st.integers(1, 12),
)
def test_any_cut_into_files_reads_the_same(
    tmp_path_factory: pytest.TempPathFactory,
    pieces: list[tuple[str, int, bool]],
    rows_per_file: int,
) -> None:
    log = tmp_path_factory.mktemp("cut") / "log"
    frames = []
    writer = LogWriter(log, rows_per_file)
    for at, (site, rows, restart) in enumerate(pieces):
        frames.append(frame(10 * at, rows, site))
        writer.append(frames[-1])
        if restart:
            writer.close()
            writer = LogWriter(log, rows_per_file)
    writer.close()
    assert same(list(LogReader(log)), frames)
    assert same(list(LogReader(log).one_by_one()), frames)
