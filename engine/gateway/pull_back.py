"""Intervals that have begun and not come: the gateway asks their agents for them (Z10 5.3.2).

A begin (IBP) is a message of its own, so the gateway knows of intervals before it has them. An
interval itself carries its begin and its end: so a begin without its end is all that can be missing
here, and the gateway sees it without knowing what anybody asks of the log. It asks an agent that
understands it (``Hello.can``)

* ``pull_back_ns`` after the begin came, after that twice as long, and so on: it may last;
* ``pull_back_ns`` after numbers of the interval's stream were found missing: it may be among them;
* at once when the source ends.

The agent sends what it has again, as it was numbered, so that it is in the log once; of the rest it
says that it has not ended yet, or that it is gone. What is open is kept in memory, so many of all
sources; a gateway that starts again knows of none.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterator
from itertools import count
from typing import Final

from slackwater.edge_agent import messages as m
from slackwater.edge_agent.pull_back import Events, ids_of
from slackwater.engine.gateway.peers import OpenInterval, Source
from slackwater.engine.gateway.settings import GatewaySettings

COUNTS: Final = (
    "pull_back_asked", "pull_back_came", "pull_back_unended", "pull_back_gone", "pull_back_untraced"
)  # fmt: skip
"""Reasons: intervals asked for (each time), that came where the last request was not answered that
they had not ended, that agents said have not ended (each time) or are gone, and that there was no
room to know of."""
_DOUBLED_MAX: Final = 6
_STALE_MAX: Final = 1024


class PullBack:
    """Of all sources. Instants are of the arrival clock."""

    def __init__(self, settings: GatewaySettings, counts: Counter[tuple[str, str, str]]) -> None:
        self._after_ns, self._most = settings.pull_back_ns, settings.pull_back_max
        self._counts = counts
        self._open = 0
        self._heap: list[tuple[int, int, Source, tuple[int, int], OpenInterval]] = []
        self._order = count()
        self.moved = False
        """Whether ``next_due`` may be another one than when it was last asked."""

    def next_due(self) -> int | None:
        """When somebody is to be asked; None: nobody is. It may turn out that nobody is then."""
        self.moved = False
        return self._heap[0][0] if self._heap else None

    def begun(self, source: Source, stream: int, id_: int, arrival: int) -> None:
        """The begin of an interval came."""
        key = (stream, id_)
        if not (self._after_ns and source.answers) or key in source.open:
            return
        if self._open >= self._most:
            self._counts[*source.key, "pull_back_untraced"] += 1
            return
        self._open += 1
        source.open[key] = interval = OpenInterval(arrival + self._after_ns)
        self._push(source, key, interval)

    def came(self, source: Source, data: Events) -> None:
        """Events came, for the first time or again."""
        if not source.open:
            return
        ids, stream = set(ids_of(data)), data.stream
        if len(source.open) < len(ids):
            mine = [key for key in source.open if key[0] == stream and key[1] in ids]
        else:
            mine = [(stream, id_) for id_ in ids if (stream, id_) in source.open]
        for key in mine:
            if source.open.pop(key).asked:
                self._counts[*source.key, "pull_back_came"] += 1
        self._open -= len(mine)

    def gap(self, source: Source, stream: int, arrival: int) -> None:
        """Numbers of a stream are missing: looked at once per ``pull_back_ns``, as each look takes
        the time of all that is open.
        """
        due = arrival + self._after_ns
        if not source.open or source.gap_seen + self._after_ns > arrival:
            return
        source.gap_seen = arrival
        for key, interval in source.open.items():
            if key[0] == stream:
                interval.waits = 0
                self._hurry(source, key, interval, due)

    def back(self, source: Source, arrival: int) -> None:
        """The source says HELLO: what is open may be on its way now."""
        for key, interval in source.open.items():
            interval.due = arrival + self._after_ns
            self._push(source, key, interval)

    def ended(self, source: Source, arrival: int) -> None:
        """The source is done, and goes when this is acked."""
        for key, interval in source.open.items():
            self._hurry(source, key, interval, arrival)

    def answered(self, source: Source, lacking: m.Lacking) -> None:
        """What an agent cannot send."""
        for key in lacking.unended:
            if (interval := source.open.get(key)) is not None:
                interval.asked = False  # it will come by itself
        known = [key for key in lacking.gone if source.open.pop(key, None) is not None]
        self._open -= len(known)
        for reason, intervals in (("gone", known), ("unended", lacking.unended)):
            if intervals:
                self._counts[*source.key, f"pull_back_{reason}"] += len(intervals)

    def forgot(self, source: Source) -> None:
        """``source`` says nothing any more."""
        self._open -= len(source.open)
        source.open = {}

    def requests(self, arrival: int) -> Iterator[tuple[Source, m.IntervalsRequest]]:
        """What is due by ``arrival``. Who is not connected is asked when it is back."""
        asked: dict[Source, list[tuple[int, int]]] = {}
        self.moved = True
        while self._heap and self._heap[0][0] <= arrival:
            due, _, source, key, interval = heapq.heappop(self._heap)
            if source.open.get(key) is not interval or due != interval.due:
                continue
            if not source.connections:
                if source.ended:
                    self.forgot(source)
                continue
            interval.asked, interval.waits = True, min(interval.waits + 1, _DOUBLED_MAX)
            interval.due = arrival + (self._after_ns << interval.waits)
            self._push(source, key, interval)
            asked.setdefault(source, []).append(key)
        for source, keys in asked.items():
            self._counts[*source.key, "pull_back_asked"] += len(keys)
            for low in range(0, len(keys), m.WANTED_MAX):
                yield source, m.IntervalsRequest(tuple(keys[low : low + m.WANTED_MAX]))

    # --- inside

    def _hurry(
        self, source: Source, key: tuple[int, int], interval: OpenInterval, due: int
    ) -> None:
        if due < interval.due:
            interval.due = due
            self._push(source, key, interval)

    def _push(self, source: Source, key: tuple[int, int], interval: OpenInterval) -> None:
        self.moved = True
        heapq.heappush(self._heap, (interval.due, next(self._order), source, key, interval))
        if len(self._heap) > 2 * self._open + _STALE_MAX:  # most are of intervals that came
            live = [e for e in self._heap if e[2].open.get(e[3]) is e[4] and e[0] == e[4].due]
            self._heap = live
            heapq.heapify(self._heap)
