"""Turn checked columns of row-wise input into frames: defaults, numbers, one frame per site.

Sets defaults that depend on earlier rows (DESIGN "Trace"): ``seq`` is counted per source and
stream, ``incarnation`` is the last one that the source announced, ``arrival`` the line number.
State is kept between chunks, so the records do not depend on chunk borders; only the frames do.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field

from slackwater.edge_agent import records as r
from slackwater.edge_agent.records import TIME_MAX_NS, Kind
from slackwater.engine.core.frame import ATTR_PREFIX, FIXED_TYPES, STRING, Frame
from slackwater.engine.core.units import exact_units
from slackwater.engine.log.describe import Groups, carry_forward, group_rows, ints, string_codes
from slackwater.engine.log.input.numbering import Numbering, digests
from slackwater.engine.log.record.record_rules import Fault, add_fault, row_faults

_ALWAYS = (r.SOURCE, r.SEQ, r.TS, r.ARRIVAL)
_SourceKey = tuple[str, str | None]


class RowIntake(Struct):
    """Turns columns of one input into frames.

    ``unit_ns``: the unit of its times [ns], for messages and for line numbers as arrivals.
    ``arrival_given``: whether any row had an arrival.
    """

    unit_ns: int
    numbering: Numbering = field(default_factory=Numbering)
    arrival_given: bool = False
    _incarnation: dict[_SourceKey, int] = field(default_factory=dict)
    _arrived: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By site: (arrival, line) of the row with the latest arrival."""

    def check(
        self, columns: dict[str, pa.Array], lines: np.ndarray, *, ordered: bool = True
    ) -> list[Fault]:
        """Return faults of single rows and of their order; the caller removes these rows before
        ``frames``.

        Args:
            columns: record fields by name, null = absent; integers int64, times in ns, ``kind``
                int8, others text or dictionary.
            lines: line numbers, ascending.
            ordered: rows must be in order of arrival; otherwise they are sorted later.
        """
        found = row_faults(columns, _kinds(columns, len(lines)), self.unit_ns)
        if lines[-1] > TIME_MAX_NS // self.unit_ns:
            valid = np.zeros(len(lines), bool)
            if r.ARRIVAL in columns:
                _, valid = ints(columns[r.ARRIVAL])
            add_fault(
                found, ~valid & (lines > TIME_MAX_NS // self.unit_ns),
                "its line number, taken as arrival, is beyond 146 years in nanoseconds; "
                'give "arrival" or a finer --time-unit',
            )  # fmt: skip
        self._check_bits(columns, found, len(lines))
        bad = np.zeros(len(lines), bool)
        bad[list(found)] = True
        faults = [Fault(int(lines[row]), reason) for row, reason in found.items()]
        return faults + (self._backward(columns, lines, np.flatnonzero(~bad)) if ordered else [])

    def _check_bits(self, columns: dict[str, pa.Array], found: dict[int, str], rows: int) -> None:
        """Add faults for numbers that do not fit into the declared bits of their counter."""
        if r.SEQ not in columns or not self.numbering.declares:
            return
        seq, _ = ints(columns[r.SEQ])
        codes, streams = _texts(columns, r.STREAM, r.DEFAULT_STREAM, rows)
        of, sources = np.zeros(rows, np.int64), [""]
        if self.numbering.by_source:
            of, sources = _texts(columns, r.SOURCE, r.DEFAULT_SOURCE, rows)
        declared = self.numbering.declared
        bits = np.array([[declared(source, stream) for stream in streams] for source in sources])
        for each in (bits_ for bits_ in set(bits.ravel().tolist()) if bits_):
            add_fault(
                found, (bits[of, codes] == each) & (seq >= 1 << each),
                f'"seq" does not fit in {each} bits, as seq_bits says; leave seq_bits out, or '
                "declare more",
            )  # fmt: skip

    def _backward(
        self, columns: dict[str, pa.Array], lines: np.ndarray, rows: np.ndarray
    ) -> list[Fault]:
        """Return faults for rows that arrive before an earlier row of their site."""
        if not len(rows):
            return []
        arrival = self.arrivals(columns, lines)
        codes, sites = _texts(columns, r.SITE, r.DEFAULT_SITE, len(lines))
        of_sites = [rows]
        if len(sites) > 1:
            groups = group_rows([codes[rows]])
            of_sites = np.split(rows[groups.order], groups.starts[1:])
        faults = []
        for at in of_sites:
            site = sites[codes[at[0]]]
            known, line = self._arrived.get(site, (int(arrival[at[0]]), int(lines[at[0]])))
            reached = np.maximum.accumulate(np.concatenate([[known], arrival[at]]))
            for place in np.flatnonzero(arrival[at] < reached[:-1]):
                # The first row that reached the largest arrival before this one.
                first = int(np.searchsorted(reached, reached[place]))
                before = line if first == 0 else int(lines[at[first - 1]])
                note = _arrival_note(columns, int(at[place]))
                instant, last = (
                    exact_units(int(ns), self.unit_ns)
                    for ns in (arrival[at[place]], reached[place])
                )
                faults.append(Fault(int(lines[at[place]]), (
                    f'"arrival" {instant}{note} lies before {last} of line {before}; records are '
                    "in order of arrival: --sort arrival puts them so"
                )))  # fmt: skip
            first = int(np.searchsorted(reached, reached[-1]))
            self._arrived[site] = (
                int(reached[-1]), line if first == 0 else int(lines[at[first - 1]])
            )  # fmt: skip
        return faults

    def arrivals(self, columns: dict[str, pa.Array], lines: np.ndarray) -> np.ndarray:
        """Return the arrival of each row [ns], by default its line number in the unit."""
        # Larger line numbers are faults, so any value may replace them.
        numbers: np.ndarray = np.minimum(lines, TIME_MAX_NS // self.unit_ns) * self.unit_ns
        if r.ARRIVAL not in columns:
            return numbers
        values, valid = ints(columns[r.ARRIVAL])
        self.arrival_given = self.arrival_given or bool(valid.any())
        return np.where(valid, values, numbers)

    def frames(
        self, columns: dict[str, pa.Array], attrs: dict[str, pa.Array], lines: np.ndarray
    ) -> list[Frame]:
        """Return frames of rows without faults: one per site, in order of appearance."""
        rows = len(lines)
        if rows == 0:
            return []
        kind = _kinds(columns, rows)
        full = dict(columns)
        full[r.ARRIVAL] = pa.array(self.arrivals(columns, lines))
        full[r.KIND] = pa.array(kind)
        full[r.SOURCE] = _default_source(columns.get(r.SOURCE), kind)
        own_stream = columns.get(r.STREAM, pa.nulls(rows, pa.string())).cast(pa.string())
        full[r.STREAM] = pc.fill_null(own_stream, r.DEFAULT_STREAM)
        full.setdefault(r.TS, pa.nulls(rows, pa.int64()))
        if r.TE in full:
            full[r.TE] = pc.coalesce(full[r.TE], full[r.TS])
        site_codes, sites = _texts(columns, r.SITE, r.DEFAULT_SITE, rows)
        self._number(full, columns, attrs, kind, (site_codes, sites))
        encoded = {
            name: full[name].cast(STRING) if type_ == STRING else full[name]
            for name, type_ in FIXED_TYPES.items()
            if name in full
        }
        if r.ID in full:
            encoded[r.ID] = full[r.ID]
        encoded |= {ATTR_PREFIX + name: column for name, column in attrs.items()}
        batch = pa.RecordBatch.from_arrays(list(encoded.values()), names=list(encoded))
        return _by_site(batch, site_codes, sites)

    def _number(
        self, full: dict[str, pa.Array], columns: dict[str, pa.Array], attrs: dict[str, pa.Array],
        kind: np.ndarray, site: tuple[np.ndarray, list[str]],
    ) -> None:  # fmt: skip
        """Set ``incarnation`` and ``seq`` of the rows (``engine.log.input.numbering``)."""
        rows, (site_codes, sites) = len(kind), site
        source_codes, sources = string_codes(full[r.SOURCE])
        incarnation = np.zeros(rows, np.int64)
        if r.INCARNATION in full or self._incarnation:
            of_site, of_source = (site_codes, sites), (source_codes, sources)
            incarnation = self._incarnations(full, kind, of_site, of_source)
        numbers, valid = ints(full.get(r.SEQ, pa.nulls(rows, pa.int64())))
        seq = np.where(valid, numbers, -1)
        events_at = np.flatnonzero(kind == Kind.EVENT)
        if len(events_at):
            stream_codes, streams = string_codes(full[r.STREAM])
            keys = [site_codes, source_codes, stream_codes, incarnation]
            groups = group_rows([key[events_at] for key in keys])
            named = [
                (sites[site_codes[row]], sources[source_codes[row]],
                 streams[stream_codes[row]], int(incarnation[row]))
                for row in events_at[groups.first_row]
            ]  # fmt: skip
            stated = np.zeros(len(named), np.bool_)
            if r.INCARNATION in columns or self._incarnation:
                _, said = ints(columns.get(r.INCARNATION, pa.nulls(rows, pa.int64())))
                stated = np.bincount(groups.code, said[events_at][groups.order]) > 0
                stated |= [(name[0], name[1]) in self._incarnation for name in named]
            fields, values = full, attrs
            if len(events_at) < rows:
                events = pa.array(events_at)
                fields, values = (
                    {name: column.take(events) for name, column in each.items()}
                    for each in (full, attrs)
                )
            content = partial(digests, fields, values, len(events_at))
            ts, _ = ints(full[r.TS])
            seq[events_at], restarts = self.numbering.count(
                named, stated, groups, seq[events_at], ts[events_at], content
            )
            incarnation[events_at] += restarts
        full[r.INCARNATION] = pa.array(incarnation)
        full[r.SEQ] = pa.array(seq, mask=seq < 0)

    def _incarnations(
        self,
        full: dict[str, pa.Array],
        kind: np.ndarray,
        site: tuple[np.ndarray, list[str]],
        source: tuple[np.ndarray, list[str]],
    ) -> np.ndarray:
        """Return each row's incarnation: its own, else the last announced by sync, else 0."""
        rows = len(kind)
        nothing = pa.nulls(rows, pa.int64())
        numbers, valid = ints(full.get(r.INCARNATION, nothing))
        groups = group_rows([site[0], source[0]])
        named = [  # a record of no source (None) has no incarnation of its own
            (site[1][site[0][row]], source[1][source[0][row]] if source[0][row] >= 0 else None)
            for row in groups.first_row
        ]
        initial = np.array([self._incarnation.get(key, 0) for key in named], np.int64)
        announced = (valid & (kind == Kind.SYNC))[groups.order]
        latest = carry_forward(groups, numbers[groups.order], announced, initial)
        ends = latest[_ends(groups)]
        self._incarnation |= {
            key: int(value)
            for key, value in zip(named, ends, strict=True)
            if value or key in self._incarnation
        }
        filled = np.empty(rows, np.int64)
        filled[groups.order] = latest
        return np.where(valid, numbers, filled)


def _ends(groups: Groups) -> np.ndarray:
    """Return the position of each group's last row, in the groups' order."""
    return np.append(groups.starts[1:], len(groups.order)) - 1


def _kinds(columns: dict[str, pa.Array], rows: int) -> np.ndarray:
    if r.KIND not in columns:
        return np.zeros(rows, np.int8)
    filled = pc.fill_null(columns[r.KIND], int(Kind.EVENT))
    return np.asarray(filled.to_numpy(zero_copy_only=False))


def _arrival_note(columns: dict[str, pa.Array], row: int) -> str:
    if r.ARRIVAL in columns and columns[r.ARRIVAL][row].is_valid:
        return ""
    return " (its line number, as the line gives none)"


def _texts(
    columns: dict[str, pa.Array], name: str, default: str, rows: int
) -> tuple[np.ndarray, list[str]]:
    """Return codes and texts of a column, with ``default`` for null."""
    if name not in columns:
        return np.zeros(rows, np.int64), [default]
    return string_codes(pc.fill_null(columns[name].cast(pa.string()), default))


def _default_source(column: pa.Array | None, kind: np.ndarray) -> pa.Array:
    """Return sources with the default, but null for punctuations (all sources) and ticks (none)."""
    sources = pa.nulls(len(kind), pa.string()) if column is None else column
    default = pa.array(
        np.full(len(kind), r.DEFAULT_SOURCE, object),
        pa.string(), mask=(kind == Kind.POG) | (kind == Kind.TICK),
    )  # fmt: skip
    return pc.coalesce(sources.cast(pa.string()), default)


def _by_site(batch: pa.RecordBatch, codes: np.ndarray, sites: list[str]) -> list[Frame]:
    if len(sites) == 1:
        return [Frame(sites[0], plain_columns(batch))]
    groups = group_rows([codes])
    sorted_rows = plain_columns(batch).take(pa.array(groups.order))
    rows = np.diff(groups.starts, append=len(codes))
    return [
        Frame(
            sites[codes[groups.first_row[number]]],
            plain_columns(own_texts(sorted_rows.slice(groups.starts[number], rows[number]))),
        )
        for number in np.argsort(groups.first_row).tolist()
    ]


def own_texts(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return ``batch`` with dictionaries of at most as many texts as rows; a slice of a larger
    batch has the whole dictionary otherwise.
    """
    columns = [
        column.cast(pa.string()).dictionary_encode()
        if pa.types.is_dictionary(column.type) and len(column.dictionary) > len(column)
        else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def plain_columns(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return ``batch`` without columns that have the default in every row (``engine.core.frame``).

    Attributes without values stay as untyped columns, so that a query may name them.
    """
    kept: dict[str, pa.Array] = {}
    for name in batch.schema.names:
        column = batch.column(name)
        if name in _ALWAYS:
            says = True
        elif name == r.KIND:
            says = pc.any(pc.not_equal(column, int(Kind.EVENT))).as_py()
        elif name == r.STREAM:
            says = pc.any(pc.not_equal(column.cast(pa.string()), r.DEFAULT_STREAM)).as_py()
        elif name == r.INCARNATION:
            says = pc.any(pc.not_equal(column, 0)).as_py()
        elif name == r.TE:
            says = pc.any(pc.not_equal(column, batch.column(r.TS))).as_py()
        else:
            says = column.null_count < len(column)
        if says:
            kept[name] = column
        elif name.startswith(ATTR_PREFIX):
            kept[name] = pa.nulls(len(column))
    return pa.RecordBatch.from_arrays(list(kept.values()), names=list(kept))
