"""The shop and its day: the way of every book, drawn from the seed.

Times of this file are shop time [ns after opening]; ``Shop.true_ns`` turns them into the run's
time, which is ``compression`` times shorter: five hours of a shop fit into less than a minute.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

import numpy as np

from slackwater.scenario import NS_PER

SECOND: Final = NS_PER["s"]
MINUTE: Final = NS_PER["min"]
HOUR: Final = NS_PER["h"]
WITHIN_NS: Final = 5 * HOUR
"""Of the query; in shop time."""
LAST_ENTRY_NS: Final = 90 * MINUTE
"""Nobody comes in during this time before closing, so that everyone is out by then."""
_BROWSE_NS: Final = (MINUTE, 40 * MINUTE)
"""From the door to the moment a book is taken."""
_CARRY_NS: Final = (MINUTE, 15 * MINUTE)
"""From the last book to counter, exit, or back to its shelf."""
_LEAVE_NS: Final = (20 * SECOND, 4 * MINUTE)
"""From counter to exit."""
AT_COUNTER_NS: Final = (8 * SECOND, 25 * SECOND)
AT_EXIT_NS: Final = (2 * SECOND, 6 * SECOND)
_BETWEEN_BOOKS_NS: Final = (3 * SECOND, 8 * SECOND)
"""Books of one shopper pass the counter one after the other."""
BOOKS_MAX: Final = 3
_PUT_BACK: Final = 0.2


class Fate(Enum):
    """Fate of a book that a shopper takes."""

    BOUGHT = "bought"
    STOLEN = "stolen"
    PUT_BACK = "put back"


@dataclass(frozen=True, slots=True)
class Visit:
    """A book in the field of reader ``place`` of a zone, [start, end] in shop time."""

    place: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class ShopBook:
    """One book, with its tag, that a shopper takes from its shelf.

    Attributes:
        tag: its number, unique.
        shopper: who took it.
        fate: bought, stolen or put back.
        shelf: on its shelf until it is taken.
        counter: at the counter, if it was bought.
        exit: at the exit, unless it was put back.
    """

    tag: int
    shopper: int
    fate: Fate
    shelf: Visit
    counter: Visit | None
    exit: Visit | None


@dataclass(frozen=True, slots=True)
class Shop:
    """Readers, opening time, and how shop time maps to the run's.

    Attributes:
        start_ns: true time at which the shop opens.
        opening_ns: how long it is open, in shop time.
        compression: seconds of the shop in one second of the run.
        shelves: readers, one for each shelf; likewise ``counters`` and ``exits``.
    """

    start_ns: int
    opening_ns: int
    compression: int
    shelves: int = 6
    counters: int = 3
    exits: int = 2

    @property
    def length_ns(self) -> int:
        """Of the run."""
        return self.opening_ns // self.compression

    def true_ns(self, shop_ns: np.ndarray) -> np.ndarray:
        """Instants of shop time in true time."""
        return self.start_ns + shop_ns // self.compression

    def true_instant_ns(self, shop_ns: int) -> int:
        """``true_ns`` of one instant."""
        return self.start_ns + shop_ns // self.compression


def plan_books(
    shop: Shop, shoppers: int, thefts: int, generator: np.random.Generator
) -> tuple[ShopBook, ...]:
    """Every book that is taken, by shopper; ``thefts`` of the ``shoppers`` steal one book each."""
    thieves = set(generator.choice(shoppers, thefts, replace=False).tolist())
    books: list[ShopBook] = []
    for shopper in range(shoppers):
        books += _books_of(shop, shopper, len(books), shopper in thieves, generator)
    return tuple(books)


def _books_of(
    shop: Shop, shopper: int, first_tag: int, steals: bool, generator: np.random.Generator
) -> list[ShopBook]:
    enters_ns = int(generator.integers(shop.opening_ns - LAST_ENTRY_NS))
    count = int(generator.integers(1, BOOKS_MAX + 1))
    fates = [Fate.PUT_BACK if generator.random() < _PUT_BACK else Fate.BOUGHT for _ in range(count)]
    if steals:
        fates[0] = Fate.STOLEN
    taken = sorted(enters_ns + _drawn(_BROWSE_NS, generator) for _ in range(count))
    till_ns = taken[-1] + _drawn(_CARRY_NS, generator)
    counter, exit_ = (int(generator.integers(n)) for n in (shop.counters, shop.exits))
    out_ns = till_ns + _drawn(_LEAVE_NS, generator) + AT_COUNTER_NS[1] * count
    books = []
    for number, (fate, taken_ns) in enumerate(zip(fates, taken, strict=True)):
        shelf = int(generator.integers(shop.shelves))
        at_till = _visit(counter, till_ns, AT_COUNTER_NS, generator)
        at_exit = _visit(exit_, out_ns, AT_EXIT_NS, generator)
        till_ns += _drawn(_BETWEEN_BOOKS_NS, generator)
        books.append(
            ShopBook(
                tag=first_tag + number,
                shopper=shopper,
                fate=fate,
                shelf=Visit(shelf, 0, taken_ns),
                counter=at_till if fate is Fate.BOUGHT else None,
                exit=None if fate is Fate.PUT_BACK else at_exit,
            )
        )
    return books


def _visit(
    place: int, start_ns: int, stays_ns: tuple[int, int], generator: np.random.Generator
) -> Visit:
    return Visit(place, start_ns, start_ns + _drawn(stays_ns, generator))


def _drawn(range_ns: tuple[int, int], generator: np.random.Generator) -> int:
    return int(generator.integers(range_ns[0], range_ns[1] + 1))
