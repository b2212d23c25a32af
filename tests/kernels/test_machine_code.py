"""Kernels from the cache run without Numba, on arguments of the kinds they were compiled for."""

from __future__ import annotations

import os
import subprocess
import sys
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from engine.kernels.kinds import UnknownKindError, kinds_of, named

ROOT = Path(__file__).resolve().parents[2]
CODE = """
import sys
import numpy as np
from sorting import Pair, doubled, pair_of, refused
print(doubled(np.arange(3)).tolist(), doubled(np.arange(2.0)).tolist(), end=" ")
print(pair_of(3), end=" ")
try:
    refused(2)
except ValueError as error:
    print(error, end=" ")
print("numba" in sys.modules)
"""
MODULE = """
from typing import NamedTuple
import numpy as np
from engine.kernels.jit import kernel, njit

class Pair(NamedTuple):
    first: np.ndarray
    second: int

@kernel
def _times(factor, value):
    return factor * value

@njit
def doubled(values):
    out = np.empty_like(values)
    for at in range(len(values)):
        out[at] = _times(2, values[at])
    return out

@njit
def pair_of(size):
    return Pair(np.zeros(size, np.int64), size)

@kernel
def refused(size):
    if size > 1:
        raise ValueError("too large")
    return size
"""


class Two(NamedTuple):
    one: Any
    two: Any


class Others(NamedTuple):
    one: Any
    two: Any


RECORDS = np.zeros(4, [("a", np.int64), ("b", np.float64)])
FIXED = np.zeros(4)
FIXED.flags.writeable = False
VALUES = [
    1, -(2**63), 2**63 - 1, True, 1.5, None, np.int64(1), np.int32(1), np.uint8(1), np.bool_(True),
    np.float64(1), np.float32(1), np.arange(4), np.arange(8)[::2], np.arange(4.0), FIXED,
    np.zeros((2, 2)), np.zeros((2, 2), order="F"), np.zeros((4, 4))[::2, ::2], np.zeros((3, 0)),
    np.zeros(4, bool), np.zeros(4, np.int32), RECORDS, RECORDS[["b"]], RECORDS.copy(), RECORDS[0],
    np.zeros(4, [("b", np.int64), ("a", np.float64)]), (1, 2), (1, 2.0), (1, 2, 3), (), ((1,), 2),
    (np.arange(3), 1), (np.arange(3.0), 1), Two(1, 2), Two(1, 2.0), Others(1, 2),
    Two(np.arange(3), (1, 2)),
]  # fmt: skip


def test_kinds_differ_where_numbas_types_do() -> None:
    from numba import typeof  # noqa: PLC0415 - takes 0.2 s

    types, kinds = [typeof(value) for value in VALUES], [kinds_of((value,)) for value in VALUES]
    for i, j in combinations_with_replacement(range(len(VALUES)), 2):
        same = types[i] == types[j]
        assert (kinds[i] == kinds[j]) == same, (VALUES[i], VALUES[j])
        assert (named(kinds[i]) == named(kinds[j])) == same, (VALUES[i], VALUES[j])


@pytest.mark.parametrize(
    "value", [2**63, "text", [1], np.ma.zeros(3), np.arange(3).view(np.matrix)]
)
def test_what_numba_alone_can_tell_is_left_to_it(value: Any) -> None:
    with pytest.raises(UnknownKindError):
        kinds_of((1, value))


@pytest.fixture(name="called", scope="module")
def _called(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A module of kernels, and what runs it in a fresh interpreter; the first time compiles."""
    folder = tmp_path_factory.mktemp("kernels")
    module = folder / "sorting.py"
    module.write_text(MODULE)
    os.utime(module, (0, 0))
    environment = os.environ | {
        "PYTHONPATH": f"{ROOT}:{folder}", "SLACKWATER_CACHE": str(folder / "cache")
    }  # fmt: skip

    def run() -> list[str]:
        done = subprocess.run(
            [sys.executable, "-c", CODE], check=True, capture_output=True, text=True,
            env=environment,
        )  # fmt: skip
        return done.stdout.rsplit(" ", 1)

    return run, folder / "cache", run()


def test_a_kernel_from_the_cache_gives_what_it_gave_when_compiled(called: Any) -> None:
    run, cache, (compiled, with_numba) = called
    expected = "[0, 2, 4] [0.0, 2.0] Pair(first=array([0, 0, 0]), second=3) too large"
    assert (compiled, with_numba) == (expected, "True\n")
    assert run() == [expected, "False\n"]
    names = sorted(path.name.split("-")[0] for path in cache.rglob("*.code"))
    assert names == ["sorting.doubled"] * 2 + ["sorting.pair_of", "sorting.refused"]


def test_a_damaged_file_is_made_anew(called: Any) -> None:
    run, cache, (compiled, _) = called
    for path in cache.rglob("*.code"):
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    assert run() == [compiled, "True\n"]
    for path in cache.rglob("*.nbc"):
        path.unlink()
    assert run() == [compiled, "False\n"]
