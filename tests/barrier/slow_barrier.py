"""``punctuation`` and ``adaptive``, record by record: what is held in a list (SPEC 4.2; L09 XI)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lifetimes import Life, Record
from slow_book import EVERYTHING, SlowBook

ABOVE, BELOW, FATES = 100_000, 50_000, 64
"""Shares of spoilt matches [ppm] above which it waits and below which it does not; smoothing."""


@dataclass
class SlowBarrier:
    """``adapts``: whether matches leave at once while few are spoilt."""

    lives: Sequence[Life]
    book: SlowBook
    adapts: bool
    waits: bool = False
    rate_ppm: int = 0
    held: list[Life] = field(default_factory=list)
    given: list[tuple[str, tuple[int, ...], int]] = field(default_factory=list)
    switched: int = 0

    def run(self, records: Sequence[Record]) -> None:
        self.waits = not self.adapts
        row = -1
        for record in records:
            if record.event is None:
                ends = record.kind == "eos"
                promised = EVERYTHING if ends else record.promised
                self.book.promise(record.type, record.source, promised, record.arrival, 0)
            else:
                row += 1
                self.book.event(record.event.type, record.source, record.arrival, 0)
                self.event(row, record.arrival)
            for life in [life for life in self.held if self.closed(life)]:
                self.held.remove(life)
                self.let_go(life, record.arrival)
        self.given += [("+", life.rows, records[-1].arrival) for life in self.held]

    def event(self, row: int, at: int) -> None:
        for life in self.lives:
            if life.ever and life.killed == row:
                self.fate(spoilt=True)
                if life in self.held:
                    self.held.remove(life)
                else:
                    self.given.append(("-", life.rows, at))
            elif life.known == row and life.ever:
                if self.waits:
                    self.held.append(life)
                else:
                    self.let_go(life, at)

    def closed(self, life: Life) -> bool:
        return all(self.book.covered[kind] >= end + at_end for kind, end, at_end in life.closes)

    def let_go(self, life: Life, at: int) -> None:
        self.given.append(("+", life.rows, at))
        self.fate(spoilt=False)

    def fate(self, *, spoilt: bool) -> None:
        if not self.adapts:
            return
        self.rate_ppm += ((1_000_000 if spoilt else 0) - self.rate_ppm) // FATES
        before = self.waits
        if self.rate_ppm > ABOVE:
            self.waits = True
        elif self.rate_ppm < BELOW:
            self.waits = False
        self.switched += before != self.waits
