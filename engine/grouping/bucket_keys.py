"""Which bucket an item goes to: the bucket of its key, or of what a hash makes of the key."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

Key = str | tuple[str, ...] | Callable[[Any], Any]
"""Fields of a structured payload, or a function: of the whole structured array to an array (a value
or a row of values per item), or of one Python object to anything that can be a key of a dict."""
Hash = Callable[[Any], Any]
"""Of a key, or of an array of keys, as ``Key``; items whose keys have the same hash share a bucket.
"""


class BucketKeys:
    """Makes the keys of one grouping's items.

    Args:
        key: of an item; None: all items have the same.
        hashed: of its key; None: the key itself.
    """

    def __init__(self, key: Key | None, hashed: Hash | None) -> None:
        self._key, self._hash = key, hashed
        self._codes: dict[Hashable, int] = {}
        self._next = 0

    def of(self, payload: np.ndarray) -> np.ndarray:
        """(n, columns) int64, equal where the keys are."""
        if self._key is None:
            return np.zeros((len(payload), 1), np.int64)
        if payload.dtype == object:
            return self._coded(payload)
        if callable(self._key):
            found = [np.asarray(self._key(payload))]
        else:
            names = (self._key,) if isinstance(self._key, str) else self._key
            found = [payload[name] for name in names]
        if self._hash is not None:
            found = [np.asarray(self._hash(found[0] if len(found) == 1 else tuple(found)))]
        columns = [each if each.ndim == 2 else each[:, None] for each in found]
        return np.ascontiguousarray(np.concatenate([_as_int64(each) for each in columns], axis=1))

    def _coded(self, payload: np.ndarray) -> np.ndarray:
        found = np.empty((len(payload), 1), np.int64)
        key = self._key
        assert callable(key)
        for place, each in enumerate(payload):
            value = key(each)
            value = value if self._hash is None else self._hash(value)
            code = self._codes.get(value)
            if code is None:
                code = self._codes[value] = self._next
                self._next += 1
            found[place, 0] = code
        return found

    def forget(self, used: np.ndarray) -> None:
        """Keys whose codes are not ``used`` any more."""
        if self._codes:
            left = set(used.reshape(-1).tolist())
            self._codes = {key: code for key, code in self._codes.items() if code in left}

    def snapshot(self) -> dict[str, Any]:
        """Plain data."""
        return {"codes": dict(self._codes), "next": self._next}

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over a snapshot."""
        self._codes, self._next = dict(state["codes"]), state["next"]


def _as_int64(values: np.ndarray) -> np.ndarray:
    """Equal where ``values`` are (0.0 and -0.0 are)."""
    if values.dtype.kind == "f":
        return (values.astype(np.float64) + 0.0).view(np.int64)
    return values.astype(np.int64)
