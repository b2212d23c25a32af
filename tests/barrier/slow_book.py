"""What promises cover, with dictionaries: every type again after each record (SPEC 4.2)."""

from __future__ import annotations

from dataclasses import dataclass, field

NOTHING_YET, EVERYTHING = -(2**63), 2**63 - 1
"""What is covered before any promise and once a source has ended: the ends of int64 (SPEC 1)."""


@dataclass
class SlowBook:
    """One happening after the other."""

    types: frozenset[str]
    said: dict[tuple[str | None, str | None], int] = field(default_factory=dict)
    sources: set[str] = field(default_factory=set)
    senders: dict[str, set[str]] = field(default_factory=dict)
    ended: set[str | None] = field(default_factory=set)
    covered: dict[str, int] = field(default_factory=dict)
    moves: dict[str, list[tuple[int, int, int]]] = field(default_factory=dict)
    """Per type (value, at, moment)."""

    def __post_init__(self) -> None:
        for kind in self.types:
            self.senders[kind], self.moves[kind], self.covered[kind] = set(), [], NOTHING_YET

    def seen(self, kind: str | None, source: str) -> None:
        self.sources.add(source)
        if kind in self.senders:
            self.senders[kind].add(source)

    def event(self, kind: str | None, source: str, at: int, moment: int) -> None:
        self.seen(kind, source)
        self.ended.discard(source)
        self.look(at, moment)

    def promise(self, kind: str | None, source: str | None, ref: int, at: int, moment: int) -> None:
        if source is not None:
            self.seen(kind, source)
        if kind is None and ref == EVERYTHING:
            self.ended.add(source)
        else:
            self.said[kind, source] = max(self.said.get((kind, source), NOTHING_YET), ref)
        self.look(at, moment)

    def look(self, at: int, moment: int) -> None:
        for of in self.types:
            if self.coverage(of) > self.covered[of]:
                self.covered[of] = self.coverage(of)
                self.moves[of].append((self.covered[of], at, moment))

    def coverage(self, kind: str) -> int:
        def promised(source: str | None) -> int:
            if source in self.ended:
                return EVERYTHING
            said = (self.said.get((of, source), NOTHING_YET) for of in (kind, None))
            return max(said)

        sources = self.senders[kind] or self.sources
        return max(promised(None), min(map(promised, sources), default=NOTHING_YET))
