"""``ldop`` as R19 Eq 2.4 and 2.5 read, slowly: means over everything, looked at at every event."""

from __future__ import annotations

from collections.abc import Sequence

from tests.order.slow_slack import Released, _let_go

_MASK = (1 << 64) - 1


def slow_splitmix64(number: int) -> int:
    """The number-th output of the generator seeded with 0, as its authors print it."""
    z = (number + 1) * 0x9E3779B97F4A7C15 & _MASK
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & _MASK
    return (z ^ z >> 31) & _MASK


def slow_ldop(
    times: Sequence[int], arrivals: Sequence[int], window: int, low: int = 1000, high: int = 1000,
    reads: Sequence[bool] = (),
) -> Released:  # fmt: skip
    """Every event, its release and whether it is late.

    ``low``, ``high``: SF in thousandths. ``reads``: which events are looked at; empty: every one.
    """
    held: list[int] = []
    done: Released = []
    width = -(-window // 64)
    buckets = -(-window // width)
    disordered: list[tuple[int, int]] = []  # (clock when it came, delay)
    clock = times[0]
    for row, time in enumerate(times):
        held.append(row)
        clock = max(clock, time)
        before = [times[each] for each in range(row) if not reads or reads[each]]
        if (not reads or reads[row]) and any(time < each for each in before):
            disordered.append((clock, max(arrivals[row] - time, 0)))
        oldest = clock // width - buckets + 1
        delays = [delay for when, delay in disordered if when // width >= oldest]
        distance = sum(delays) // len(delays) if delays else 0
        factor = low + (slow_splitmix64(clock // window) >> 1) % (high - low + 1)
        wait = window + distance * factor // 1000
        _let_go(times, held, [each for each in held if times[each] + wait <= clock],
               arrivals[row], done)  # fmt: skip
    _let_go(times, held, list(held), arrivals[-1], done)
    return done
