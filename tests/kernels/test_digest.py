"""The digest of a kernel changes with what Numba compiles, and with nothing else."""

from __future__ import annotations

import importlib
import os
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import slackwater
from slackwater.engine.kernels.kernel_cache import CompiledKernel, digest_of

ROOT = Path(__file__).resolve().parents[2]
ENTRY = '''\
from __future__ import annotations

import enum
from typing import NamedTuple

import numpy as np

import far.constants as constants
from slackwater.engine.kernels.jit import inline, kernel
from far.callee import add


class Kind(enum.IntEnum):
    OPEN = 1
    CLOSED = 2


class Pair(NamedTuple):
    first: np.ndarray
    second: np.ndarray


TABLE = np.array([1, 2, 3])
TYPE = np.dtype([("a", np.int64)])
SCALAR = np.float64(0.5)
TEXT = "x"


def message(x):
    raise ValueError(f"{x} is bad")


def bound(limit):
    @kernel
    def inner(x):
        return x < limit

    return inner


below = bound(7)


@kernel
def entry(p: Pair, x):
    """A docstring."""
    # a comment
    y = add(x) + constants.STEP + TABLE[0] + SCALAR
    if x in {"b", "a", "c"} or x == TEXT:
        y += Kind.OPEN
    if below(x):
        y += np.zeros(1, TYPE)[0].a
    return y + p.first[0]
'''
CALLEE = """\
from slackwater.engine.kernels.jit import inline
LIMIT = 3
@inline
def add(x):
    return x + 1
"""
CONSTANTS = "STEP = 5\nOTHER = 6\n"
PRINT = """
import near
from slackwater.engine.kernels.kernel_cache import digest_of
print(digest_of(near.entry))
"""


def write(folder: Path, entry: str = ENTRY, callee: str = CALLEE, of: str = CONSTANTS) -> Path:
    """A module with a kernel, and a package with what it uses."""
    (folder / "far").mkdir(parents=True)
    (folder / "near.py").write_text(entry)
    (folder / "far" / "callee.py").write_text(callee)
    (folder / "far" / "constants.py").write_text(of)
    return folder


def digest(folder: Path, **environ: str) -> str:
    """Of the kernel there, by a process of its own."""
    path = os.pathsep.join([str(folder), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-c", PRINT], capture_output=True, text=True, check=True,
        env=os.environ | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"} | environ,
    )  # fmt: skip
    return done.stdout.strip()


@pytest.fixture(name="imported")
def _imported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The digest of a kernel with some texts replaced, in this process."""
    count = iter(range(1000))

    def of(*changes: tuple[str, str]) -> str:
        texts = [ENTRY, CALLEE, CONSTANTS]
        for before, after in changes:
            assert sum(text.count(before) for text in texts) == 1, before
            texts = [text.replace(before, after) for text in texts]
        folder = write(tmp_path / str(next(count)), *texts)
        for name in ("near", "far", "far.callee", "far.constants"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        importlib.invalidate_caches()
        with monkeypatch.context() as patch:
            patch.syspath_prepend(str(folder))
            return digest_of(importlib.import_module("near").entry)

    return of


@pytest.mark.parametrize(
    "change",
    [
        ("STEP = 5", "STEP = 6"),
        ("return x + 1", "return x + 2"),
        ("@inline\ndef add", "from slackwater.engine.kernels.jit import kernel\n@kernel\ndef add"),
        ("[1, 2, 3]", "[1, 2, 4]"),
        ("[1, 2, 3]", "[1.0, 2.0, 3.0]"),
        ('("a", np.int64)', '("a", np.int32)'),
        ("np.float64(0.5)", "np.float32(0.5)"),
        ("np.float64(0.5)", "0.5"),
        ('TEXT = "x"', 'TEXT = "y"'),
        ("OPEN = 1", "OPEN = 3"),
        ("first: np.ndarray\n    second", "second: np.ndarray\n    first"),
        ("bound(7)", "bound(8)"),
        ("x < limit", "x <= limit"),
        ('{"b", "a", "c"}', '{"b", "a", "d"}'),
        ("return y + p", "return y - p"),
        ("p: Pair, x)", "p: Pair, x=1)"),
    ],
)  # fmt: skip
def test_what_is_compiled_changes_the_digest(imported: Any, change: tuple[str, str]) -> None:
    assert imported() != imported(change)


@pytest.mark.parametrize(
    "change",
    [
        ("    # a comment\n", "\n\n\n    # another, further down\n"),
        ("A docstring.", "Another docstring."),
        ("is bad", "is worse"),
        ("OTHER = 6", "OTHER = 7"),
        ("LIMIT = 3", "LIMIT = 4"),
        ("return x + 1", "return (x\n        + 1)"),
    ],
)  # fmt: skip
def test_what_is_not_compiled_changes_nothing(imported: Any, change: tuple[str, str]) -> None:
    assert imported() == imported(change)


@pytest.mark.slow
def test_a_digest_is_the_same_in_every_process_checkout_and_at_any_time(tmp_path: Path) -> None:
    one, other = write(tmp_path / "one"), write(tmp_path / "a" / "longer" / "path")
    expected = digest(one, PYTHONHASHSEED="1")
    os.utime(one / "near.py", (1, 1))
    assert digest(one, PYTHONHASHSEED="2") == expected
    assert digest(other, PYTHONHASHSEED="3") == expected
    assert digest(one, SLACKWATER_PLAIN_NUMBA="1") != expected
    assert digest(one, NUMBA_BOUNDSCHECK="1") != expected
    assert digest(one, NUMBA_CACHE_DIR=str(tmp_path)) == expected


@pytest.mark.parametrize(
    "value", ["object()", "[1]", "{1: 2}", "np.array([None])", "lambda: 0", "type('C', (), {})"]
)
def test_a_value_without_a_digest_is_refused(imported: Any, value: str) -> None:
    with pytest.raises(TypeError, match=r"near\.entry: TEXT is .*: kernels use constants"):
        imported(('TEXT = "x"', f"TEXT = {value}"))


def _modules(package: ModuleType) -> list[ModuleType]:
    found = pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    return [importlib.import_module(each.name) for each in found if "__main__" not in each.name]


@pytest.mark.skipif(os.environ.get("SLACKWATER_UNCOMPILED") == "1", reason="there are none")
def test_every_kernel_has_a_digest() -> None:
    decorated = re.compile(r"^@(?:kernel|njit|inline)$", re.MULTILINE)
    digests, many = {}, 0
    for package in (slackwater,):
        for module in _modules(package):
            many += len(decorated.findall(Path(str(module.__file__)).read_text(encoding="utf-8")))
            for name, value in vars(module).items():
                if (
                    isinstance(value, CompiledKernel)
                    and value.function.__module__ == module.__name__
                ):
                    digests[module.__name__, name] = digest_of(value)
    assert many > 300
    assert len(digests) >= many
    assert len(set(digests.values())) == len(digests)
