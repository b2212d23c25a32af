"""Converts group-by columns to int64 codes, and codes back to values of results."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import ATTR_PREFIX
from slackwater.engine.core.released import Released, Strings
from slackwater.engine.output.schema import decoded
from slackwater.engine.query.expression import View, column
from slackwater.engine.query.plan import Attribute
from slackwater.engine.query.values import Value

_BOOL: Final = "bool"


class GroupKeys:
    """Encodes the keys of one query's rows; stores the type of each group-by column."""

    def __init__(self, attributes: tuple[Attribute, ...], query: str) -> None:
        self.attributes = attributes
        self.query = query
        self.types: list[str | None] = [None] * len(attributes)
        self.strings = Strings()
        self.texts: dict[int, str | None] = {}

    def codes(self, released: Released) -> tuple[np.ndarray, np.ndarray]:
        """Return (keys, nulls): int64 (n, columns), and int64 (n,) with bit j where j is null.

        ``nulls`` is empty if no value is null. NaN counts as null.

        Raises:
            UserError: a column changes its type.
        """
        self.strings = released.strings
        view = View.of(released.columns, released.attr_types, released.strings)
        keys = np.zeros((released.n, len(self.attributes)), np.int64)
        nulls = np.zeros(0, np.int64)
        for j, attribute in enumerate(self.attributes):
            found = column(attribute.name, view)
            known = found.valid
            if found.kind == "null":
                known = np.zeros(released.n, np.bool_)
            else:
                self._note_type(j, attribute, found, released.attr_types)
                data, known = _as_int64(found, known)
                keys[:, j] = data
            if known is not None and not known.all():
                keys[~known, j] = 0
                if not len(nulls):
                    nulls = np.zeros(released.n, np.int64)
                nulls |= (~known).astype(np.int64) << j
        return keys, nulls

    def _note_type(
        self, j: int, attribute: Attribute, found: Value, attr_types: dict[str, str]
    ) -> None:
        kind = found.kind
        if kind == "int" and attr_types.get(attribute.name.removeprefix(ATTR_PREFIX)) == _BOOL:
            kind = _BOOL
        before = self.types[j]
        if before is not None and before != kind:
            raise UserError(
                f"query {self.query!r}: GROUP BY {attribute.name} was {before} before and is "
                f"{kind} now; send one type, or group by another attribute"
            )
        self.types[j] = kind

    def columns(self, nulls: np.ndarray, keys: np.ndarray) -> dict[str, pa.Array]:
        """Return keys as result columns by attribute; ``nulls``: (n,), ``keys``: (n, columns)."""
        found = {}
        for j, (attribute, kind) in enumerate(zip(self.attributes, self.types, strict=True)):
            codes = np.ascontiguousarray(keys[:, j])
            absent = (nulls >> j & 1).astype(np.bool_)
            if kind == "str":
                column = decoded(codes, absent, self.text)
            elif kind is None:
                column = pa.nulls(len(codes))
            else:
                values = codes.view(np.float64) if kind == "float" else codes
                typed = values.astype(np.bool_) if kind == _BOOL else values
                column = pa.array(typed, mask=absent if absent.any() else None)
            found[attribute.name] = column
        return found

    def in_order(self, nulls: np.ndarray, keys: np.ndarray, window: np.ndarray) -> np.ndarray:
        """Return the stable order of ``nulls`` and ``keys`` (n, columns) by ``window``, then value.

        Nulls come first. The order does not depend on the assignment of codes.
        """
        by: list[np.ndarray] = [window]
        for j, kind in enumerate(self.types):
            values = keys[:, j]
            if kind == "str":
                codes, which = np.unique(values, return_inverse=True)
                known = [self._text_or_none(code) or "" for code in codes.tolist()]
                rank = np.empty(len(codes), np.int64)
                rank[sorted(range(len(codes)), key=known.__getitem__)] = np.arange(len(codes))
                values = rank[which.reshape(-1)]
            elif kind == "float":
                values = np.ascontiguousarray(values).view(np.float64)
            by += [(nulls >> j & 1) == 0, values]
        return np.lexsort(by[::-1])

    def _text_or_none(self, code: int) -> str | None:
        """Return the text of ``code``; None for the code of a null."""
        return self.text(code) if code < len(self.strings.texts) or code in self.texts else None

    def text(self, code: int) -> str | None:
        """Return the text of ``code``."""
        return self.strings.text(code) if code < len(self.strings.texts) else self.texts[code]

    def used(self, codes: np.ndarray) -> np.ndarray:
        """Return the codes of texts among the keys ``codes`` (cells, columns)."""
        texts = [codes[:, j] for j, kind in enumerate(self.types) if kind == "str"]
        return np.concatenate([*texts, np.empty(0, np.int64)])

    def snapshot(self, codes: np.ndarray, others: np.ndarray) -> dict[str, Any]:
        """State as plain data; ``codes``: (cells, columns), keys in use; ``others``: text codes."""
        texts = {code: self._text_or_none(code) for code in np.unique(others).tolist()}
        for j, kind in enumerate(self.types):
            if kind == "str":
                used = np.unique(codes[:, j]).tolist()
                texts.update((code, self._text_or_none(code)) for code in used)
        return {"types": list(self.types), "texts": texts}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a snapshot; its texts are used until the next batch brings the table."""
        self.types, self.texts = list(state["types"]), dict(state["texts"])


def _as_int64(found: Value, known: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
    """Return codes that are equal for equal values; 0.0 equals -0.0."""
    if found.kind != "float":
        return found.data, known
    numbers = ~np.isnan(found.data)
    return (found.data + 0.0).view(np.int64), numbers if known is None else known & numbers
