"""What a reader of the demonstration's shop prints.

``python -m slackwater.engine.server.shop_readings`` starts it. Things are read at the shelf, at the
checkout and at the exit; a few are not paid for. All readers draw the same walks from the same
seed, so that they agree without talking to one another.
"""

from __future__ import annotations

import heapq
import json
import sys
import time
from collections.abc import Iterator
from random import Random
from typing import Final, NamedTuple

PLACES: Final = ("shelf", "checkout", "exit")
_SEED: Final = 20_261_123
_BETWEEN_S: Final = 0.8
"""Mean time from one thing to the next."""
_STOLEN: Final = 0.1


class Walk(NamedTuple):
    """When a thing is read, in seconds after the start; ``checkout`` None: it is not."""

    tag: str
    shelf: float
    checkout: float | None
    exit: float


def walks() -> Iterator[Walk]:
    """All walks, in order of their first reading; the same each time."""
    random = Random(_SEED)  # noqa: S311 - no secret
    number, at = 0, 0.0
    while True:
        number += 1
        at += random.expovariate(1 / _BETWEEN_S)
        paid = at + random.uniform(2, 6)
        gone = paid + random.uniform(0.5, 4)
        stolen = random.random() < _STOLEN
        yield Walk(f"T{number:05}", at, None if stolen else paid, gone)


def readings(place: str) -> Iterator[tuple[float, str]]:
    """(seconds after the start, tag) of one reader, in order."""
    waiting: list[tuple[float, str]] = []
    for walk in walks():
        # Nobody who comes later is read before that.
        while waiting and waiting[0][0] <= walk.shelf:
            yield heapq.heappop(waiting)
        at = {"shelf": walk.shelf, "checkout": walk.checkout, "exit": walk.exit}[place]
        if at is not None:
            heapq.heappush(waiting, (at, walk.tag))


def main(place: str, start: float) -> None:
    """Prints each reading when it is due; ``start``: seconds since the Unix epoch."""
    for at, tag in readings(place):
        wait = start + at - time.time()
        if wait > 0:
            time.sleep(wait)
            line = json.dumps({"type": place.upper(), "tag": tag})
            sys.stdout.write(line + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
