"""Parquet is read in parts of bounded size, however slow their reader and long the file."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.log.input.lines import CHUNK_LINES
from engine.log.input.parquet_parts import ParquetParts

COLUMNS = 8
PART_BYTES = CHUNK_LINES * COLUMNS * 8
PARTS_MAX = 8
"""That one, and the pages and dictionaries that it is decoded from; the files have 16 and 64."""


@pytest.mark.parametrize("rows_per_group", [CHUNK_LINES, 8 * CHUNK_LINES])
@pytest.mark.parametrize("parts", [16, 64])
def test_a_slow_reader_is_not_read_ahead_of(
    parts: int, rows_per_group: int, tmp_path: Path
) -> None:
    rows = parts * CHUNK_LINES
    random = np.random.default_rng(3)
    values = {f"c{n}": random.random(rows) for n in range(COLUMNS)}
    pq.write_table(pa.table(values), tmp_path / "rows.parquet", row_group_size=rows_per_group)
    table = ParquetParts(str(tmp_path / "rows.parquet"), [str(tmp_path / "rows.parquet")])
    before, most, found = pa.total_allocated_bytes(), 0, 0
    for part in table.parts(table.schema.names):
        time.sleep(0.02)
        most = max(most, pa.total_allocated_bytes() - before)
        assert part.column("c0").to_numpy().tolist()[:3] == values["c0"][found : found + 3].tolist()
        found += part.num_rows
    assert found == rows
    assert most < PARTS_MAX * PART_BYTES


def test_files_of_a_folder_are_one_table_with_its_keys(tmp_path: Path) -> None:
    for day, columns in ((1, {"ts": [1, 2]}), (2, {"ts": [3.5], "b": ["x"]})):
        (tmp_path / f"day={day}").mkdir()
        pq.write_table(pa.table(columns), tmp_path / f"day={day}" / "rows.parquet")
    table = ParquetParts(str(tmp_path), [str(path) for path in sorted(tmp_path.rglob("*.parquet"))])
    found = pa.Table.from_batches(table.parts(["b", "day", "ts"])).to_pydict()
    assert found == {"b": [None, None, "x"], "day": [1, 1, 2], "ts": [1.0, 2.0, 3.5]}
