"""Results as JSONL (DESIGN "Results") or as one Parquet file: by site, then order of emission.

Times in JSONL are whole numbers of the unit, rounded down where an instant (a deadline, say) falls
between two. Memory holds one site's results of one micro-batch at a time.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TextIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from engine.errors import UserError
from engine.log.whole_file import text_columns, whole_file
from engine.results.batch_files import BatchFiles
from engine.results.match_lines import match_lines
from engine.results.schema import MATCH_SCHEMA, POSITION
from engine.results.typed_windows import typed, typed_schema
from engine.results.window_lines import window_lines
from engine.results.writer import MATCHES, WINDOWS
from engine.units import unit_ns


def export_jsonl(
    directory: str | Path,
    out: str | Path | TextIO,
    time_unit: str = "ns",
    queries: Sequence[str] = (),
    times: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> int:
    """Writes the results of a ``ResultSink`` as JSON lines; gives their number.

    By site, then by query, then in order of emission: independent of how batches were cut.

    Args:
        directory: what the sink wrote; results of an empty run are no lines.
        out: a path (which appears whole) or an open text stream.
        time_unit: of every time, rounded down to whole numbers.
        queries: names in the order wanted; queries not named here follow in order of their names.
        times: of queries, by name, the aggregates that are times (``engine.query.fields``).

    Raises:
        UserError: no such directory, or damaged files in it.
    """
    unit = unit_ns(time_unit)
    count = 0
    with text_out(out) as stream:
        for lines in _results(Path(directory), unit, queries, times):
            stream.writelines(lines)
            count += len(lines)
    return count


def export_parquet(directory: str | Path, out: str | Path, kind: str) -> int:
    """Writes the results of a ``ResultSink`` as one Parquet file, times in ns; gives their number.

    Keys, values and bounds of windows are structs; attributes of a match's events are JSON texts.

    Args:
        directory: what the sink wrote; results of an empty run are no rows.
        out: a path, which appears whole.
        kind: ``matches`` or ``windows``: what the table holds.

    Raises:
        UserError: the directory is absent, damaged, or holds results of the other kind too.
    """
    kinds = _kinds(Path(directory))
    others = [name for name, files in kinds.items() if files.sites and name != kind]
    if others:
        what = f"holds {others[0]}, which a table of {kind} cannot say"
        raise UserError(f"{directory}: {what}; write JSONL")
    files = kinds[kind]
    if kind == WINDOWS:
        kept = typed_schema(_all(files))
    else:
        kept = MATCH_SCHEMA.remove(MATCH_SCHEMA.get_field_index(POSITION))
    count = 0
    try:
        with (
            whole_file(Path(out)) as sink,
            pq.ParquetWriter(
                sink, kept, compression="zstd", use_dictionary=text_columns(kept)
            ) as writer,
        ):
            for table in _all(files):
                given = typed(table, kept) if kind == WINDOWS else table.drop_columns([POSITION])
                writer.write_table(given)
                count += table.num_rows
    except OSError as error:
        raise UserError(f"{out}: cannot be written: {error.strerror}") from error
    return count


def _all(files: BatchFiles) -> Iterator[pa.Table]:
    """By site, then in order of emission."""
    for site in sorted(files.sites):
        for batch_id in files.batches(site):
            yield from files.tables(site, batch_id)


@contextmanager
def text_out(out: str | Path | TextIO) -> Iterator[TextIO]:
    """``out`` itself when it is a stream, else a text file that appears whole.

    Raises:
        UserError: the file cannot be written.
    """
    if not isinstance(out, str | Path):
        yield out
        return
    try:
        with whole_file(Path(out)) as sink:
            text = io.TextIOWrapper(sink, encoding="utf-8", newline="")
            yield text
            text.flush()
            text.detach()
    except OSError as error:
        raise UserError(f"{out}: cannot be written: {error.strerror}") from error


def _kinds(directory: Path) -> dict[str, BatchFiles]:
    if not directory.is_dir():
        raise UserError(f"{directory}: no such folder of results")
    return {name: BatchFiles(directory / name) for name in (MATCHES, WINDOWS)}


def _results(
    directory: Path, unit: int, queries: Sequence[str], times: Mapping[str, Collection[str]]
) -> Iterator[list[str]]:
    """The lines of each site, query and batch, in order of emission."""
    kinds = _kinds(directory)
    for site in sorted(set[str]().union(*(files.sites for files in kinds.values()))):
        batches = sorted({batch for files in kinds.values() for batch in files.batches(site)})
        places = [(files, batch_id) for batch_id in batches for files in kinds.values()]
        present = {
            name
            for files, batch_id in places
            for table in files.tables(site, batch_id, ["query"])
            for name in table.column("query").unique().to_pylist()
        }
        named = [name for name in queries if name in present]
        for query in [*named, *sorted(present.difference(named))]:
            for batch_id in batches:
                tables = {
                    kind: [table.filter(pc.field("query") == query) for table in tables]
                    for kind, files in kinds.items()
                    if (tables := list(files.tables(site, batch_id)))
                }
                joined = {kind: pa.concat_tables(of) for kind, of in tables.items()}
                yield _in_order(joined, unit, times.get(query, ()))


def _in_order(tables: dict[str, pa.Table], unit: int, times: Collection[str]) -> list[str]:
    """The lines of matches and windows, by position."""
    lines: list[str] = []
    for kind, table in tables.items():
        of_windows = kind != MATCHES
        lines += window_lines(table, unit, times) if of_windows else match_lines(table, unit)
    if not lines:
        return lines
    positions = np.concatenate([table.column(POSITION).to_numpy() for table in tables.values()])
    if (positions[1:] < positions[:-1]).any():
        lines = [lines[place] for place in np.argsort(positions, kind="stable").tolist()]
    return lines
