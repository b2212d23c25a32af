"""Kinds of results: their fields, tables and JSON lines. A new kind needs one line here.

Sinks, exports and hosts know kinds only by this registry; columns of operators name their kind.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct

from slackwater.engine.core.errors import ContractViolation
from slackwater.engine.core.operator import Result
from slackwater.engine.kernels.jit import kernel
from slackwater.engine.kernels.records import INT_MIN
from slackwater.engine.kernels.tables import MULTIPLIER, mixed
from slackwater.engine.output.json_lines import Dates, in_one, in_units, result_lines
from slackwater.engine.output.part_store import (
    HELD_BYTES,
    SITE,
    Batches,
    PartStore,
    runs,
    site_groups,
)
from slackwater.engine.output.schema import (
    ALERT_SCHEMA,
    ALERTS,
    EMISSION,
    ITEM_SCHEMA,
    ITEMS,
    MATCH_SCHEMA,
    MATCHES,
    POSITION,
    SHARED_FIELDS,
    WINDOW_EXTRAS,
    WINDOW_SCHEMA,
    WINDOWS,
    rows_of,
    same_for_all,
)

_AT_ONCE: Final = 1 << 13
"""Rows per piece; bounds the texts in memory."""


class ResultKind(Struct, frozen=True):
    """A kind of results.

    Attributes:
        name: of its folder, and of its columns (``engine.core.operator.ResultColumns.kind``).
        mark: a field of its results that no other kind has.
        schema: of its tables; some columns may have other types, by query.
        times: fields that are times [ns], exported in the requested unit.
        optional: fields that lines omit if they are null.
    """

    name: str
    mark: str
    schema: pa.Schema
    times: frozenset[str] = frozenset({"at", "ts"})
    optional: frozenset[str] = frozenset()

    def rows(self, positions: Sequence[int], results: Sequence[Result]) -> pa.Table:
        """Return results as a table of ``schema``; ``positions``: their places in their batch."""
        return rows_of(self.schema, positions, results)

    def lines(
        self, table: pa.Table, unit: int, times: Collection[str] = (), dates: Dates | None = None
    ) -> Iterator[pa.Array]:
        """Yield the JSON lines of a ``table``, with line ends, in pieces.

        ``times``: labels of values that are times. ``dates``: see ``JsonTexts``.
        """
        if times:
            queries = table.column("query").unique().to_pylist()
            table = in_units(table, unit, dict.fromkeys(queries, times))
        for start in range(0, table.num_rows, _AT_ONCE):
            some = table.slice(start, _AT_ONCE)
            yield result_lines(some, self.schema, self.times, self.optional, unit, dates)


def plain_kind(
    name: str, mark: str, fields: Mapping[str, pa.DataType], times: Collection[str] = ()
) -> ResultKind:
    """Return a kind with these ``fields`` after the shared ones (``op query site at``).

    Args:
        name: name of its folder.
        mark: one of the fields, which no other kind has.
        fields: Arrow types by name; no structs.
        times: fields that are times [ns].
    """
    schema = pa.schema({POSITION: pa.int64(), **SHARED_FIELDS, **fields})
    return ResultKind(name, mark, schema, frozenset({"at", *times}))


KINDS: Final[dict[str, ResultKind]] = {
    kind.name: kind
    for kind in (
        ResultKind(
            MATCHES, "events", MATCH_SCHEMA, frozenset({"at", "known_at", "ts", "te", "ref"}),
            frozenset({"value"}),
        ),
        ResultKind(
            WINDOWS, "window", WINDOW_SCHEMA, frozenset({"at", "start", "end"}),
            frozenset(WINDOW_EXTRAS),
        ),
        ResultKind(ALERTS, "alert", ALERT_SCHEMA),
        ResultKind(ITEMS, "item", ITEM_SCHEMA, optional=frozenset({"certainty"})),
    )
}  # fmt: skip


def kind_of(result: Result) -> ResultKind:
    """Return the kind of a result.

    Raises:
        ContractViolation: it has no kind, or several.
    """
    found = [kind for kind in KINDS.values() if kind.mark in result]
    if len(found) != 1:
        marks = ", ".join(kind.mark for kind in KINDS.values())
        raise ContractViolation(f"a result has one of {marks}, not {sorted(result)}")
    return found[0]


# Identities of results, 128-bit hashes of their content; and the results that remain after changes.
#
# A retraction repeats the content of the retracted result, except for the time of emission. So the
# content, as the JSON line that a sink would write, identifies the retracted result. It does not
# depend on how results were computed, so it also orders results of equal time.


_SEEDS: Final = (1, 0x5DEECE66D)
_WORD: Final = 7
"""Bytes mixed in per step: with their count they fit into an int64."""


def identities(
    kind: str, tables: Iterable[pa.Table], ignored: Collection[str] = EMISSION
) -> np.ndarray:  # fmt: skip
    """Return 128-bit hashes, int64 (results, 2): equal for equal content.

    Args:
        kind: kind of the results.
        tables: the results, with the kind's schema.
        ignored: fields that are not part of the content.
    """
    texts = contents(kind, tables, ignored)
    return np.concatenate([np.empty((0, 2), np.int64), *map(numbers_of_texts, texts)])


def contents(
    kind: str, tables: Iterable[pa.Table], ignored: Collection[str] = EMISSION
) -> Iterator[pa.Array]:
    """Yield the texts of the results in pieces, equal for equal content; see ``identities``."""
    for table in tables:
        content, n = table.combine_chunks(), table.num_rows
        for name in set(ignored).intersection(table.schema.names):
            same = same_for_all("+", n) if name == "op" else pa.array(np.zeros(n, np.int64))
            content = content.set_column(table.schema.get_field_index(name), name, same)
        yield from KINDS[kind].lines(content, 1)


def numbers_of_texts(texts: pa.Array) -> np.ndarray:
    """Return 128-bit hashes, int64 (n, 2), equal for equal ``texts`` (strings)."""
    found = np.empty((len(texts), 2), np.int64)
    if not len(texts):
        return found
    plain = pa.concat_arrays([texts])  # its buffers begin with its first text
    data = np.frombuffer(plain.buffers()[2] or b"", np.uint8)
    offsets = np.frombuffer(plain.buffers()[1], np.int32)[plain.offset :][: len(plain) + 1]
    _mix_texts(data, offsets, found)
    return found


def numbers_of_codes(codes: np.ndarray, text: Callable[[int], str | None]) -> np.ndarray:
    """Return hashes of the texts of ``codes`` (n), int64 (n, 2): equal for equal texts.

    Args:
        codes: codes of texts; -1 for null.
        text: returns the text of a code; None: no text.
    """
    is_used = np.zeros(int(codes.max(initial=-1)) + 1, np.bool_)
    is_used[codes[codes >= 0]] = True
    used = np.flatnonzero(is_used)
    by_code = np.zeros((len(is_used) + 1, 2), np.int64)  # the last one is for null
    by_code[used] = numbers_of_texts(
        pa.array([text(code) or "" for code in used.tolist()], pa.string())
    )
    return np.asarray(by_code[codes])


def numbers_of_rows(columns: Sequence[np.ndarray]) -> np.ndarray:
    """Return 128-bit hashes, int64 (n, 2), equal for equal rows of ``columns`` (int64, n each, at
    least one).
    """
    found = np.empty((len(columns[0]), 2), np.int64)
    for lane, seed in enumerate(_SEEDS):
        state = np.full(len(found), seed, np.uint64)
        for column in columns:
            state = (state ^ column.view(np.uint64)) * MULTIPLIER
            state ^= state >> np.uint64(32)
        found[:, lane] = state.view(np.int64)
    return found


@kernel
def _mix_texts(data: np.ndarray, offsets: np.ndarray, found: np.ndarray) -> None:
    for i in range(len(found)):
        for lane in range(2):
            state, at, end = _SEEDS[lane], offsets[i], offsets[i + 1]
            while at < end:
                stop, word = min(at + _WORD, end), 0
                for place in range(at, stop):
                    word = word * 256 + int(data[place])
                state = mixed(state, word * 8 + (stop - at))
                at = stop
            found[i, lane] = mixed(state, end - offsets[i])


def partners(identity: np.ndarray, plus: np.ndarray) -> np.ndarray:
    """Return, by row, the row of the ``+`` that it retracts, or -1.

    Several equal results may exist at once: two matches of events without numbers can be equal.
    Any of them may be retracted; the first one is chosen.

    Args:
        identity: int64 (n,) or (n, k), in order of emission.
        plus: bool (n,).
    """
    n, content = len(identity), identity[:, None] if identity.ndim == 1 else identity
    found = np.full(n, -1)
    if plus.all():
        return found
    order = np.lexsort(content.T)
    ordered, adds = content[order], plus[order]
    is_first = np.append(True, (ordered[1:] != ordered[:-1]).any(axis=1))
    group, first = np.cumsum(is_first) - 1, np.flatnonzero(is_first)
    # Net count that may fall below zero; its running minimum counts retractions without a partner.
    total = np.cumsum(np.where(adds, 1, -1))
    total -= (total[first] - np.where(adds[first], 1, -1))[group]
    apart = group * (2 * n + 2)  # keeps the groups' minima apart
    least = np.minimum(np.minimum.accumulate(total - apart) + apart, 0)
    before = np.where(is_first, 0, np.append(0, least[:-1]))
    takes = np.flatnonzero(~adds & (least == before))
    gives = np.flatnonzero(adds)
    # The nth retraction pairs with the nth insertion, which precedes it.
    nth = np.arange(len(takes)) - np.searchsorted(takes, first)[group[takes]]
    found[order[takes]] = order[gives[np.searchsorted(gives, first)[group[takes]] + nth]]
    return found


# Final results: what the ``+``/``-`` changes of a pass leave.
#
# Rows stay in the store; memory holds 37 bytes per change of a site, 64 during the sort. Contents
# are compared only among results of one time with a retraction.


FINAL: Final = "final"
_ROWS_AT_ONCE: Final = 1 << 16
_FEW: Final = 1 << 14
"""Up to this number contents are compared as texts, without a compiled kernel."""
_ROW_PLACE: Final = (SITE, "op", POSITION)
_TIMED_BY: Final = {
    WINDOWS: ("window",),
    MATCHES: tuple(f"events.list.element.{name}" for name in ("ts", "te", "ref")),
}
_CHANGE: Final = np.dtype([
    ("end", np.int64), ("start", np.int64), ("emitted", np.int64), ("site", np.int32),
    ("table", np.int32), ("row", np.int32), ("minus", np.bool_),
])  # fmt: skip
"""Place of a change: times of its result, place among the changes of its site, place of the site,
table and row; and whether it is a retraction."""


def final_results(changes: PartStore) -> PartStore:
    """Return a store with the results that were not retracted, by site in order of time.

    The time of a window is its end, of a match the end of its last event, of other results their
    latest time. Ties are broken by the earlier start, then by the order of emission.

    Raises:
        UserError: a file is damaged, or the disk is full.
    """
    folder = changes.directory / FINAL
    if folder.exists():
        shutil.rmtree(folder)  # from an earlier pass
    final = PartStore(folder, HELD_BYTES // 4)  # the changes are in memory, too
    for kind in KINDS:
        batches = changes.open(kind)
        pieces = (each for of in site_groups([batches]) for each in _remaining(kind, batches, of))
        for number, parts in enumerate(pieces):
            final.replace(kind, number, parts)
    return final


def _remaining(kind: str, batches: Batches, sites: list[str]) -> Iterator[list[list[pa.Table]]]:
    """Yield the remaining rows in pieces, in the form that a store takes."""
    columns = [*_ROW_PLACE, *_TIMED_BY.get(kind, _plain_times(kind))]
    count = sum(rows for site, rows in batches.rows().items() if site in set(sites))
    changes = np.zeros(count, _CHANGE)
    of_batch: list[int] = []
    first = 0
    for number, (batch_id, table) in enumerate(batches.tables(sites, columns)):
        part = changes[first : first + table.num_rows]
        part["end"], part["start"] = result_times(kind, table)
        site = pc.index_in(table.column(SITE).cast(pa.string()), pa.array(sites))
        part["site"], part["emitted"] = site.to_numpy(), table.column(POSITION).to_numpy()
        part["table"], part["row"] = number, np.arange(table.num_rows)
        part["minus"] = pc.equal(table.column("op"), "-").to_numpy()
        of_batch.append(batch_id)
        first += table.num_rows
    ranks = np.unique(of_batch, return_inverse=True)[1].astype(np.int32)
    kept = np.lexsort((changes["emitted"], ranks[changes["table"]], changes["site"]))
    if changes["minus"].any():
        kept = kept[~_cancelled(kind, batches, sites, of_batch, changes, kept)]
    keys = (changes[name][kept] for name in ("start", "end", "site"))
    kept = kept[np.lexsort(tuple(keys))]
    for start in range(0, len(kept), _ROWS_AT_ONCE):
        some = changes[kept[start : start + _ROWS_AT_ONCE]]
        parts: dict[pa.Schema, list[tuple[str, pa.Table]]] = {}
        for rows, table in _taken(batches, sites, of_batch, some):
            at = table.schema.get_field_index(POSITION)
            table = table.set_column(at, POSITION, pa.array(rows))  # noqa: PLW2901 - numbered
            names, ends = runs(table.column(SITE))
            for name, (begin, end) in zip(names, pairwise(ends.tolist()), strict=True):
                parts.setdefault(table.schema, []).append((name, table.slice(begin, end - begin)))
        yield [[table for _, table in sorted(of, key=lambda e: e[0])] for of in parts.values()]


def _cancelled(
    kind: str, batches: Batches, sites: list[str], of_batch: Sequence[int], changes: np.ndarray,
    order: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """Return which changes, in ``order`` of emission, are retractions or were retracted."""
    gone: np.ndarray = changes["minus"][order]
    ends = changes["end"][order]
    compared = np.flatnonzero(np.isin(ends, ends[gone]))
    pieces = _taken(batches, sites, of_batch, changes[order[compared]])
    partner = partners(_identities(kind, pieces, len(compared)), ~gone[compared])
    gone[compared[partner[partner >= 0]]] = True
    return gone


def _identities(kind: str, pieces: Iterator[tuple[np.ndarray, pa.Table]], count: int) -> np.ndarray:
    """Return numbers of ``count`` results, equal for equal content; pieces have their places."""
    if count > _FEW:
        found = np.empty((count, 2), np.int64)
        for rows, table in pieces:
            found[rows] = identities(kind, [table])
        return found
    places: list[np.ndarray] = []
    texts: list[pa.Array] = []
    for rows, table in pieces:
        places.append(rows)
        texts += contents(kind, [table])
    codes = np.empty(count, np.int64)
    codes[np.concatenate(places)] = pa.concat_arrays(texts).dictionary_encode().indices
    return codes


def _taken(
    batches: Batches, sites: list[str], of_batch: Sequence[int], places: np.ndarray
) -> Iterator[tuple[np.ndarray, pa.Table]]:
    """Yield, for each table with some of these rows, their indices in ``places``, and the rows."""
    tables = np.unique(places["table"])
    numbers = {batch_id: of_batch.index(batch_id) for batch_id in {of_batch[t] for t in tables}}
    for batch_id in sorted(numbers):
        for number, (_, table) in enumerate(
            batches.tables(sites, batch_id=batch_id), numbers[batch_id]
        ):
            rows = np.flatnonzero(places["table"] == number)
            if len(rows):
                yield rows, table.take(pa.array(places["row"][rows]))


def _plain_times(kind: str) -> list[str]:
    """Return the times of a result that are fields and part of its content."""
    return sorted(KINDS[kind].times.difference(EMISSION).intersection(KINDS[kind].schema.names))


def result_times(kind: str, table: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """Return end and start of each result, on the engine's clock."""
    if kind == WINDOWS:
        window = in_one(table.column("window"))
        return window.field("end").to_numpy(), window.field("start").to_numpy()
    if kind == MATCHES:
        events = in_one(table.column("events"))
        ref, ts, te = (events.flatten().field(name) for name in ("ref", "ts", "te"))
        # If only one end of an event is known, it is used for both.
        whole = (ref, te), (ts, te), (te, ts)
        ref, ts, te = (pc.coalesce(*known).to_numpy() for known in whole)
        starts = events.offsets.to_numpy()[:-1] - events.offsets[0].as_py()
        return np.maximum.reduceat(ref + (te - ts), starts), np.minimum.reduceat(ref, starts)
    columns = [table.column(name).fill_null(INT_MIN).to_numpy() for name in _plain_times(kind)]
    rows = np.stack([*columns, np.full(table.num_rows, INT_MIN)])
    return rows.max(axis=0), rows.max(axis=0)
