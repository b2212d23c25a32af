"""Records that were read together: their fields as columns, and each record by itself."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Protocol

from edge_agent.records import ATTRS
from edge_agent.rows import BadRecord

_scan: Final[Callable[[str, int], tuple[Any, int]]] = vars(json.JSONDecoder())["scan_once"]
"""``json.loads`` without what it does around each text."""


class Batch(Protocol):
    """Some records of one input."""

    def __len__(self) -> int: ...

    def field(self, name: str) -> Sequence[Any]:
        """Of each record what it has of that name; None: nothing."""

    def attribute(self, name: str) -> Sequence[Any]:
        """The same of what is looked for in ``attrs`` first, where a record has them."""

    @property
    def regular(self) -> bool:
        """Whether all are records, so that columns can be asked for."""

    def record(self, place: int) -> Mapping[str, Any]:
        """One of them; raises BadRecord: it is none."""

    def sorts(self, name: str) -> Sequence[str | None]:
        """Of each record the text that it has of that name, or none (""); None: no record."""

    def part(self, places: Sequence[int]) -> Batch:
        """Some of them."""


class JsonBatch:
    """Lines of JSON."""

    def __init__(
        self, lines: Sequence[str | bytes], records: Sequence[dict[str, Any] | None] | None = None
    ) -> None:
        """``lines``: bytes where they are not UTF-8 as a whole; ``records``: what they say."""
        self._lines = lines
        found: Sequence[Any] = list(map(_object, lines)) if records is None else records
        self._records = found
        self._inner = found
        self._has_inner = False
        self.regular = None not in self._records
        if self.regular:
            self._inner = [record.get(ATTRS, record) for record in self._records]
            self._has_inner = any(map(_is_not, self._inner, self._records))
            self.regular = not self._has_inner or set(map(type, self._inner)) == {dict}

    def __len__(self) -> int:
        return len(self._lines)

    def field(self, name: str) -> Sequence[Any]:
        return [record.get(name) for record in self._records]

    def attribute(self, name: str) -> Sequence[Any]:
        found = [inner.get(name) for inner in self._inner]
        if self._has_inner and None in found:
            both = zip(self._inner, self._records, strict=True)
            return [inner.get(name, record.get(name)) for inner, record in both]
        return found

    def record(self, place: int) -> Mapping[str, Any]:
        found: Mapping[str, Any] | None = self._records[place]
        if found is None:
            raise BadRecord(_fault(self._lines[place]))
        return found

    def sorts(self, name: str) -> Sequence[str | None]:
        return [None if each is None else _text(each.get(name)) for each in self._records]

    def part(self, places: Sequence[int]) -> JsonBatch:
        return JsonBatch(
            [self._lines[place] for place in places], [self._records[place] for place in places]
        )


class TableBatch:
    """Rows of a table, all of the same columns; ``record_of`` gives those that are not."""

    def __init__(
        self, columns: Mapping[str, Sequence[Any]] | None, rows: int,
        record_of: Callable[[int], Mapping[str, Any]],
    ) -> None:  # fmt: skip
        """``columns`` None: not all rows have the same."""
        self._known = columns
        self._columns = columns or {}
        self._rows = rows
        self.record = record_of
        self._none = (None,) * rows
        self.regular = columns is not None and ATTRS not in columns

    def __len__(self) -> int:
        return self._rows

    def field(self, name: str) -> Sequence[Any]:
        return self._columns.get(name, self._none)

    attribute = field

    def sorts(self, name: str) -> Sequence[str | None]:
        return [_text(value) for value in self.field(name)]

    def part(self, places: Sequence[int]) -> TableBatch:
        some = self._known and {
            name: [column[place] for place in places] for name, column in self._known.items()
        }
        return TableBatch(some, len(places), lambda place: self.record(places[place]))


def _text(value: Any) -> str:
    return value if type(value) is str else ""


def _is_not(one: object, other: object) -> bool:
    return one is not other


def _object(line: str | bytes) -> Any:
    """The record; None: it is none."""
    if isinstance(line, str):
        try:
            found, end = _scan(line, 0)
        except (StopIteration, ValueError, RecursionError):
            end = -1
        if end == len(line) or (end > 0 and line[end:].isspace()):
            return found if type(found) is dict else None
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if type(found) is dict else None


def _fault(line: str | bytes) -> str:
    try:
        json.loads(line)
    except (ValueError, RecursionError) as error:
        return f"not JSON: {error}"
    return "not an object of JSON"
