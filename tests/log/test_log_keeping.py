"""Files are merged and given up while others read: a log in a model's hands.

Random runs of writing, merging, retiring, reading and crashing: at every disk operation the machine
may stop. Whoever reads (a whole pass, an engine that goes on from file to file, Spark's workers
with places they were given before) gets each event once, in order.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import Frame
from slackwater.engine.gateway.recall import Recalled
from slackwater.engine.log import retention as compaction
from slackwater.engine.log.arrival_log import (
    LogReader,
    LogWriter,
    frames_after,
    frames_at,
    frames_in,
    piece_after,
    streamed_frames,
)
from slackwater.engine.log.log_files import file_mark, reading_lock
from slackwater.engine.log.log_folder import RETIRED, numbered_files, retired
from slackwater.engine.log.retention import Limits, beyond, clear, due, merge, retire, swept

SITES = ("a", "b")


def joined(files: list[list[int]]) -> list[int]:
    return [number for file in files for number in file]


class Crash(BaseException):
    """The machine stops."""


def frame(site: str, first: int, rows: int = 2) -> Frame:
    numbers = pa.array(np.arange(first, first + rows))
    columns = {
        "source": pa.array([site] * rows), "seq": numbers, "ts": numbers, "arrival": numbers,
    }  # fmt: skip
    return Frame(site, pa.RecordBatch.from_pydict(columns))


def seqs(frames: Iterator[Frame] | list[Frame] | LogReader) -> list[int]:
    return [number for each in frames for number in each.batch.column("seq").to_pylist()]


@contextmanager
def stops_after(operations: int | None) -> Iterator[None]:
    """The machine stops at the disk operation of that number, before or after it is done."""
    left = [10**9 if operations is None else operations]

    def counted(call: Callable[..., Any]) -> Callable[..., Any]:
        def counting(*args: Any, **options: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                raise Crash
            done = call(*args, **options)
            left[0] -= 1
            if left[0] == 0:
                raise Crash
            return done

        return counting

    with pytest.MonkeyPatch.context() as patch:
        for owner, name in ((Path, "rename"), (Path, "unlink"), (os, "utime")):
            patch.setattr(owner, name, counted(getattr(owner, name)))
        patch.setattr(os, "fsync", counted(lambda _: None))  # which takes most of the time
        yield


class Model:
    """A log, what was written, and its readers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: list[list[int]] = []
        """Numbers of the events of each file ever written, in order."""
        self.next = 0
        self.writer = LogWriter(folder)
        self.done = 0
        self.read: list[int] = []
        """What the engine that goes from file to file has read."""
        self.passes: list[tuple[LogReader, int, int]] = []
        self.pages: list[tuple[dict[str, list[int]], list[int]]] = []
        self.paged = 0
        """Number of the last file on a page."""

    def write(self, files: int) -> None:
        for _ in range(files):
            site = SITES[self.next // 2 % 2]
            self.writer.append(frame(site, self.next))
            before = self.writer.files
            self.next += 2
            try:
                self.writer.flush()
            finally:
                if (self.folder / f"frames-{before + 1:012d}.parquet").exists():
                    self.files.append([self.next - 2, self.next - 1])

    def merge(self) -> None:
        while files := due(self.folder):
            merge(files)
        swept(self.folder)

    def retire(self, keep_files: int) -> None:
        now = self.next - 2 * keep_files
        found = beyond(self.folder, Limits(age_ns=1), now, self.needed)
        if found.files:
            known = Recalled(saved=retired(self.folder).known)
            for file in found.files:
                for each, streamed in zip(
                    frames_in(file.path), streamed_frames(file.path), strict=True
                ):
                    assert streamed.batch.equals(each.batch)
                    known.take(each)
            retire(self.folder, found.files, known.saved(), self.needed)

    @property
    def needed(self) -> int:
        """The engine has read up to here; no page names earlier files."""
        return 0 if self.pages else self.done

    def begin_pass(self) -> None:
        if len(self.files) > retired(self.folder).upto:
            self.passes.append((LogReader(self.folder), retired(self.folder).upto, self.last))

    @property
    def last(self) -> int:
        return len(self.files)

    def end_passes(self) -> None:
        for reader, upto, last in self.passes:
            assert seqs(reader) == joined(self.files[upto:last])
        self.passes = []

    def follow(self) -> None:
        assert self.done >= retired(self.folder).upto
        for frames, done in frames_after(self.folder, self.done, self.last):
            self.read += seqs(frames)
            self.done = done
        assert self.done == self.last
        assert self.read == joined(self.files)

    def page(self) -> None:
        """What follows the page before, as its files are named now, read later."""
        begun = done = max(self.paged, retired(self.folder).upto)
        places: dict[str, list[int]] = {}
        while done < self.last:
            with reading_lock(self.folder):
                piece = piece_after(self.folder, done)
            places[piece.path.name] = list(range(piece.start, len(frames_in(piece.path))))
            self.paged = done = piece.last
        self.pages.append((places, joined(self.files[begun:done])))

    def end_pages(self) -> None:
        """One by one, and all at once: a run that was killed may find two of them due."""
        together: dict[str, list[int]] = {}
        for places, expected in self.pages:
            assert self.read_page(places) == expected
            for name, rows in places.items():
                together.setdefault(name, []).extend(rows)
        assert self.read_page(together) == joined([expected for _, expected in self.pages])
        self.pages = []

    def read_page(self, places: dict[str, list[int]]) -> list[int]:
        return [number for frames in frames_at(self.folder, places) for number in seqs(frames)]

    def restart(self) -> None:
        self.passes = []
        os.close(self.writer._lock)
        clear(self.folder)
        self.writer = LogWriter(self.folder)
        assert self.writer.files == self.last
        self.check()

    def check(self) -> None:
        upto = retired(self.folder).upto
        if self.last > upto:
            assert seqs(LogReader(self.folder)) == joined(self.files[upto:])
        recalled = Recalled(
            LogReader(self.folder) if self.last > upto else (), retired(self.folder).known
        )
        for number, site in enumerate(SITES):
            mine = [n for file in self.files for n in file if n // 2 % 2 == number]
            if mine:
                came = recalled.sources["main" and site, site].streams["events"]
                assert all(not came.new_parts(n, n + 1) for n in mine)
                assert came.new_parts(self.next + 50, self.next + 51)
        if self.last:
            assert recalled.last_arrival == self.files[-1][-1]
            assert file_mark(self.folder, 1) is not None

    def close(self) -> None:
        os.close(self.writer._lock)


OPERATIONS = st.one_of(
    st.tuples(st.just("write"), st.integers(1, 12)),
    st.tuples(st.just("merge"), st.none()),
    st.tuples(st.just("retire"), st.integers(1, 12)),
    st.tuples(st.just("begin_pass"), st.none()),
    st.tuples(st.just("end_passes"), st.none()),
    st.tuples(st.just("follow"), st.none()),
    st.tuples(st.just("page"), st.none()),
    st.tuples(st.just("end_pages"), st.none()),
    st.tuples(st.just("restart"), st.none()),
)
STEPS = st.lists(st.tuples(OPERATIONS, st.one_of(st.none(), st.integers(1, 40))), max_size=25)


@settings(max_examples=12, deadline=None)
@given(steps=STEPS)
def test_readers_get_every_event_once_whatever_happens(
    steps: list[tuple[tuple[str, int | None], int | None]],
) -> None:
    with TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(compaction, "FAN", 3)
        model = Model(Path(name))
        for (what, size), crash in steps:
            crashes = crash if what in ("write", "merge", "retire") else None
            try:
                with stops_after(crashes):
                    getattr(model, what)(*(() if size is None else (size,)))
            except Crash:
                model.restart()
        model.end_passes()
        model.end_pages()
        model.follow()
        model.check()
        model.close()


def written(folder: Path, files: int) -> None:
    with stops_after(None), LogWriter(folder) as writer:
        for number in range(files):
            writer.append(frame(SITES[number % 2], 2 * number))
            writer.flush()


def merged(folder: Path) -> None:
    while files := due(folder):
        merge(files)
    assert swept(folder)


def test_many_small_files_become_a_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "FAN", 4)
    written(tmp_path, 27)
    before = seqs(LogReader(tmp_path))
    merged(tmp_path)
    files = numbered_files(tmp_path)
    assert [(file.first, file.last) for file in files] == [
        (1, 16), (17, 20), (21, 24), (25, 25), (26, 26), (27, 27),
    ]  # fmt: skip
    assert files[0].path.name == "merged-000000000001-000000000016.parquet"
    assert seqs(LogReader(tmp_path)) == before == list(range(54))


def test_a_reader_holds_what_it_found(tmp_path: Path) -> None:
    written(tmp_path, 70)
    reader = LogReader(tmp_path)
    while files := due(tmp_path):
        merge(files)
    assert not swept(tmp_path)
    assert retire(tmp_path, numbered_files(tmp_path)[:1], {}, None) is None
    assert seqs(reader) == list(range(140))
    assert len(list(tmp_path.glob("frames-*"))) == 70
    del reader
    assert swept(tmp_path)
    assert len(list(tmp_path.glob("*.parquet"))) == 2 + 6


def test_limits_by_age_and_size_spare_the_newest_and_what_is_unread(tmp_path: Path) -> None:
    written(tmp_path, 10)
    size = numbered_files(tmp_path)[0].path.stat().st_size

    def gone(read: int | None = None, now_ns: int = 10**6, **limits: Any) -> tuple[int, int]:
        found = beyond(tmp_path, Limits(**limits), now_ns, read)
        return len(found.files), len(found.kept)

    assert gone() == (0, 0)
    assert gone(age_ns=1) == (9, 0)
    assert gone(age_ns=10, now_ns=20) == (5, 0)
    assert gone(age_ns=10, now_ns=19) == (4, 0)  # the last arrival of the fifth is of that age
    newest = sum(file.path.stat().st_size for file in numbered_files(tmp_path)[-4:])
    assert gone(bytes=newest) == (6, 0)
    assert gone(bytes=4 * size + size // 2) == (6, 0)
    assert gone(bytes=1) == (9, 0)
    assert gone(age_ns=1, read=0) == (0, 9)
    assert gone(age_ns=1, read=4) == (4, 5)
    assert gone(age_ns=1, read=4, unread=True) == (9, 0)


def test_what_was_retired_unread_is_counted(tmp_path: Path) -> None:
    written(tmp_path, 10)
    for upto, read, unread in ((4, 3, 1), (6, 3, 3), (8, 8, 3)):
        files = [each for each in numbered_files(tmp_path) if each.last <= upto]
        state = retire(tmp_path, files, {}, read)
        assert state is not None
        assert (state.upto, state.unread) == (upto, unread)
    assert seqs(LogReader(tmp_path)) == list(range(16, 20))


def test_a_damaged_file_is_not_merged(tmp_path: Path) -> None:
    written(tmp_path, 32)
    path = numbered_files(tmp_path)[7].path
    content = bytearray(path.read_bytes())
    content[40] ^= 255
    path.write_bytes(bytes(content))
    with pytest.raises(UserError, match=r"frames-000000000008.parquet: damaged"):
        merge(due(tmp_path))
    assert not list(tmp_path.glob("merged-*"))


def test_without_what_is_known_of_retired_files_the_log_is_refused(tmp_path: Path) -> None:
    written(tmp_path, 4)
    retire(tmp_path, numbered_files(tmp_path)[:2], {}, None)
    state = tmp_path / RETIRED
    content = state.read_bytes()
    state.write_bytes(content[:-1])
    with pytest.raises(UserError, match=r"retired.state: damaged: restore it"):
        LogReader(tmp_path)
    state.unlink()
    with pytest.raises(UserError, match=r"frames-000000000001.parquet of the log is missing"):
        LogReader(tmp_path)


def test_a_merged_file_under_another_name_is_refused(tmp_path: Path) -> None:
    written(tmp_path, 33)
    merged(tmp_path)
    path = tmp_path / "merged-000000000001-000000000032.parquet"
    path.rename(tmp_path / "merged-000000000001-000000000031.parquet")
    with pytest.raises(UserError, match="was written as file 1 of its log"):
        LogReader(tmp_path)


FILES, FRAMES, ROWS = 4, 24, 40_000  # 100 MB
PEAK_MB_MAX = 50
PROGRAM = """
import sys
from pathlib import Path
from slackwater.engine.log.arrival_log import streamed_frames
from slackwater.engine.log.retention import merge
from slackwater.engine.log.log_folder import numbered_files

def kib(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name))

def work(log):
    path = merge(numbered_files(log))
    merged = kib("VmHWM")
    rows = sum(frame.rows for frame in streamed_frames(path))
    return merged, kib("VmHWM"), rows

small, large = map(Path, sys.argv[1:])
_, before, _ = work(small)  # code is loaded
merged, looked, rows = work(large)
print(merged - before, looked - before, rows)
"""


def large_log(folder: Path, frames: int) -> Path:
    """A log of ``FILES`` files of so many frames."""
    random = np.random.default_rng(5)
    first = 0
    with LogWriter(folder, rows_per_file=2 * frames * ROWS) as writer:
        for _ in range(FILES):
            for _ in range(frames):
                columns = {
                    "source": pa.array(["a"] * ROWS).dictionary_encode(),
                    "ts": pa.array(random.integers(0, 2**62, ROWS)),
                    "seq": pa.array(np.arange(first, first + ROWS)),
                    "arrival": pa.array(np.full(ROWS, first)),
                }
                writer.append(Frame("a", pa.RecordBatch.from_pydict(columns)))
                first += ROWS
            writer.flush()
    return folder


@pytest.mark.slow
def test_a_merge_and_a_look_hold_little_of_large_files(tmp_path: Path) -> None:
    small, log = large_log(tmp_path / "small", 1), large_log(tmp_path / "large", FRAMES)
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(small), str(log)],
        capture_output=True, text=True, env=os.environ, check=True,
    )  # fmt: skip
    merge_kib, look_kib, rows = map(int, run.stdout.split())
    assert rows == FILES * FRAMES * ROWS
    assert merge_kib < PEAK_MB_MAX << 10
    assert look_kib < PEAK_MB_MAX << 10
    (file,) = numbered_files(log)
    assert (file.first, file.last) == (1, FILES)
    assert sum(each.rows for each in LogReader(log)) == rows


def test_what_is_known_of_files_is_of_those_that_are_there(tmp_path: Path) -> None:
    sizes: dict[Path, int] = {}
    written(tmp_path, 40)
    while files := due(tmp_path, sizes):
        assert merge(files) is not None
    assert sorted(sizes) == sorted(file.path for file in numbered_files(tmp_path))


def test_two_pages_are_read_in_order_when_files_were_merged_between(tmp_path: Path) -> None:
    """Merged, the file of the second page begins before those that the first one names."""
    model = Model(tmp_path)
    model.write(20)
    model.page()
    model.write(12)
    model.merge()
    model.page()
    assert len(numbered_files(tmp_path)) == 1
    model.end_pages()
    model.close()
