"""Identity of a result: a 128-bit hash of its content.

A retraction repeats the content of the result that it retracts, except for the time of emission. So
the content, as the JSON line that a sink would write, identifies the retracted result. It does not
depend on how results were computed, so it also orders results of one time.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from slackwater.engine.kernels.jit import kernel
from slackwater.engine.kernels.tables import MULTIPLIER, mixed
from slackwater.engine.output.kinds import KINDS
from slackwater.engine.output.schema import same_for_all

EMISSION: Final = ("op", "at")
"""Fields that say when a result was emitted, and whether it is a retraction."""
_SEEDS: Final = (1, 0x5DEECE66D)
_WORD: Final = 7
"""Bytes that are mixed in at once: they and their number fit into an int64."""


def identities(
    kind: str, tables: Iterable[pa.Table], ignored: Collection[str] = EMISSION
) -> np.ndarray:  # fmt: skip
    """Numbers of 128 bits, int64 (results, 2): equal where the content is.

    Args:
        kind: of the results (``engine.output.kinds``).
        tables: the results, of the kind's schema.
        ignored: fields that are no content.
    """
    found = [np.empty((0, 2), np.int64)]
    for table in tables:
        content, n = table.combine_chunks(), table.num_rows
        for name in set(ignored).intersection(table.schema.names):
            same = same_for_all("+", n) if name == "op" else pa.array(np.zeros(n, np.int64))
            content = content.set_column(table.schema.get_field_index(name), name, same)
        found += map(numbers_of_texts, KINDS[kind].lines(content, 1))
    return np.concatenate(found)


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
