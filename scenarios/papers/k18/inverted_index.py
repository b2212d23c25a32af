"""K18's application (VI.A, Fig 8): an inverted index, and the changelog of its posting lists.

A map turns a document into pairs of a word and its positions. For each word, a grouping and a map
in a cycle keep the posting list and emit what they append to it. The place of an entry in the list
depends on all documents before it, so a late document alters every later change of its words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, Final, NamedTuple

from slackwater.grouping import Combine, Dataflow, Map, PythonCombine, Stateful
from slackwater.scenarios.papers.k18.texts import Document

DISTINCT_MOST: Final = 1 << 12
"""Most different words that a document may have."""


class Posting(NamedTuple):
    """The positions of a word in a document."""

    word: str
    document: int
    positions: tuple[int, ...]


class Change(NamedTuple):
    """``posting`` is appended at ``place`` of its word's list, which held ``before`` positions."""

    posting: Posting
    place: int
    before: int


def postings(numbered_document: tuple[int, Document]) -> list[Posting]:
    """The first map: a numbered document to its words, in order of their first positions."""
    number, words = numbered_document
    places: dict[str, list[int]] = {}
    for place, word in enumerate(words):
        places.setdefault(word, []).append(place)
    return [Posting(word, number, tuple(found)) for word, found in places.items()]


State = tuple[int, int, Posting, "State | None"]
"""(postings, positions in them, the newest one, the state before it): a list that never changes."""


def update(state: State | None, posting: Posting) -> tuple[State, list[Change]]:
    """The map of the cycle: the posting list with one more, and the change that this is."""
    size, before = (0, 0) if state is None else state[:2]
    new = (size + 1, before + len(posting.positions), posting, state)
    return new, [Change(posting, size, before)]


CYCLE: Final = Stateful(PythonCombine(update), key=lambda posting: posting.word)
INDEX: Final = Dataflow((Map(postings, most=DISTINCT_MOST), CYCLE))
"""Index of numbered documents."""


def per_document(changes: Iterable[Change]) -> Iterator[tuple[int, list[Change]]]:
    """One update per document, of changes in order, as searching needs it (K18 III.A)."""
    for number, group in groupby(changes, lambda change: change.posting.document):
        yield number, list(group)


def index_of(changes: Iterable[Change]) -> dict[str, list[Posting]]:
    """The index that a changelog leads to.

    Raises:
        ValueError: a change does not fit what was there before it.
    """
    index: dict[str, list[Posting]] = {}
    for change in changes:
        listed = index.setdefault(change.posting.word, [])
        if (len(listed), sum(len(each.positions) for each in listed)) != change[1:]:
            raise ValueError(f"{change} does not fit a list of {len(listed)}")
        listed.append(change.posting)
    return index


def _numbers(before: Any, item: Any, after: Any, change: Any) -> bool:
    after.size = before.size + 1
    after.positions = before.positions + item.positions
    change.word = item.word
    change.document = item.document
    change.place = before.size
    change.before = before.positions
    return True


NUMBERED: Final = Dataflow(
    (
        Stateful(
            Combine(
                _numbers, {"size": int, "positions": int},
                {"word": int, "document": int, "place": int, "before": int},
            ),
            key="word",
        ),
    ),
    {"word": int, "document": int, "positions": int},
)  # fmt: skip
"""The same, compiled, for words that are numbers; keeps each list's length, not its postings."""
