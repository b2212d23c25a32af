"""K-slack operators as their definitions read, slowly: everything is looked at at every event."""

from __future__ import annotations

from collections.abc import Sequence

Released = list[tuple[int, int, bool]]
"""(position among the arrivals, arrival that let it go, whether it is late)."""


def slow_kslack(times: Sequence[int], arrivals: Sequence[int], k: int) -> Released:
    """SPEC 3.3: release all with ``ts + K <= clock``, smallest first, ties by arrival."""
    held: list[int] = []
    done: Released = []
    for row, time in enumerate(times):
        held.append(row)
        clock = max(times[: row + 1])
        due = [each for each in held if times[each] + k <= clock]
        _let_go(times, held, due, arrivals[row], done)
        del time
    _let_go(times, held, list(held), arrivals[-1], done)
    return done


def slow_mp_kslack(
    times: Sequence[int], arrivals: Sequence[int]
) -> tuple[Released, list[int], int]:
    """R19 Fig 2.6: (released, K after every event, how many the end of the input let go)."""
    held: list[int] = []
    done: Released = []
    slacks: list[int] = []
    k, since = 0, 0
    for row, time in enumerate(times):
        held.append(row)
        if row == 0 or time > max(times[:row]):
            k = max([k, *(time - times[each] for each in range(since, row))])
            since = row + 1
            due = [each for each in held if times[each] + k <= time]
            _let_go(times, held, due, arrivals[row], done)
        slacks.append(k)
    left = len(held)
    _let_go(times, held, list(held), arrivals[-1], done)
    return done, slacks, left


def _let_go(
    times: Sequence[int], held: list[int], due: list[int], now: int, done: Released
) -> None:
    for row in sorted(due, key=lambda each: (times[each], each)):
        late = any(times[other] > times[row] for other, _, _ in done)
        done.append((row, now, late))
        held.remove(row)
