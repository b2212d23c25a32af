"""The readers as sources: each reports the books that its antennas see."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

import numpy as np

from slackwater.scenarios.bookstore.reads import GAP_NS, presences_of
from slackwater.scenarios.bookstore.shop import Shop, ShopBook, Visit
from slackwater.simulation import Batch, Seeds, Span, StreamSchema

STREAM: Final = "reads"


class Zone(Enum):
    """Zones of readers; the value is the type of their events."""

    SHELF = "SHELF"
    COUNTER = "COUNTER"
    EXIT = "EXIT"

    @property
    def tells_leaving(self) -> bool:
        """Whether its readers report when a tag leaves, not when it appears."""
        return self is Zone.SHELF


@dataclass(frozen=True, slots=True)
class ShopReader:
    """Events of one reader: attributes ``tag`` and ``antenna``.

    Attributes:
        zone: where it is.
        place: its number in the zone.
        missed: chance that an antenna never sees a tag that visits.
        shop: readers and time.
        books: everything that moves.
    """

    zone: Zone
    place: int
    missed: float
    shop: Shop
    books: tuple[ShopBook, ...] = field(repr=False)

    @property
    def name(self) -> str:
        """Of the source."""
        return f"{self.zone.value.lower()}-{self.place + 1}"

    @property
    def known_after_ns(self) -> int:
        """How long after its time an event is known, in the run's time."""
        return GAP_NS // self.shop.compression if self.zone.tells_leaving else 0

    def streams(self) -> Sequence[StreamSchema]:
        return (StreamSchema(STREAM, {"tag": "int", "antenna": "int"}),)

    def batches(self, span: Span, seeds: Seeds, source: str) -> Iterator[Batch]:
        generator = seeds.generator(f"workload/{source}")
        times, tags, antennas = [], [], []
        for book in self.books:
            visit = self._visit(book)
            if visit is None or visit.place != self.place:
                continue
            seen = presences_of(visit, self.missed, generator)
            times.append(seen.last_ns if self.zone.tells_leaving else seen.first_ns)
            tags.append(np.full(seen.antenna.size, book.tag, np.int64))
            antennas.append(seen.antenna)
        if not sum(each.size for each in times):
            return
        true_ns = self.shop.true_ns(np.concatenate(times))
        tag, antenna = np.concatenate(tags), np.concatenate(antennas)
        order = np.lexsort((antenna, tag, true_ns))
        order = order[true_ns[order] < span.start_ns + span.length_ns]
        attrs = {"tag": tag[order], "antenna": antenna[order]}
        yield Batch(
            STREAM,
            true_ns[order],
            self.zone.value,
            attrs,
            truth=dict(attrs),
            known_ns=true_ns[order] + self.known_after_ns,
        )

    def _visit(self, book: ShopBook) -> Visit | None:
        return {Zone.SHELF: book.shelf, Zone.COUNTER: book.counter, Zone.EXIT: book.exit}[self.zone]
