"""What becomes of a tuple: maps, compiled or in plain Python, and what they remember (K18 V.C).

A map is a function without memory. In the cycle its tuple is (state, item), and what it gives is
the new state and what goes on.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, NamedTuple, Protocol

import numpy as np

from slackwater.engine.core.errors import UserError
from slackwater.engine.kernels.records import longer
from slackwater.engine.operators.grouping.buckets import NOBODY, TupleChanges

MOST: Final = 1 << 12
"""Items that a plain Python map may make of one tuple."""
Fields = Mapping[str, Any]
"""Names of a record's fields with their types, as ``{"n": int, "mean": float}``."""


class EmittedItems(NamedTuple):
    """What goes on: of which change each item is (None: one of each), its place among those of
    one tuple, and payloads.
    """

    change: np.ndarray | None
    child: np.ndarray | int
    payload: np.ndarray


class Remembered(Protocol):
    """By entry of the buckets: its item, what its tuple became, and the state behind it."""

    most: int
    """Items made of one tuple."""
    output: np.dtype[Any]
    """Of what goes on."""

    def grow(self, room: int) -> None:
        """Room for so many entries."""

    def put(self, first: int, payload: np.ndarray) -> None:
        """Items of the entries from ``first`` on."""

    def run(self, changes: TupleChanges) -> EmittedItems:
        """Map the tuples made; those taken back give again what they gave."""

    def keep(self, kept: np.ndarray) -> None:
        """Only ``kept`` entries are left, in this order."""

    def snapshot(self, entries: int) -> dict[str, Any]:
        """Plain data of the first ``entries``."""

    def restore(self, state: dict[str, Any]) -> None:
        """Takes over a snapshot."""


@dataclass(frozen=True, eq=False)
class Combine:
    """The map of the cycle, compiled: ``function(before, item, after, output) -> bool``.

    Records: it reads ``before``, the state so far (0 in all fields at first), and ``item``; it
    fills ``after``, the new state, all of it, and ``output``; true: the output goes on.
    """

    function: Callable[..., Any]
    state: Fields
    output: Fields

    def remembered(self, item: np.dtype[Any]) -> Remembered:
        """Nothing yet; ``item``: of what dtype items are."""
        return _Records(self.function, item, dtype_of(self.output), dtype_of(self.state), 2)


@dataclass(frozen=True, eq=False)
class TupleMap:
    """A map of tuples, compiled: ``function(group, output) -> bool``.

    ``group`` is an array of records, the tuple's items in order; it fills the record ``output``;
    true: the output goes on.
    """

    function: Callable[..., Any]
    output: Fields

    def remembered(self, item: np.dtype[Any], window: int) -> Remembered:
        """Nothing yet; ``item``: of what dtype items are."""
        return _Records(self.function, item, dtype_of(self.output), None, window)


@dataclass(frozen=True, eq=False)
class PythonCombine:
    """The map of the cycle in plain Python: ``function(state, item) -> (state, outputs)``.

    ``state`` is None at first; ``outputs`` is a sequence. It must not change what it is given.
    """

    function: Callable[[Any, Any], tuple[Any, Any]]

    def remembered(self) -> Remembered:
        """Nothing yet."""
        return _Objects(self.function, cyclic=True)


@dataclass(frozen=True, eq=False)
class PythonTupleMap:
    """A map of tuples in plain Python: ``function(items) -> outputs``, of a tuple a sequence."""

    function: Callable[[tuple[Any, ...]], Any]

    def remembered(self) -> Remembered:
        """Nothing yet."""
        return _Objects(self.function, cyclic=False)


def dtype_of(fields: Fields) -> np.dtype[np.void]:
    """The records with these fields.

    Raises:
        UserError: a type that no compiled record has.
    """
    types = {int: np.int64, float: np.float64, bool: np.bool_}
    found = [(name, np.dtype(types.get(kind, kind))) for name, kind in fields.items()]
    for name, kind in found:
        if kind.base.kind not in "iufb":
            raise UserError(
                f"field {name!r} of a compiled map is {kind}: it holds int, float, bool or arrays "
                "of them; other values need a map in plain Python"
            )
    return np.dtype(found, align=True)


class _Records:
    """Of compiled maps. ``state`` None: of tuples, else of the cycle."""

    most = 1

    def __init__(
        self, function: Callable[..., Any], item: np.dtype[Any], output: np.dtype[Any],
        state: np.dtype[Any] | None, window: int,
    ) -> None:  # fmt: skip
        self._cyclic = state is not None
        self._run = _loop(function, cyclic=self._cyclic)
        self._group = np.zeros(window, item)
        self._items, self._outputs = np.zeros(1, item), np.zeros(1, output)
        self._states = np.zeros(1, state or np.int64)
        self._gave = np.zeros(1, np.bool_)
        self.output = output

    def _arrays(self) -> list[np.ndarray]:
        return [self._items, self._outputs, self._states, self._gave]

    def _take_over(self, arrays: list[np.ndarray]) -> None:
        self._items, self._outputs, self._states, self._gave = arrays

    def grow(self, room: int) -> None:
        self._take_over([longer(each, room) for each in self._arrays()])

    def put(self, first: int, payload: np.ndarray) -> None:
        # A loop field by field is what NumPy makes of records, and slow.
        into = self._items[first : first + len(payload)]
        into.view(np.uint8)[:] = np.ascontiguousarray(payload).view(np.uint8)

    def run(self, changes: TupleChanges) -> EmittedItems:
        n = len(changes.row)
        payload, emits = np.empty(n, self._outputs.dtype), np.empty(n, np.bool_)
        memory = self._states if self._cyclic else self._group
        self._run(changes, self._items, memory, self._outputs, self._gave, payload, emits)
        if emits.all():
            return EmittedItems(None, 0, payload)
        return EmittedItems(np.flatnonzero(emits), 0, payload[emits])

    def keep(self, kept: np.ndarray) -> None:
        self._take_over([each[kept] for each in self._arrays()])

    def snapshot(self, entries: int) -> dict[str, Any]:
        return {"arrays": [each[:entries].copy() for each in self._arrays()]}

    def restore(self, state: dict[str, Any]) -> None:
        self._take_over(list(state["arrays"]))


@lru_cache(maxsize=64)
def _loop(function: Callable[..., Any], *, cyclic: bool) -> Callable[..., Any]:
    """The loop over changes with ``function`` in it, compiled."""
    loop = _cycle if cyclic else _tuples
    if os.environ.get("SLACKWATER_UNCOMPILED") == "1":
        from slackwater.engine.kernels.uncompiled import uncompiled  # noqa: PLC0415 - needs NumPy

        return uncompiled(loop(getattr(function, "py_func", function)))
    import numba  # noqa: PLC0415 - takes 0.2 s, which plain Python maps can do without

    compiled = function if hasattr(function, "py_func") else numba.njit(function)
    made: Callable[..., Any] = numba.njit(error_model="numpy")(loop(compiled))
    return made


def _cycle(combine: Callable[..., Any]) -> Callable[..., Any]:
    def run(
        changes: TupleChanges, items: np.ndarray, states: np.ndarray, outputs: np.ndarray,
        gave: np.ndarray, payload: np.ndarray, emits: np.ndarray,
    ) -> None:  # fmt: skip
        for i in range(len(changes.row)):
            entry = changes.entry[i]
            if not changes.tombstone[i]:
                before = states[changes.members[i, 0]]
                gave[entry] = combine(before, items[entry], states[entry], outputs[entry])
            payload[i] = outputs[entry]
            emits[i] = gave[entry]

    return run


def _tuples(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(
        changes: TupleChanges, items: np.ndarray, group: np.ndarray, outputs: np.ndarray,
        gave: np.ndarray, payload: np.ndarray, emits: np.ndarray,
    ) -> None:  # fmt: skip
        for i in range(len(changes.row)):
            entry = changes.entry[i]
            if not changes.tombstone[i]:
                size = 0
                for place in range(changes.members.shape[1]):
                    member = changes.members[i, place]
                    if member != NOBODY:
                        group[size] = items[member]
                        size += 1
                gave[entry] = function(group[:size], outputs[entry])
            payload[i] = outputs[entry]
            emits[i] = gave[entry]

    return run


class _Objects:
    """Of maps in plain Python: a Python loop, and that is what makes them slower."""

    most = MOST
    output: np.dtype[Any] = np.dtype(object)

    def __init__(self, function: Callable[..., Any], *, cyclic: bool) -> None:
        self._function, self._cyclic = function, cyclic
        self._items, self._outputs, self._states = ([None] for _ in range(3))

    def _lists(self) -> tuple[list[Any], ...]:
        return self._items, self._outputs, self._states

    def grow(self, room: int) -> None:
        for each in self._lists():
            each.extend([None] * (room - len(each)))

    def put(self, first: int, payload: np.ndarray) -> None:
        self._items[first : first + len(payload)] = payload.tolist()

    def run(self, changes: TupleChanges) -> EmittedItems:
        items, outputs, states = self._lists()
        change: list[int] = []
        child: list[int] = []
        made: list[Any] = []
        members = changes.members.tolist()
        for i, (entry, is_tombstone) in enumerate(
            zip(changes.entry.tolist(), changes.tombstone.tolist(), strict=True)
        ):
            if not is_tombstone and self._cyclic:
                states[entry], outputs[entry] = self._function(states[members[i][0]], items[entry])
            elif not is_tombstone:
                outputs[entry] = self._function(tuple(items[m] for m in members[i] if m != NOBODY))
            found = outputs[entry]
            if len(found) > MOST:
                raise UserError(f"a map made {len(found)} items of one tuple; at most {MOST}")
            change += [i] * len(found)
            child += range(len(found))
            made += found
        payload = np.fromiter(made, object, len(made))
        return EmittedItems(np.array(change, np.int64), np.array(child, np.int64), payload)

    def keep(self, kept: np.ndarray) -> None:
        places = kept.tolist()
        self._items, self._outputs, self._states = (
            [each[place] for place in places] for each in self._lists()
        )

    def snapshot(self, entries: int) -> dict[str, Any]:
        return {"lists": [each[:entries] for each in self._lists()]}

    def restore(self, state: dict[str, Any]) -> None:
        self._items, self._outputs, self._states = (list(each) for each in state["lists"])
