"""Output of the ordered stream (``slackwater order``) and the side output, in columns.

Parquet per micro-batch as for results; exported as trace records with the added fields ``ref``,
``release`` and ``late``. Dropped late events are in the counters only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, TextIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import replace

from slackwater.edge_agent import records as r
from slackwater.engine.core.columns import ID_TYPE, VALID_PREFIX, Columns
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import ATTR_PREFIX
from slackwater.engine.core.operator import Restorable
from slackwater.engine.core.released import IN_ORDER, LATE_DROPPED, RESIDUAL, Released, Strings
from slackwater.engine.core.timeline import ends_of
from slackwater.engine.core.units import unit_ns
from slackwater.engine.kernels.records import INT_MIN
from slackwater.engine.log.row_export import write_table
from slackwater.engine.order.base import Ordered
from slackwater.engine.order.sequence.state import DUPLICATE, QUARANTINED_FUTURE, QUARANTINED_JUMP
from slackwater.engine.output.export import text_out
from slackwater.engine.output.json_lines import (
    DEFAULTS,
    RECORDS_AT_ONCE,
    in_one,
    in_unit,
    null_where,
    record_lines,
)
from slackwater.engine.output.part_store import (
    SITE,
    BatchFiles,
    PartStore,
    replace_batch,
    runs,
    site_groups,
    store_of,
)
from slackwater.engine.output.spark_parts import BY_SPARK, END, SparkParts
from slackwater.engine.output.table_files import event_tables

ORDERED: Final = "ordered"
REF: Final = "ref"
RELEASE: Final = "release"
UNCERTAINTY: Final = "unc"
STATUS: Final = "status"
LATE_FIELD: Final = "late"
_CODED: Final = (r.STREAM, r.SOURCE, r.TYPE)
_NUMBERS: Final = (r.SEQ, r.INCARNATION, r.TS, r.TE, r.ARRIVAL, REF, UNCERTAINTY, RELEASE)
EVENT_TIMES: Final = (r.TS, r.TE, r.ARRIVAL, REF, RELEASE)
EVENT_FIELDS: Final = (
    r.STREAM, r.SOURCE, r.SEQ, r.INCARNATION, r.TYPE, r.TS, r.TE, r.ARRIVAL, REF, RELEASE,
)  # fmt: skip
NO_EVENTS: Final = pa.schema(
    {
        **dict.fromkeys((SITE, *_CODED), pa.string()),
        **{name: pa.int64() for name in _NUMBERS if name != UNCERTAINTY},
    }
)
"""Columns of an export, without attributes and without its own additional columns."""
_DEFAULTS: Final = DEFAULTS | {r.INCARNATION: "0"}


class EventFiles(Struct, frozen=True):
    """A form of event files that a sink writes and an export reads.

    ``folders``: read in order, per site. ``fields``: of a record, in order; ``times``: those in the
    export's unit. ``export_columns``: converts a file's table for the export. ``empty``: schema of
    an export without events.
    """

    folders: tuple[str, ...]
    fields: tuple[str, ...]
    times: tuple[str, ...]
    export_columns: Callable[[pa.Table], pa.Table]
    empty: pa.Schema


def released_table(site: str, released: Released) -> pa.Table:
    """Return the events of ``released`` as columns in release order; times in ns.

    Columns: ``site stream source seq incarnation type ts te arrival ref unc release status``;
    ``clock`` if some event was stamped by another clock than its source's, else null; and per
    attribute ``attrs.NAME``, null where an event lacks it. Dropped late events are included
    (``status``); exports omit them.
    """
    columns = released.columns
    texts = pa.array(released.strings.texts, pa.string())
    rows = released.n
    made: dict[str, pa.Array] = {SITE: pa.repeat(site, rows)}
    for name in _CODED:
        made[name] = _text(columns[name], texts, None)
    clock, source = columns[r.CLOCK], columns[r.SOURCE]
    if (clock != source).any():
        made[r.CLOCK] = _text(clock, texts, clock == source)
    for name in _NUMBERS:
        values = columns[name].astype(np.int64, copy=False)
        made[name] = pa.array(values, mask=values < 0 if name == r.SEQ else None)
    made[STATUS] = pa.array(columns[STATUS].astype(np.int8, copy=False))
    for name in sorted(released.attr_types):
        mask = columns.get(VALID_PREFIX + name)
        absent = None if mask is None else ~mask
        column = r.ID if name == ID_TYPE else ATTR_PREFIX + name
        values = columns[column]
        made[column] = (
            _text(values, texts, absent)
            if released.attr_types[name] == "str"
            else pa.array(values, mask=absent)
        )
    return pa.table(made)


def _text(codes: np.ndarray, texts: pa.Array, absent: np.ndarray | None) -> pa.Array:
    """Return codes as text, null where negative or ``absent``."""
    null = codes < 0 if absent is None else (codes < 0) | absent
    return texts.take(pa.array(codes, mask=null))


def write_event_files(directory: Path) -> None:
    """Write the ordered stream of a run on Spark as event files, for reports.

    Existing batches are kept, except that of the end of the input.
    """
    if not (directory / BY_SPARK).is_dir():
        return
    spark, there = SparkParts(directory).open(ORDERED), BatchFiles(directory / ORDERED).batches
    for batch in sorted({*spark.batches, END}.difference(each for each in there if each != END)):
        tables = [
            table.slice(start, stop - start)
            for _, table in spark.tables(sorted(spark.sites), batch_id=batch)
            for start, stop in pairwise(runs(table.column(SITE))[1].tolist())
        ]
        replace_batch(directory / ORDERED, batch, event_tables(tables))


def _ordered_columns(table: pa.Table) -> pa.Table:
    """Remove dropped events; add ``late``: the event arrived after its place was released."""
    status = table.column(STATUS)
    late = pc.not_equal(status, IN_ORDER)
    kept = table.drop_columns([STATUS, UNCERTAINTY]).append_column(LATE_FIELD, late)
    stays = pc.not_equal(status, LATE_DROPPED)
    return kept if pc.all(stays, min_count=0).as_py() else kept.filter(stays)


ORDERED_STREAM: Final = EventFiles(
    (ORDERED,), (*EVENT_FIELDS, LATE_FIELD), EVENT_TIMES, _ordered_columns,
    NO_EVENTS.append(pa.field(LATE_FIELD, pa.bool_())),
)  # fmt: skip


def export_ordered_jsonl(
    directory: str | Path | PartStore,
    out: str | Path | TextIO,
    time_unit: str = "ns",
    files: EventFiles = ORDERED_STREAM,
) -> int:
    """Write the events in a store as JSON lines, by site, in release order.

    Args:
        directory: the store, or its folder.
        out: a path (written atomically) or an open text stream.
        time_unit: unit of all times.
        files: the events to export.

    Returns:
        the number of events.

    Raises:
        UserError: the directory does not exist, a file is damaged, or an attribute is infinite.
    """
    unit = unit_ns(time_unit)
    count = 0
    with text_out(out) as stream:
        for site, table in _tables(store_of(directory), files):
            stream.writelines(event_lines(site, table, unit, files))
            count += table.num_rows
    return count


def event_lines(site: str, events: pa.Table, unit: int, files: EventFiles) -> Iterator[str]:
    """Yield texts with one line for each event of a site.

    Args:
        site: name of the site.
        events: rows of ``files.export_columns``.
        unit: unit of all times [ns].
        files: the form of the events.
    """
    for batch in events.combine_chunks().to_batches(max_chunksize=RECORDS_AT_ONCE):
        columns = {r.SITE: pa.repeat(site, batch.num_rows)}
        for name in (*files.fields, r.CLOCK, r.ID):
            if name in batch.schema.names:
                column = batch[name]
                columns[name] = in_unit(column, unit) if name in files.times else column
        columns[r.TE] = null_where(pc.equal(batch[r.TE], batch[r.TS]), columns[r.TE])
        attrs = [name for name in batch.schema.names if name.startswith(ATTR_PREFIX)]
        yield record_lines(site, columns | {name: batch[name] for name in attrs}, _DEFAULTS)


def export_ordered_table(
    directory: str | Path | PartStore,
    out: str | Path,
    time_unit: str = "ns",
    files: EventFiles = ORDERED_STREAM,
) -> int:
    """Write the events in a store as one table; return the number of events.

    Without events the table has the fixed columns and no rows.

    Args:
        directory: the store, or its folder.
        out: a path, written atomically; CSV if it ends in ``.csv``, else Parquet.
        time_unit: unit of all times.
        files: the events to export.

    Raises:
        UserError: a file is damaged, or an attribute has two types at different sites.
    """
    unit = unit_ns(time_unit)
    schemas: list[pa.Schema] = []
    for _, table in _tables(store_of(directory), files):
        found = _in_units(table, unit, files).schema
        if found not in schemas:
            schemas.append(found)
    if not schemas:
        schemas.append(files.empty)
    try:
        schema = pa.unify_schemas(schemas, promote_options="permissive")
    except pa.ArrowException as error:
        raise UserError(f"{out}: one table cannot hold all sites ({error}); write JSONL") from error
    tables = (
        pa.concat_tables(
            [schema.empty_table(), _in_units(table, unit, files)], promote_options="permissive"
        )
        for _, table in _tables(store_of(directory), files)
    )
    return write_table(Path(out), schema, tables, ascends=True)


def _in_units(table: pa.Table, unit: int, files: EventFiles) -> pa.Table:
    for name in files.times if unit > 1 else ():
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, in_unit(in_one(table[name]), unit))
    return table


def _tables(store: PartStore, files: EventFiles) -> Iterator[tuple[str, pa.Table]]:
    """Yield tables of one site each, folder by folder, in the order of writing."""
    batches = [store.open(folder) for folder in files.folders]
    for sites in site_groups(batches):
        tables = (
            files.export_columns(table) for each in batches for _, table in each.tables(sites)
        )
        if len(sites) == 1:
            yield from ((sites[0], table) for table in tables)
            continue
        of_site: dict[str, list[pa.Table]] = {site: [] for site in sites}
        for table in tables:
            names, ends = runs(table.column(SITE))
            for site, (start, end) in zip(names, pairwise(ends.tolist()), strict=True):
                of_site[site].append(table.slice(start, end - start))
        for site, parts in of_site.items():
            yield from ((site, part) for part in parts)


# The side output: late and quarantined events.
#
# The ordered stream marks events ``late``, and drops or keeps them by option. The side output has
# all of them, with reason and lateness.
#
# Columns are those of ``Released``, and ``reason`` (index in ``REASONS``), ``dropped`` (bool: not
# in the ordered stream) and ``lateness``: how far ref was below the largest ref released in order
# [ns], at least 0; -1 for quarantined events and duplicates, which are not compared.


REASONS: Final = ("late", "residual", "future", "jump", "duplicate")
_LATE, _RESIDUAL, _FUTURE, _JUMP, _DUPLICATE = range(len(REASONS))
_SET_ASIDE: Final = {QUARANTINED_FUTURE: _FUTURE, QUARANTINED_JUMP: _JUMP, DUPLICATE: _DUPLICATE}
REASON: Final = "reason"
LATENESS: Final = "lateness"
DROPPED: Final = "dropped"


class SideOutput(Restorable, Struct):
    """Selects late and residual events from an order's output, with their lateness.

    ``frontier``: the largest ref released in order so far.
    """

    state_fields = ("frontier",)

    frontier: int = INT_MIN

    def late_of(self, released: Released) -> list[Released]:
        """Return the late and residual events in ``released``, as one batch or none."""
        if not released.n:
            return []
        columns = released.columns
        ref, status = ends_of(released), columns["status"]
        moves = np.where(status == IN_ORDER, ref, INT_MIN)
        frontier = np.maximum.accumulate(np.concatenate(([self.frontier], moves)))
        self.frontier = int(frontier[-1])
        rows = np.flatnonzero(status != IN_ORDER)
        if not len(rows):
            return []
        chosen = {name: column[rows] for name, column in columns.items()}
        by_merge = chosen.pop("by_merge", np.zeros(len(rows), np.bool_))
        residual = (chosen["status"] == RESIDUAL) | by_merge
        chosen[REASON] = np.where(residual, _RESIDUAL, _LATE).astype(np.int8)
        chosen[DROPPED] = chosen["status"] == LATE_DROPPED
        # The first event may be late if its number was announced; its lateness is then 0.
        chosen[LATENESS] = np.maximum(frontier[rows], ref[rows]) - ref[rows]
        return [replace(released, n=len(rows), columns=chosen)]


def quarantined_columns(ordered: Ordered) -> Columns:
    """Return the quarantined events of a call with the columns of the side output, or {}.

    Markers are not events and are omitted.
    """
    codes = ordered.quarantined.get(REASON, np.empty(0, np.int64))
    rows = np.flatnonzero(np.isin(codes, list(_SET_ASIDE)))
    n = len(rows)
    if not n:
        return {}
    columns = {name: column[rows] for name, column in ordered.quarantined.items()}
    columns[REASON] = np.array([_SET_ASIDE[code] for code in columns[REASON].tolist()], np.int8)
    columns[DROPPED] = np.ones(n, np.bool_)
    columns[LATENESS] = np.full(n, -1)
    columns["release"] = columns[r.ARRIVAL]
    columns["status"] = np.full(n, LATE_DROPPED, np.int8)
    return columns


def quarantined_sample(columns: Columns, strings: Strings, most: int) -> list[dict[str, Any]]:
    """Return the first ``most`` quarantined events without duplicates, for reports."""
    reasons = columns.get(REASON, np.empty(0, np.int64))
    return [
        {
            "reason": "future" if int(reasons[i]) == QUARANTINED_FUTURE else "sequence jump",
            "source": strings.text(int(columns[r.SOURCE][i])),
            **{name: int(columns[name][i]) for name in (r.SEQ, "ref")},
        }
        for i in np.flatnonzero(reasons != DUPLICATE)[:most]
    ]


# The side output: late and quarantined events with reasons.
#
# Per site: late events in release order, then quarantined ones in the order of their refusal. Both
# orders do not depend on how the log is cut.


LATE: Final = "late"
QUARANTINED: Final = "quarantined"


def side_output_table(site: str, released: Released) -> pa.Table:
    """Return ``released_table`` with ``reason`` (text), ``lateness`` (ns or null), ``dropped``."""
    table = released_table(site, released)
    columns = released.columns
    reasons = pa.array(REASONS).take(pa.array(columns[REASON]))
    lateness = columns[LATENESS].astype(np.int64, copy=False)
    table = table.append_column(REASON, reasons)
    table = table.append_column(LATENESS, pa.array(lateness, mask=lateness < 0))
    return table.append_column(DROPPED, pa.array(columns[DROPPED]))


def _side_columns(table: pa.Table) -> pa.Table:
    return table.drop_columns([STATUS, UNCERTAINTY])


SIDE_OUTPUT: Final = EventFiles(
    (LATE, QUARANTINED),
    (*EVENT_FIELDS, REASON, LATENESS, DROPPED),
    (*EVENT_TIMES, LATENESS),
    _side_columns,
    pa.schema([*NO_EVENTS, (REASON, pa.string()), (LATENESS, pa.int64()), (DROPPED, pa.bool_())]),
)
"""Records of events as in a trace, with ``ref release reason lateness dropped``."""
