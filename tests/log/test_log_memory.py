"""Looking after a log takes little memory, however large its files are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa

from engine.log.arrival_log import LogReader, LogWriter, frames_in, streamed_frames
from engine.log.compaction import due, merge
from engine.log.files.folder import numbered_files
from engine.stream.frame import Frame

FILES, FRAMES, ROWS = 4, 24, 40_000
PEAK_MB_MAX = 50
"""The rows have 100 MB."""
PROGRAM = """
import sys
from pathlib import Path
from engine.log.arrival_log import streamed_frames
from engine.log.compaction import merge
from engine.log.files.folder import numbered_files

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


def written(folder: Path, frames: int) -> Path:
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


def test_a_merge_and_a_look_hold_little_of_large_files(tmp_path: Path) -> None:
    small, log = written(tmp_path / "small", 1), written(tmp_path / "large", FRAMES)
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


def test_frames_one_by_one_are_those_of_the_file(tmp_path: Path) -> None:
    path = numbered_files(written(tmp_path / "log", 3))[0].path
    for one, other in zip(streamed_frames(path), frames_in(path), strict=True):
        assert one.site == other.site
        assert one.batch.equals(other.batch)


def test_what_is_known_of_files_is_of_those_that_are_there(tmp_path: Path) -> None:
    ones = {name: pa.array([1]) for name in ("ts", "seq", "arrival")}
    columns = {"source": pa.array(["a"]), **ones}
    sizes: dict[Path, int] = {}
    with LogWriter(tmp_path) as writer:
        for _ in range(40):
            writer.append(Frame("a", pa.RecordBatch.from_pydict(columns)))
            writer.flush()
    while files := due(tmp_path, sizes):
        assert merge(files) is not None
    assert sorted(sizes) == sorted(file.path for file in numbered_files(tmp_path))
