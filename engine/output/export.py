"""Export results as JSONL (DESIGN "Results"), Parquet or CSV: by site, then in order of emission.

Times are exact numbers of the unit (``json_lines.in_unit``). Memory holds the results of one site
in one micro-batch at a time.
"""

from __future__ import annotations

import io
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Final, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.engine.core.errors import UserError
from slackwater.engine.core.operator import Result
from slackwater.engine.core.units import unit_ns
from slackwater.engine.log.row_export import CSV, write_table
from slackwater.engine.log.whole_file import whole_file
from slackwater.engine.output.json_lines import Dates, in_one, in_one_text
from slackwater.engine.output.part_store import Batches, PartStore, site_groups, store_of
from slackwater.engine.output.result_kinds import KINDS
from slackwater.engine.output.schema import POSITION
from slackwater.engine.output.typed_columns import DateColumns, TypedColumns, flat
from slackwater.engine.query.fields import TimeValue

_AT_ONCE: Final = 1 << 14
"""Lines per piece; bounds the texts in memory."""


def export_jsonl(
    directory: str | Path | PartStore,
    out: str | Path | TextIO,
    time_unit: str = "ns",
    queries: Sequence[str] = (),
    times: Mapping[str, Collection[str]] = MappingProxyType({}),
    dates: Dates | None = None,
) -> int:
    """Write the results in a store as JSON lines; return their number.

    The order is by site, query, then emission, so it does not depend on batches.

    Args:
        directory: the store, or its folder; an empty run gives no lines.
        out: a path (written atomically) or an open text stream.
        time_unit: unit of all times.
        queries: order of queries by name; others follow in order of their names.
        times: by query, the labels of aggregates that are times (``engine.query.fields``).
        dates: format of other times; None: numbers.

    Raises:
        UserError: the directory does not exist, or a file is damaged.
    """
    unit, store = unit_ns(time_unit), store_of(directory)
    count = 0
    with text_out(out) as stream:
        for number, texts in _results(store, unit, queries, times, dates=dates):
            stream.writelines(texts)
            count += number
    return count


def read_results(directory: str | Path | PartStore, kind: str) -> Iterator[Result]:
    """Yield results of one kind in a store, in the order and with the times of ``export_jsonl``.

    Raises:
        UserError: the directory does not exist, or a file is damaged.
    """
    for _, texts in _results(store_of(directory), 1, (), {}, (kind,)):
        for text in texts:
            yield from map(json.loads, text.splitlines())


def export_table(
    directory: str | Path | PartStore,
    out: str | Path,
    kind: str,
    time_unit: str = "ns",
    times: Mapping[str, Collection[str]] = MappingProxyType({}),
    events: int = 0,
    dates: Dates | None = None,
    values: Mapping[str, TimeValue] = MappingProxyType({}),
) -> int:
    """Write the results in a store as one table; return their number.

    In Parquet, objects (keys, values, bounds, attributes of events) are structs with typed fields;
    in CSV their fields are columns (``engine.output.typed_columns``).

    Args:
        directory: the store, or its folder; an empty run gives no rows.
        out: a path, written atomically; CSV if it ends in ``.csv``, else Parquet.
        kind: kind of the results, a name in ``engine.output.result_kinds``.
        time_unit: unit of all times.
        times: as for ``export_jsonl``.
        events: in CSV, the largest number of events in a match, so that the columns do not depend
            on the matches.
        dates: times are timestamps in Parquet and ISO 8601 in CSV; None: numbers.
        values: computed values that are times, by name; they are typed, too.

    Raises:
        UserError: the directory is missing, damaged, or has results of another kind; a field has
            two types; or the file cannot be written.
    """
    is_csv = Path(out).suffix == CSV
    kind_of_time = pa.string() if is_csv or dates is None else pa.timestamp("ns", dates.zone)
    shape = None if dates is None else DateColumns(dates, kind_of_time)
    typed: dict[str, pa.DataType] = {}
    if dates is not None:
        typed = {n: kind_of_time for n, of in values.items() if of is TimeValue.INSTANT}
        if not is_csv:
            typed |= {n: pa.duration("ns") for n, of in values.items() if of is TimeValue.SPAN}
        times = {query: {*labels} - typed.keys() for query, labels in times.items()}
    files, columns = _typed(store_of(directory), kind, unit_ns(time_unit), times, shape, typed)
    schema = columns.schema
    tables = _typed_tables(files, columns)
    if is_csv:
        places = max(events, columns.longest)
        schema = flat(schema.empty_table(), places).schema
        return write_table(Path(out), schema, (flat(table, places) for table in tables))
    return write_table(Path(out), schema, tables)


def _typed(
    store: PartStore, kind: str, unit: int, times: Mapping[str, Collection[str]],
    dates: DateColumns | None, values: Mapping[str, pa.DataType],
) -> tuple[Batches, TypedColumns]:  # fmt: skip
    """Return the files of ``kind``, and their typed columns."""
    kinds = {name: store.open(name) for name in KINDS}
    others = [name for name, files in kinds.items() if files.sites and name != kind]
    if others:
        what = f"holds {others[0]}, which a table of {kind} cannot say"
        raise UserError(f"{store.directory}: {what}; write JSONL")
    columns = TypedColumns(KINDS[kind].schema, kind, unit, times, dates, values)
    files = kinds[kind]
    for sites in site_groups([files]):
        for _, table in files.tables(sites, columns.needed):
            columns.learn(table)
    return files, columns


def _typed_tables(files: Batches, columns: TypedColumns) -> Iterator[pa.Table]:
    """Yield tables by site, then in order of emission; small sites are combined."""
    for sites in site_groups([files]):
        batches = [None] if len(sites) > 1 else files.batches
        for batch_id in batches:
            found = list(files.tables(sites, batch_id=batch_id))
            if found:
                yield _sorted(columns, found, sites)


def _sorted(
    columns: TypedColumns, found: Sequence[tuple[int, pa.Table]], sites: Sequence[str]
) -> pa.Table:
    """Return the rows of tables with their batches, typed, in order of emission."""
    order = _order([_keys(table, batch, sites) for batch, table in found])
    table = pa.concat_tables(columns.typed(table) for _, table in found).unify_dictionaries()
    return table if order is None else table.take(order)


@contextmanager
def text_out(out: str | Path | TextIO) -> Iterator[TextIO]:
    """Yield ``out`` if it is a stream, else a text file that is written atomically.

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


def _results(
    store: PartStore,
    unit: int,
    queries: Sequence[str],
    times: Mapping[str, Collection[str]],
    names: Iterable[str] = (),
    dates: Dates | None = None,
) -> Iterator[tuple[int, Iterable[str]]]:
    """Yield (number of lines, texts) of each site, query and batch, in order of emission; for the
    kinds ``names``, or all.
    """
    opened = {name: store.open(name) for name in names or KINDS}
    kinds = {name: files for name, files in opened.items() if files.count}
    for sites in site_groups(list(kinds.values())):
        if len(sites) == 1:
            yield from _of_site(kinds, sites, unit, queries, times, dates)
        else:
            yield _of_sites(kinds, sites, unit, queries, times, dates)


def _of_site(
    kinds: dict[str, Batches],
    site: list[str],
    unit: int,
    queries: Sequence[str],
    times: Mapping[str, Collection[str]],
    dates: Dates | None,
) -> Iterator[tuple[int, Iterable[str]]]:
    """Yield lines of one site, which may have many results, one batch at a time."""
    present: set[str] = set()
    batches: set[int] = set()
    for files in kinds.values():
        for batch_id, table in files.tables(site, ["query"]):
            batches.add(batch_id)
            present.update(table.column("query").unique().to_pylist())
    for query in _ranked(present, queries):
        for batch_id in sorted(batches):
            found = [
                # With one query no filter is needed.
                (kind, table if len(present) == 1 else table.filter(pc.field("query") == query))
                for kind, files in kinds.items()
                for _, table in files.tables(site, batch_id=batch_id)
            ]
            lines = [list(KINDS[k].lines(t, unit, times.get(query, ()), dates)) for k, t in found]
            yield _in_order(lines, [_keys(table, batch_id, site) for _, table in found])


def _of_sites(
    kinds: dict[str, Batches],
    sites: list[str],
    unit: int,
    queries: Sequence[str],
    times: Mapping[str, Collection[str]],
    dates: Dates | None,
) -> tuple[int, Iterable[str]]:
    """Return the lines of several sites with few results each, all at once."""
    found = {kind: list(files.tables(sites)) for kind, files in kinds.items()}
    names = [table.column("query").unique().to_pylist() for of in found.values() for _, table in of]
    ranked = _ranked(set[str]().union(*names), queries)
    lines: list[list[pa.Array]] = []
    keys = []
    for kind, of_kind in found.items():
        for batch_id, whole in of_kind:
            for name in whole.column("query").unique().to_pylist():
                table = whole.filter(pc.field("query") == name)
                lines.append(list(KINDS[kind].lines(table, unit, times.get(name, ()), dates)))
                keys.append(_keys(table, batch_id, sites, ranked))
    return _in_order(lines, keys)


def _ranked(present: set[str], queries: Sequence[str]) -> list[str]:
    """Return the queries with results, in their order."""
    named = [name for name in queries if name in present]
    return [*named, *sorted(present.difference(named))]


def _keys(
    table: pa.Table, batch_id: int, sites: Sequence[str], queries: Sequence[str] = ()
) -> np.ndarray:
    """Return the sort keys of one batch's rows: int64 (4, rows)."""
    zero = np.zeros(table.num_rows, np.int64)
    return np.stack(
        [
            _place(table.column("site"), sites) if len(sites) > 1 else zero,
            _place(table.column("query"), queries) if len(queries) > 1 else zero,
            zero + batch_id,
            table.column(POSITION).to_numpy(),
        ]
    )


def _place(texts: pa.ChunkedArray, among: Sequence[str]) -> np.ndarray:
    return np.asarray(pc.index_in(texts.cast(pa.string()), pa.array(among)).to_numpy())


def _order(keys: Sequence[np.ndarray]) -> np.ndarray | None:
    """Return the order of concatenated rows by ``keys``; None: they are in order."""
    together = np.concatenate([*keys, np.empty((4, 0), np.int64)], axis=1)
    order = np.lexsort(together[::-1])
    return None if (order[1:] > order[:-1]).all() else order


def _in_order(
    lines: Sequence[Sequence[pa.Array]], keys: Sequence[np.ndarray]
) -> tuple[int, Iterable[str]]:
    """Return (number, texts) of the lines of tables with these ``keys``, in order."""
    pieces = [piece for of_table in lines for piece in of_table]
    number, order = sum(map(len, pieces)), _order(keys)
    if order is None:
        return number, map(in_one_text, pieces)
    # Arrow's string type is limited to 2 GB.
    whole = pa.chunked_array(pieces, pa.string()).cast(pa.large_string())
    return number, (
        in_one_text(in_one(whole.take(order[start : start + _AT_ONCE])))
        for start in range(0, number, _AT_ONCE)
    )
