"""Results as JSONL (DESIGN "Results"), Parquet or CSV: by site, then order of emission.

Times are whole numbers of the unit, rounded down where an instant (a deadline, say) falls
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

from engine.errors import UserError
from engine.log.whole_file import whole_file
from engine.results.batch_files import BatchFiles, site_groups
from engine.results.flat_columns import flat
from engine.results.json_texts import in_one_text
from engine.results.match_lines import match_lines, match_pieces
from engine.results.schema import MATCH_SCHEMA, POSITION, WINDOW_SCHEMA
from engine.results.table_file import CSV, write_table
from engine.results.typed_columns import TypedColumns
from engine.results.window_lines import window_lines, window_pieces
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
        for number, texts in _results(Path(directory), unit, queries, times):
            stream.writelines(texts)
            count += number
    return count


def export_table(
    directory: str | Path,
    out: str | Path,
    kind: str,
    time_unit: str = "ns",
    times: Mapping[str, Collection[str]] = MappingProxyType({}),
    events: int = 0,
) -> int:
    """Writes the results of a ``ResultSink`` as one table; gives their number.

    In Parquet, objects (keys, values, bounds, attributes of events) are structs with typed fields;
    in CSV their fields are columns (``engine.results.flat_columns``).

    Args:
        directory: what the sink wrote; results of an empty run are no rows.
        out: a path, which appears whole; CSV if it ends in ``.csv``, else Parquet.
        kind: ``matches`` or ``windows``: what the table holds.
        time_unit: of every time, rounded down to whole numbers.
        times: as of ``export_jsonl``.
        events: in CSV, the most that a match may have, so that the columns do not depend on which
            matches there are.

    Raises:
        UserError: the directory is absent, damaged, or holds results of the other kind too; a field
            has two types; the file cannot be written.
    """
    files, columns = _typed(Path(directory), kind, unit_ns(time_unit), times)
    schema = columns.schema
    tables: Iterator[pa.Table] = map(columns.typed, _all(files))
    if Path(out).suffix == CSV:
        places = max(events, columns.longest)
        schema = flat(schema.empty_table(), places).schema
        tables = (flat(table, places) for table in tables)
    return write_table(Path(out), schema, tables)


def _typed(
    directory: Path, kind: str, unit: int, times: Mapping[str, Collection[str]]
) -> tuple[BatchFiles, TypedColumns]:
    """The files of ``kind``, and their typed columns."""
    kinds = _kinds(directory)
    others = [name for name, files in kinds.items() if files.sites and name != kind]
    if others:
        what = f"holds {others[0]}, which a table of {kind} cannot say"
        raise UserError(f"{directory}: {what}; write JSONL")
    columns = TypedColumns(MATCH_SCHEMA if kind == MATCHES else WINDOW_SCHEMA, kind, unit, times)
    files = kinds[kind]
    for sites in site_groups([files]):
        for _, table in files.tables(sites, columns.needed):
            columns.learn(table)
    return files, columns


def _all(files: BatchFiles) -> Iterator[pa.Table]:
    """By site, then in order of emission."""
    for sites in site_groups([files]):
        yield from _by_site(files, sites)


def _by_site(files: BatchFiles, sites: list[str]) -> Iterator[pa.Table]:
    """The rows of ``sites``, one after another: of several all at once, as they are few."""
    tables = (table for _, table in files.tables(sites))
    if len(sites) == 1:
        yield from tables
    else:
        table = pa.concat_tables(tables)
        yield table.take(np.argsort(_place(table.column("site"), pa.array(sites)), kind="stable"))


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
) -> Iterator[tuple[int, list[str]]]:
    """(number of lines, their texts) of each site, query and batch, in order of emission."""
    kinds = _kinds(directory)
    for sites in site_groups(list(kinds.values())):
        if len(sites) == 1:
            yield from _of_site(kinds, sites, unit, queries, times)
        else:
            yield _of_sites(kinds, sites, unit, queries, times)


def _of_site(
    kinds: dict[str, BatchFiles],
    site: list[str],
    unit: int,
    queries: Sequence[str],
    times: Mapping[str, Collection[str]],
) -> Iterator[tuple[int, list[str]]]:
    """Of one site, which may have many results: a batch at a time."""
    present: set[str] = set()
    batches: set[int] = set()
    for files in kinds.values():
        for batch_id, table in files.tables(site, ["query"]):
            batches.add(batch_id)
            present.update(table.column("query").unique().to_pylist())
    for query in _ranked(present, queries):
        for batch_id in sorted(batches):
            # Nothing is left out where there is one query.
            tables = {
                kind: [
                    table if len(present) == 1 else table.filter(pc.field("query") == query)
                    for table in tables
                ]
                for kind, files in kinds.items()
                if (tables := [table for _, table in files.tables(site, batch_id=batch_id)])
            }
            joined = {kind: pa.concat_tables(of) for kind, of in tables.items()}
            yield _in_order(joined, unit, times.get(query, ()))


def _of_sites(
    kinds: dict[str, BatchFiles],
    sites: list[str],
    unit: int,
    queries: Sequence[str],
    times: Mapping[str, Collection[str]],
) -> tuple[int, list[str]]:
    """Of several sites with few results each: all at once."""
    lines: list[str] = []
    places: list[tuple[np.ndarray, ...]] = []
    found = {kind: list(files.tables(sites)) for kind, files in kinds.items()}
    names = [table.column("query").unique().to_pylist() for of in found.values() for _, table in of]
    rank = pa.array(_ranked(set[str]().union(*names), queries), pa.string())
    of_query = (
        (kind, batch_id, name, whole.filter(pc.field("query") == name))
        for kind, of_kind in found.items()
        for batch_id, whole in of_kind
        for name in whole.column("query").unique().to_pylist()
    )
    for kind, batch_id, name, table in of_query:
        asked = times.get(name, ())
        lines += match_lines(table, unit) if kind == MATCHES else window_lines(table, unit, asked)
        places.append(
            (
                _place(table.column("site"), pa.array(sites)),
                _place(table.column("query"), rank),
                np.full(table.num_rows, batch_id),
                table.column(POSITION).to_numpy(),
            )
        )
    site, query, batch, position = map(np.concatenate, zip(*places, strict=True))
    order = np.lexsort((position, batch, query, site))
    return len(lines), [lines[place] for place in order.tolist()]


def _ranked(present: set[str], queries: Sequence[str]) -> list[str]:
    """Queries with results, in their order."""
    named = [name for name in queries if name in present]
    return [*named, *sorted(present.difference(named))]


def _place(texts: pa.ChunkedArray, among: pa.Array) -> np.ndarray:
    return np.asarray(pc.index_in(texts, among).to_numpy())


def _in_order(
    tables: dict[str, pa.Table], unit: int, times: Collection[str]
) -> tuple[int, list[str]]:
    """(number, texts) of the lines of matches and windows, by position."""
    pieces: list[pa.Array] = []
    for kind, table in tables.items():
        pieces += (
            match_pieces(table, unit) if kind == MATCHES else window_pieces(table, unit, times)
        )
    number = sum(map(len, pieces))
    positions = [table.column(POSITION).to_numpy() for table in tables.values()]
    place = np.concatenate([*positions, np.empty(0, np.int64)])
    if (place[1:] >= place[:-1]).all():
        return number, list(map(in_one_text, pieces))
    lines = [line for piece in pieces for line in piece.to_pylist()]
    return number, [lines[j] for j in np.argsort(place, kind="stable").tolist()]
