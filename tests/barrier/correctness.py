"""L09 section IV: five properties of an output that was recorded, one function each.

An output is (op, rows of the match's events, at) in order; ``lives`` are the matches by definition
(``lifetimes``), ``arrivals`` the instants of the rows. Each gives what speaks against the property.
"""

from __future__ import annotations

from collections.abc import Sequence

from lifetimes import Life

Changes = Sequence[tuple[str, tuple[int, ...], int]]


def out_of_order(given: Changes, lives: Sequence[Life]) -> list[tuple[int, ...]]:
    """Ordered output: no result's last event is earlier than that of a result before it."""
    last = {life.rows: life.last_ts for life in lives}
    found, highest = [], -1
    for op, rows, _ in given:
        if op == "+":
            if last[rows] < highest:
                found.append(rows)
            highest = max(highest, last[rows])
    return found


def not_in_time(
    given: Changes, lives: Sequence[Life], arrivals: Sequence[int]
) -> list[tuple[str, tuple[int, ...], int]]:
    """Immediate output: a result as soon as no negative event that has come filters it out."""
    emitted = {(op, rows): at for op, rows, at in given}
    return [
        ("+", life.rows, arrivals[life.known])
        for life in lives
        if life.ever and emitted.get(("+", life.rows)) != arrivals[life.known]
    ]


def not_for_good(given: Changes, lives: Sequence[Life]) -> list[tuple[str, tuple[int, ...], int]]:
    """Permanently valid: every result satisfies the query given the complete input."""
    right = {life.rows for life in lives if life.killed is None}
    return [one for one in given if one[0] == "-" or one[1] not in right]


def not_valid_yet(
    given: Changes, lives: Sequence[Life], arrivals: Sequence[int]
) -> list[tuple[int, tuple[int, ...]]]:
    """Eventually valid: at every instant, no event that has come filters out what stands."""
    found = []
    for at, row in _instants(given, arrivals):
        standing = {life.rows for life in lives if row >= 0 and life.stands(row)}
        found += [(at, rows) for rows in net(given, at) if rows not in standing]
    return found


def incomplete(
    given: Changes, lives: Sequence[Life], arrivals: Sequence[int], *, at_once: bool
) -> list[tuple[int, tuple[int, ...]]]:
    """Complete: every match stands in the end; ``at_once``: at every instant what stands is out."""
    found = []
    instants = _instants(given, arrivals)
    for at, row in instants if at_once else instants[-1:]:
        out = net(given, at)
        missing = [life.rows for life in lives if row >= 0 and life.stands(row)]
        found += [(at, rows) for rows in missing if rows not in out]
    return found


def net(given: Changes, at: int) -> set[tuple[int, ...]]:
    """What was inserted and not taken back until ``at``, each once at most."""
    out: set[tuple[int, ...]] = set()
    for op, rows, when in given:
        if when <= at:
            assert (op == "+") == (rows not in out), f"{op} {rows} at {when}"
            out ^= {rows}
    return out


def _instants(given: Changes, arrivals: Sequence[int]) -> list[tuple[int, int]]:
    """(instant, last row that has come by then) of every arrival and result."""
    instants = sorted({*arrivals, *(at for _, _, at in given)})
    return [(at, sum(arrival <= at for arrival in arrivals) - 1) for at in instants]
