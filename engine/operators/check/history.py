"""The history of results: what was known when, by query and key, as far back as rules look."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from slackwater.engine.core.operator import Restorable
from slackwater.engine.kernels.jit import inline, kernel
from slackwater.engine.kernels.records import INT_MAX
from slackwater.engine.output.kinds import partners
from slackwater.engine.query.plan import NEAR_COUNT, SINCE_LAST, Lookup


class KnownResults(NamedTuple):
    """Results that a query gave, in order of emission; columns of int64.

    ``key``, ``identity``: hashes. ``at``: when it was known [ns]. ``place``: its number among the
    query's results. ``gone``, ``gone_place``: of the ``-`` that took it back; INT_MAX: none.
    """

    key: np.ndarray
    identity: np.ndarray
    at: np.ndarray
    place: np.ndarray
    gone: np.ndarray
    gone_place: np.ndarray

    def taken(self, rows: np.ndarray) -> KnownResults:
        """Those at ``rows``."""
        return KnownResults(*(column[rows] for column in self))


class HistoryLookups(NamedTuple):
    """Results whose history is asked for, equally long columns of int64.

    ``until``: up to when what has become known counts [ns]; ``at`` itself at first.
    """

    key: np.ndarray
    at: np.ndarray
    place: np.ndarray
    until: np.ndarray


NOTHING: Final = KnownResults(*(np.zeros(0, np.int64) for _ in KnownResults._fields))


class History(Restorable):
    """Of some queries, each a number."""

    state_fields = ("_known",)

    def __init__(self, look_back: dict[int, int]) -> None:
        """``look_back``: for how long results of each query are asked for [ns]."""
        self._look_back = look_back
        self._known = dict.fromkeys(look_back, NOTHING)

    def add(
        self, query: int, key: np.ndarray, identity: np.ndarray, at: np.ndarray,
        place: np.ndarray, plus: np.ndarray,
    ) -> None:  # fmt: skip
        """Results of ``query``, in order of emission; of ``-``, what they take back is gone."""
        if query not in self._known or not len(at):
            return
        none = np.full(len(at), INT_MAX)
        new = KnownResults(key, identity, at, place, none, none)
        old = self._known[query]
        joined = KnownResults(*(np.concatenate(pair) for pair in zip(old, new, strict=True)))
        gone, gone_place = joined.gone.copy(), joined.gone_place.copy()
        is_plus = np.concatenate((np.ones(len(old.at), np.bool_), plus))
        if not plus.all():
            open_ = np.flatnonzero((gone == INT_MAX) & np.isin(joined.identity, identity[~plus]))
            taken = partners(joined.identity[open_], is_plus[open_])
            minus = open_[taken >= 0]
            back = open_[taken[taken >= 0]]
            gone[back], gone_place[back] = joined.at[minus], joined.place[minus]
        joined = joined._replace(gone=gone, gone_place=gone_place)
        self._known[query] = joined.taken(np.flatnonzero(is_plus))

    def forget(self, now: int, held: int) -> None:
        """What no result known from ``now - held`` on [ns] can ask for any more."""
        for query, known in self._known.items():
            since = now - held - self._look_back[query]
            if len(known.at) and known.at[0] < since:
                self._known[query] = known.taken(np.flatnonzero(known.at >= since))

    def look_up(
        self, lookup: Lookup, query: int, asked: HistoryLookups, *, own: bool
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """(int64 per result asked for, where it has one; None: everywhere).

        ``query``: the number of the one that is looked into; ``own``: the results' own.
        """
        n = len(asked.at)
        count, last = np.zeros(n, np.int64), np.zeros(n, np.int64)
        known = self._known[query]
        known = known.taken(np.flatnonzero(np.isin(known.key, asked.key)))
        known = known.taken(np.lexsort((known.place, known.at, known.key)))
        gone = known.taken(np.flatnonzero(known.gone < INT_MAX))
        near = lookup.function == NEAR_COUNT
        _look_up(known, gone, asked, lookup.within_ns, own, near, count, last)
        if lookup.function == SINCE_LAST:
            return asked.at - last, count > 0
        return count, None


@inline
def _first(known: KnownResults, key: int, at: int, place: int) -> int:
    """The first of ``known``, in order of key, time and place, that is not before these."""
    low, high = 0, len(known.key)
    while low < high:
        middle = (low + high) >> 1
        if known.key[middle] != key:
            before = known.key[middle] < key
        elif known.at[middle] != at:
            before = known.at[middle] < at
        else:
            before = known.place[middle] < place
        if before:
            low = middle + 1
        else:
            high = middle
    return low


@inline
def _is_gone(
    known: KnownResults, row: int, asked: HistoryLookups, number: int, own: bool
) -> bool:  # fmt: skip
    """Whether it was taken back by when the result is judged."""
    if own and asked.until[number] == asked.at[number]:
        return bool(known.gone_place[row] < asked.place[number])
    return bool(known.gone[row] < asked.until[number])


@kernel
def _look_up(
    known: KnownResults, gone: KnownResults, asked: HistoryLookups, within: int,
    own: bool, near: bool,
    count: np.ndarray, last: np.ndarray,
) -> None:  # fmt: skip
    """Per result asked for, how many were known in time and when the last one was."""
    for number in range(len(asked.at)):
        key, at, place = asked.key[number], asked.at[number], asked.place[number]
        since = at - within
        until = at
        if near and asked.until[number] > at:
            until = asked.until[number]
        upper = place if own and until == at else -1
        start, end = _first(known, key, since, -1), _first(known, key, until, upper)
        found = end - start
        for row in range(_first(gone, key, since, -1), _first(gone, key, until, upper)):
            if _is_gone(gone, row, asked, number, own):
                found -= 1
        if own and near and until > at:
            itself = _first(known, key, at, place)
            there = itself < end and known.place[itself] == place and known.key[itself] == key
            if there and not _is_gone(known, itself, asked, number, own):
                found -= 1
        count[number] = found
        for row in range(end - 1, start - 1, -1):
            if not _is_gone(known, row, asked, number, own):
                last[number] = known.at[row]
                break
