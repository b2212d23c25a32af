"""Kinds of results: their fields, their tables, their JSON lines. Adding one is one line.

Sinks, exports and hosts know kinds by this registry alone; an operator's columns name theirs.
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
"""Rows: bounds the texts in memory."""


class ResultKind(Struct, frozen=True):
    """What is known of a kind.

    Attributes:
        name: of its folder, and of its columns (``engine.core.operator.ResultColumns.kind``).
        mark: the field that its results have and no other kind's.
        schema: of its tables; columns may have other types where the query decides.
        times: fields that are times [ns], shown in the unit asked for.
        optional: fields that a line has only where they are not null.
    """

    name: str
    mark: str
    schema: pa.Schema
    times: frozenset[str] = frozenset({"at", "ts"})
    optional: frozenset[str] = frozenset()

    def rows(self, positions: Sequence[int], results: Sequence[Result]) -> pa.Table:
        """Results as a table of ``schema``; ``positions``: their places in their batch."""
        return rows_of(self.schema, positions, results)

    def lines(
        self, table: pa.Table, unit: int, times: Collection[str] = (), dates: Dates | None = None
    ) -> Iterator[pa.Array]:
        """The JSON lines of a ``table`` with their ends, some at a time.

        ``times``: labels of values that are times, too. ``dates``: see ``JsonTexts``.
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
    """A kind with these ``fields`` after those that all results have (``op query site at``).

    Args:
        name: of its folder.
        mark: one of the fields, that no other kind has.
        fields: with Arrow's types; no structs.
        times: those that are times [ns].
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
    """The kind of a result.

    Raises:
        ContractViolation: of none, or of more than one.
    """
    found = [kind for kind in KINDS.values() if kind.mark in result]
    if len(found) != 1:
        marks = ", ".join(kind.mark for kind in KINDS.values())
        raise ContractViolation(f"a result has one of {marks}, not {sorted(result)}")
    return found[0]


# Identity of a result, a 128-bit hash of its content; and the results that changes leave.
#
# A retraction repeats the content of the result that it retracts, except for the time of emission.
# So the content, as the JSON line that a sink would write, identifies the retracted result. It
# does not depend on how results were computed, so it also orders results of one time.


_SEEDS: Final = (1, 0x5DEECE66D)
_WORD: Final = 7
"""Bytes that are mixed in at once: they and their number fit into an int64."""


def identities(
    kind: str, tables: Iterable[pa.Table], ignored: Collection[str] = EMISSION
) -> np.ndarray:  # fmt: skip
    """Numbers of 128 bits, int64 (results, 2): equal where the content is.

    Args:
        kind: of the results.
        tables: the results, of the kind's schema.
        ignored: fields that are no content.
    """
    texts = contents(kind, tables, ignored)
    return np.concatenate([np.empty((0, 2), np.int64), *map(numbers_of_texts, texts)])


def contents(
    kind: str, tables: Iterable[pa.Table], ignored: Collection[str] = EMISSION
) -> Iterator[pa.Array]:
    """The texts of the results, some at a time, equal where the content is; see ``identities``."""
    for table in tables:
        content, n = table.combine_chunks(), table.num_rows
        for name in set(ignored).intersection(table.schema.names):
            same = same_for_all("+", n) if name == "op" else pa.array(np.zeros(n, np.int64))
            content = content.set_column(table.schema.get_field_index(name), name, same)
        yield from KINDS[kind].lines(content, 1)


def numbers_of_texts(texts: pa.Array) -> np.ndarray:
    """Numbers of 128 bits, int64 (n, 2), that are equal where ``texts`` (strings) are."""
    found = np.empty((len(texts), 2), np.int64)
    if not len(texts):
        return found
    plain = pa.concat_arrays([texts])  # whose buffers begin with its first text
    data = np.frombuffer(plain.buffers()[2] or b"", np.uint8)
    offsets = np.frombuffer(plain.buffers()[1], np.int32)[plain.offset :][: len(plain) + 1]
    _mix_texts(data, offsets, found)
    return found


def numbers_of_codes(codes: np.ndarray, text: Callable[[int], str | None]) -> np.ndarray:
    """Numbers of the texts that ``codes`` (n) mean, int64 (n, 2): equal where the texts are.

    Args:
        codes: of texts; -1 for null.
        text: what a code means; None: nothing.
    """
    is_used = np.zeros(int(codes.max(initial=-1)) + 1, np.bool_)
    is_used[codes[codes >= 0]] = True
    used = np.flatnonzero(is_used)
    by_code = np.zeros((len(is_used) + 1, 2), np.int64)  # the last one is null's
    by_code[used] = numbers_of_texts(
        pa.array([text(code) or "" for code in used.tolist()], pa.string())
    )
    return np.asarray(by_code[codes])


def numbers_of_rows(columns: Sequence[np.ndarray]) -> np.ndarray:
    """Numbers of 128 bits, int64 (n, 2), that are equal where the rows of ``columns`` (int64, n
    each, one at least) are.
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
    """By row, the place of the ``+`` that it takes back, or -1.

    Several that are equal may stand at once: two matches of events without numbers can say the
    same. Which of them is taken back makes no difference; it is the first.

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
    # Net count, as if more could be retracted than exist; its minimum says how often.
    total = np.cumsum(np.where(adds, 1, -1))
    total -= (total[first] - np.where(adds[first], 1, -1))[group]
    apart = group * (2 * n + 2)  # so that no group's least reaches into the next
    least = np.minimum(np.minimum.accumulate(total - apart) + apart, 0)
    before = np.where(is_first, 0, np.append(0, least[:-1]))
    takes = np.flatnonzero(~adds & (least == before))
    gives = np.flatnonzero(adds)
    # The nth retraction pairs with the nth insertion, which came before it.
    nth = np.arange(len(takes)) - np.searchsorted(takes, first)[group[takes]]
    found[order[takes]] = order[gives[np.searchsorted(gives, first)[group[takes]] + nth]]
    return found


# Final results: what the ``+``/``-`` log of a pass leaves.
#
# Rows stay in the store; memory holds 37 bytes of each change of a site, and 64 while it sorts.
# Contents are compared only where something is retracted at the same time.


FINAL: Final = "final"
_ROWS_AT_ONCE: Final = 1 << 16
_FEW: Final = 1 << 14
"""So many contents are held as texts, for which no kernel need be compiled."""
_ROW_PLACE: Final = (SITE, "op", POSITION)
_TIMED_BY: Final = {
    WINDOWS: ("window",),
    MATCHES: tuple(f"events.list.element.{name}" for name in ("ts", "te", "ref")),
}
_CHANGE: Final = np.dtype([
    ("end", np.int64), ("start", np.int64), ("emitted", np.int64), ("site", np.int32),
    ("table", np.int32), ("row", np.int32), ("minus", np.bool_),
])  # fmt: skip
"""Where a change is: the times of its result, its place among the changes of its site, the place
of the site, the table and its row there; and whether it is a retraction."""


def final_results(changes: PartStore) -> PartStore:
    """The results that were not retracted, of each site in order of time, in a store of their own.

    A window's time is its end, a match's the end of its last event, that of other results their
    latest. Of equal ones what begins earlier goes first, then what was emitted first.

    Raises:
        UserError: a damaged file, or the disk is full.
    """
    folder = changes.directory / FINAL
    if folder.exists():
        shutil.rmtree(folder)  # of an earlier pass
    final = PartStore(folder, HELD_BYTES // 4)  # beside the changes, which are held too
    for kind in KINDS:
        batches = changes.open(kind)
        pieces = (each for of in site_groups([batches]) for each in _remaining(kind, batches, of))
        for number, parts in enumerate(pieces):
            final.replace(kind, number, parts)
    return final


def _remaining(kind: str, batches: Batches, sites: list[str]) -> Iterator[list[list[pa.Table]]]:
    """The rows that remain, some at a time, as a store takes them."""
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
    """Which of the changes in ``order`` of emission are retractions, or were retracted."""
    gone: np.ndarray = changes["minus"][order]
    ends = changes["end"][order]
    compared = np.flatnonzero(np.isin(ends, ends[gone]))
    pieces = _taken(batches, sites, of_batch, changes[order[compared]])
    partner = partners(_identities(kind, pieces, len(compared)), ~gone[compared])
    gone[compared[partner[partner >= 0]]] = True
    return gone


def _identities(kind: str, pieces: Iterator[tuple[np.ndarray, pa.Table]], count: int) -> np.ndarray:
    """Numbers of ``count`` results, equal where the content is; pieces say which each has."""
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
    """Of each table with some of these rows: which they are among ``places``, and they."""
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
    """The times of a result that are fields of its own and part of its content."""
    return sorted(KINDS[kind].times.difference(EMISSION).intersection(KINDS[kind].schema.names))


def result_times(kind: str, table: pa.Table) -> tuple[np.ndarray, np.ndarray]:
    """When each result ends and begins, on the engine's clock."""
    if kind == WINDOWS:
        window = in_one(table.column("window"))
        return window.field("end").to_numpy(), window.field("start").to_numpy()
    if kind == MATCHES:
        events = in_one(table.column("events"))
        ref, ts, te = (events.flatten().field(name) for name in ("ref", "ts", "te"))
        # An event of which only one end is known is there.
        whole = (ref, te), (ts, te), (te, ts)
        ref, ts, te = (pc.coalesce(*known).to_numpy() for known in whole)
        starts = events.offsets.to_numpy()[:-1] - events.offsets[0].as_py()
        return np.maximum.reduceat(ref + (te - ts), starts), np.minimum.reduceat(ref, starts)
    columns = [table.column(name).fill_null(INT_MIN).to_numpy() for name in _plain_times(kind)]
    rows = np.stack([*columns, np.full(table.num_rows, INT_MIN)])
    return rows.max(axis=0), rows.max(axis=0)
