"""What ``python -m bench.mass`` counts; and that no package imports in a circle."""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from bench.mass import PACKAGES, Mass

PRIVATE_CLASSES = {
    "Asked", "Told", "Given", "Let", "Happened", "Turns", "Standing", "Book", "Chase", "Wanted",
    "Doubt", "Mended", "Ran", "Said", "Seen",
}  # fmt: skip
SHARED_CLASSES = {"Comparison", "Constant", "Kind", "Step", "Table", "Uniform"}
"""In several packages, or inputs of the agent: public names and names in manifests. No more."""


def classes(mass: Mass) -> Counter[str]:
    """How many classes have each name; those of one file alone left out, as their ``_`` says."""
    return Counter(
        node.name
        for module in mass.modules.values()
        for node in ast.walk(module.tree)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )


FILES = {
    "engine/__init__.py": '"""Nothing."""\n',
    "engine/a.py": (
        '"""A."""\nfrom __future__ import annotations\nfrom typing import TYPE_CHECKING\n'
        "from slackwater.engine.b import two\n"
        "if TYPE_CHECKING:\n    from slackwater.engine.c import three\n"
        "def one():\n    return two()\n"
    ),
    "engine/b.py": (
        '"""B."""\n@kernel\ndef two():\n'
        "    from slackwater.engine.c import three\n    return three()\n"
    ),
    "engine/c.py": (
        'NAMES = {"later": "slackwater.engine.b:two"}\ndef three():\n    return "told"\n'
        '"""Of three: no statement."""\n'
    ),
}


@pytest.fixture
def little(tmp_path: Path) -> Mass:
    for package in PACKAGES:
        (tmp_path / package).mkdir()
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return Mass(tmp_path)


def test_lazy_imports_and_names_in_registries_make_circles_type_checking_does_not(
    little: Mass,
) -> None:
    assert little.circles == [["slackwater.engine.b", "slackwater.engine.c"]]


def test_statements_are_counted_without_docstrings_and_kernels_by_their_marks(
    little: Mass,
) -> None:
    modules = {module.name: module for module in little.of("engine")}
    assert modules["slackwater.engine.b"].statements == 3
    assert modules["slackwater.engine.b"].kernels == 1
    assert modules["slackwater.engine.a"].kernels == 0
    assert modules["slackwater.engine.c"].statements == 3
    assert modules["slackwater.engine"].statements == 0


def test_names_that_are_participles_are_counted_words_that_have_one_are_not(
    little: Mass, tmp_path: Path
) -> None:
    assert little.figures()["names that are participles"] == 0
    (tmp_path / "simulator" / "d.py").write_text(
        "class _Held:\n    def __init__(self, wanted):\n        self._own = held_rows = wanted\n"
    )
    assert Mass(tmp_path).figures()["names that are participles"] == 3


@cache
def whole() -> Mass:
    return Mass()


def test_no_package_imports_in_a_circle() -> None:
    assert whole().circles == []


def test_the_name_of_a_class_is_unique_and_no_private_word() -> None:
    found = classes(whole())
    assert {name for name, count in found.items() if count > 1} == SHARED_CLASSES
    assert not PRIVATE_CLASSES & found.keys()


def test_no_name_is_a_bare_participle() -> None:
    assert whole().figures()["names that are participles"] == 0


def test_a_class_defined_twice_is_seen(little: Mass, tmp_path: Path) -> None:
    (tmp_path / "simulator" / "d.py").write_text("class Twice: ...\nclass _Own: ...\n")
    (tmp_path / "engine" / "d.py").write_text("class Twice: ...\nclass _Own: ...\n")
    assert classes(Mass(tmp_path)) == {"Twice": 2}
