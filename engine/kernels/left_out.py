"""What a library looks for, uses if it is there, and we have no use for: not loaded."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


class _Absent:
    """Finds modules; says of one that there is none."""

    def __init__(self, name: str) -> None:
        self._name = name

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> None:
        if name == self._name:
            raise ModuleNotFoundError("not looked for", name=name)


@contextmanager
def left_out(name: str) -> Iterator[None]:
    """Within, whoever asks for the package ``name`` finds none, unless it is loaded already."""
    absent = _Absent(name)
    sys.meta_path.insert(0, absent)
    try:
        yield
    finally:
        sys.meta_path.remove(absent)
