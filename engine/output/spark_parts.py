"""Results of a run on Spark: rows of packed tables, written by Spark's Parquet sink.

``spark/kind=NAME/*.parquet`` are the files, ``spark/_spark_metadata`` lists the valid ones: Spark
writes an entry for each micro-batch when its files are complete, so a repeated batch counts once.
Output for the end of the input has ``last``; each later end replaces it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from slackwater.engine.core.errors import UserError
from slackwater.engine.log.whole_file import DAMAGED, open_parquet
from slackwater.engine.output.schema import POSITION
from slackwater.engine.output.table_files import by_schema, event_tables, table_of_bytes

if TYPE_CHECKING:  # a query over a few lines needs no Parquet, which is slow to import
    import pyarrow.parquet as pq

BY_SPARK: Final = "spark"
KIND: Final = "kind"
END: Final = 999_999_999_999
"""Batch of the output for the end of the input: after all others, replaced by each later end."""
COUNTERS: Final = "counters"
"""Counters of the sites whose input has ended; every end emits them."""
_SINK_LOG: Final = "_spark_metadata"
_ENTRY: Final = re.compile(r"([0-9]+)(\.compact)?")
_PAYLOAD: Final = "payload"
_INDEX: Final = pa.schema(
    {
        "site": pa.string(), "batch": pa.int64(), "number": pa.int64(), "last": pa.bool_(),
        "rows": pa.int64(),
    }
)  # fmt: skip
_PLACES: Final = ("file", "group", "place")
"""Place of a row: number of its file, row group, and place in the group."""


class _File(Struct, frozen=True):
    """A valid file, and its size [bytes]."""

    path: Path
    size: int


class SparkParts:
    """The results of the run in ``directory``.

    Raises:
        UserError: Spark's list of files is damaged, or a file is missing or shorter.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.batches, files = self._listed()
        self._files: dict[str, list[_File]] = {}
        for file in files:
            if not file.path.exists():
                raise self.refused(file.path, "is gone")
            if file.path.stat().st_size != file.size:
                raise self.refused(
                    file.path, f"ends at byte {file.path.stat().st_size}, and had {file.size}"
                )
            self._files.setdefault(file.path.parent.name.removeprefix(f"{KIND}="), []).append(file)

    def refused(self, path: Path, what: str) -> UserError:
        """Return the error for a file, with a remedy."""
        return UserError(
            f"{path}: {what}; restore it as this run has written it, or remove {self._directory} "
            "to start the run from scratch"
        )

    def check(self, committed: int) -> None:
        """Check that the first ``committed`` batches are complete, and their checksums correct.

        Raises:
            UserError: a file has changed; the message names it and the remedy.
        """
        if self.batches < committed:
            path = self._directory / BY_SPARK / _SINK_LOG / str(self.batches)
            raise self.refused(path, "is gone, or the run is of another version")
        for file in (file for of_kind in self._files.values() for file in of_kind):
            with self.opened(file.path) as opened:
                for group in range(opened.num_row_groups):
                    opened.read_row_group(group)

    @contextmanager
    def opened(self, path: Path) -> Iterator[pq.ParquetFile]:
        """Open a file for the block.

        Raises:
            UserError: it is damaged.
        """
        try:
            with open_parquet(path) as file:
                if not {*_INDEX.names, _PAYLOAD} <= {*file.schema_arrow.names}:
                    raise self.refused(path, f"is damaged: it has {file.schema_arrow.names}")
                yield file
        except DAMAGED as error:
            raise self.refused(path, f"is damaged: {error}") from error

    def open(self, kind: str) -> SparkBatches:
        """Return the batches of ``kind``."""
        return SparkBatches(self, self._files.get(kind, []))

    @cached_property
    def last_end(self) -> int:
        """The last micro-batch in which an input ended; -1: none."""
        ends = [_index(self, file.path, 0) for file in self._files.get(COUNTERS, [])]
        return max((pc.max(table["batch"]).as_py() for table in ends if len(table)), default=-1)

    def _listed(self) -> tuple[int, list[_File]]:
        """Return the number of micro-batches, and their files.

        An entry has a version and a JSON line for each file; a compact one includes earlier
        entries.
        """
        log = self._directory / BY_SPARK / _SINK_LOG
        entries: dict[int, Path] = {}
        begin = 0
        for path in log.iterdir() if log.is_dir() else ():
            found = _ENTRY.fullmatch(path.name)
            if found is not None:
                number = int(found[1])
                entries[number] = path
                if found[2]:
                    begin = max(begin, number)
        files: list[_File] = []
        last = max(entries, default=-1)
        for number in range(begin, last + 1):
            path = entries.get(number, log / str(number))
            if not path.exists():
                raise self.refused(path, "is gone")
            try:
                version, *lines = path.read_text(encoding="utf-8").splitlines()
                if version != "v1":
                    raise self.refused(path, f"is damaged: begins with {version!r}")
                files += [self._file(json.loads(line)) for line in lines]
            except (ValueError, KeyError) as error:
                raise self.refused(path, f"is damaged: {error}") from error
        return last + 1, files

    def _file(self, entry: dict[str, Any]) -> _File:
        """Return the file of an entry, in the current folder, as it may have been moved."""
        *_, kind, name = unquote(entry["path"]).split("/")
        return _File(self._directory / BY_SPARK / kind / name, entry["size"])


class SparkBatches:
    """The rows of one kind, for an export (``part_store.Batches``)."""

    def __init__(self, parts: SparkParts, files: Sequence[_File]) -> None:
        self._parts = parts
        self._files = [file.path for file in files]
        self.count = len(files)
        empty = _placed(_INDEX.empty_table(), 0, 0)
        found = [_index(parts, path, number) for number, path in enumerate(self._files)]
        rows = pa.concat_tables([empty, *found])
        if pc.any(rows["last"], min_count=0).as_py():
            stale = pc.and_(rows["last"], pc.not_equal(rows["batch"], parts.last_end))
            rows = rows.filter(pc.invert(stale))
            end = pc.if_else(rows["last"], END, rows["batch"])
            rows = rows.set_column(rows.schema.get_field_index("batch"), "batch", end)
        self._rows = rows.sort_by([(name, "ascending") for name in ("batch", "site", "number")])

    @property
    def sites(self) -> set[str]:
        return set(self._rows["site"].unique().to_pylist())

    @property
    def batches(self) -> list[int]:
        return sorted(self._rows["batch"].unique().to_pylist())

    def rows(self) -> dict[str, int]:
        """Rows by site, over all batches."""
        sums = self._rows.group_by("site").aggregate([("rows", "sum")])
        return dict(zip(sums["site"].to_pylist(), sums["rows_sum"].to_pylist(), strict=True))

    def payloads(self) -> Iterator[tuple[str, bytes]]:
        """Yield (site, content), by batch, site and number."""
        return self._contents(self._rows)

    def tables(
        self, sites: Sequence[str], columns: list[str] | None = None, batch_id: int | None = None
    ) -> Iterator[tuple[int, pa.Table]]:
        """Yield tables as ``part_store.BatchFiles.tables`` does; per batch, one for each schema."""
        chosen = pc.is_in(self._rows["site"], pa.array(sites, pa.string()))
        rows = self._rows.filter(chosen)
        for batch in rows["batch"].unique().to_pylist():
            if batch_id in (None, batch):
                of_batch = rows.filter(pc.equal(rows["batch"], batch))
                selection = {name.partition(".")[0] for name in columns or ()}
                for table in _together(self._contents(of_batch), selection):
                    yield batch, table

    def _contents(self, rows: pa.Table) -> Iterator[tuple[str, bytes]]:
        """Yield (site, content) of ``rows``, in order; each row group is read once.

        Neighbouring sites are in different files, as Spark distributes them.
        """
        of_group: dict[tuple[int, int], list[tuple[int, int]]] = {}
        columns = (rows[name].to_pylist() for name in _PLACES)
        for row, (file, group, place) in enumerate(zip(*columns, strict=True)):
            of_group.setdefault((file, group), []).append((row, place))
        contents = [b""] * len(rows)
        for (file, group), places in of_group.items():
            with self._parts.opened(self._files[file]) as opened:
                payloads = opened.read_row_group(group, columns=[_PAYLOAD])[_PAYLOAD]
            for row, place in places:
                contents[row] = payloads[place].as_py()
        yield from zip(rows["site"].to_pylist(), contents, strict=True)


def _index(parts: SparkParts, path: Path, number: int) -> pa.Table:
    """Return the index columns of a file, with the places of its rows."""
    with parts.opened(path) as opened:
        groups = [
            opened.read_row_group(group, columns=_INDEX.names).cast(_INDEX)
            for group in range(opened.num_row_groups)
        ]
    return pa.concat_tables(
        [_placed(rows, number, group) for group, rows in enumerate(groups)]
        or [_placed(_INDEX.empty_table(), number, 0)]
    )


def _placed(rows: pa.Table, file: int, group: int) -> pa.Table:
    places = (np.full(len(rows), file), np.full(len(rows), group), np.arange(len(rows)))
    for name, place in zip(_PLACES, places, strict=True):
        rows = rows.append_column(name, pa.array(place))
    return rows


def _together(
    contents: Iterator[tuple[str, bytes]], columns: Collection[str]
) -> Iterator[pa.Table]:
    """Yield the tables in ``contents``, combined by schema, with ``columns`` (empty: all).

    Events of a site are ordered only by place, so its tables become one.
    """
    tables = [table_of_bytes(content, columns) for _, content in contents]
    of_events = not columns and POSITION not in tables[0].schema.names
    yield from map(pa.concat_tables, event_tables(tables) if of_events else by_schema(tables))
