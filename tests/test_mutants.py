"""scripts/mutants.py: which faults it chooses, that each is Python, and that it leaves no trace."""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import textwrap
from dataclasses import asdict
from functools import cache
from pathlib import Path

import pytest

from scripts.fault_runs import Copy, KernelCache, copy_tracked, failure_named
from scripts.faults import PlantedFault, chosen, faults_in, faults_of
from scripts.mutants import ROOMS, ROOT, MutantRun, conclude, equivalent, in_order, planned

SOURCE = textwrap.dedent('''
    """A module: 1 < 2 and not True."""

    LIMIT = 7


    class Heap:
        """size < 3."""

        room: int = 4

        def __init__(self, given: list[int]) -> None:
            self.given = given

        def push(self, value: int, last: bool = False) -> int:
            """Not 5 < 6."""
            if not last and (value) <= self.given[0]:
                self.given.append(value)
            for at in range(1):
                self.given[at] = max(value, at - 2)
            while value > 0:
                value -= 1
            assert value < 1, "not 1"
            if value is not None:
                raise ValueError(f"not {value + 1} {max(value, 2)}")
            return value

        def __repr__(self) -> str:
            return str(len(self.given) + 1)
''').lstrip()  # fmt: skip


@cache
def tree(source: bytes) -> str:
    return ast.dump(ast.parse(source))


def edits(source: str) -> list[tuple[str, str, str]]:
    found = list(faults_in("room", "a.py", source.encode()))
    return [(fault.kind, fault.before, fault.after) for fault in found]


def test_each_kind_is_found_in_bodies_and_nowhere_else() -> None:
    assert edits(SOURCE) == [
        ("and or", "and", "or"),
        ("not", "not ", ""),
        ("comparison", "<=", "<"),
        ("constant", "0", "1"),
        ("dropped", "self.given.append(value)", "pass"),
        ("constant", "1", "2"),
        ("dropped", "self.given[at] = max(value, at - 2)", "pass"),
        ("min max", "max", "min"),
        ("arithmetic", "-", "+"),
        ("constant", "2", "3"),
        ("comparison", ">", ">="),
        ("constant", "0", "1"),
        ("constant", "1", "2"),
        ("comparison", "is not", "is"),
    ]


def test_a_fault_is_shown_in_its_line() -> None:
    shown = [fault.edit_text for fault in faults_in("room", "a.py", SOURCE.encode())]
    assert shown[1:3] == [
        "if [not -> ]last and (value) <= self.given[0]:",
        "if not last and (value) [<= -> <] self.given[0]:",
    ]


def test_texts_are_not_subtracted_and_performance_is_left_alone() -> None:
    source = """
        def write(self, a, b):
            self.text = a + "," + b
            self.parts = [a] + b
            capacity = 2 * a
            self.table.reserve(7)
            total = a ^ (b) + a  # umlauts before a place: ä
            name = "ä" if a else b + 1
    """
    assert edits(textwrap.dedent(source)) == [
        ("dropped", 'self.text = a + "," + b', "pass"),
        ("dropped", "self.parts = [a] + b", "pass"),
        ("arithmetic", "+", "-"),
        ("arithmetic", "+", "-"),
        ("constant", "1", "2"),
    ]


def test_planted_faults_of_a_room_are_python_and_change_it() -> None:
    for fault in faults_of("barrier", ROOT, ROOMS["barrier"].folders)[::3]:
        before = (ROOT / fault.file).read_bytes()
        after = fault.planted(before)
        assert ast.dump(ast.parse(after)) != tree(before), fault


def test_a_fault_is_not_planted_in_other_text() -> None:
    fault = next(faults_in("room", "a.py", SOURCE.encode()))
    with pytest.raises(ValueError, match=r"a\.py:16 is no longer"):
        fault.planted(SOURCE.replace("and", "or").encode())


def test_ids_outlive_edits_elsewhere_and_moves() -> None:
    moved = f"import os\n\n\ndef other(a):\n    return a + 1\n\n\n{SOURCE}".replace(
        "max(value, at - 2)", "max(\n            value, at - 2)"
    )
    before = {fault.id for fault in faults_in("room", "a.py", SOURCE.encode())}
    after = {fault.id for fault in faults_in("room", "b/c.py", moved.encode())}
    assert before < after
    assert len(before) == len(edits(SOURCE))
    assert before.isdisjoint(fault.id for fault in faults_in("else", "a.py", SOURCE.encode()))


def test_choice_is_the_same_each_time_and_spread() -> None:
    faults = faults_of("barrier", ROOT, ROOMS["barrier"].folders)
    some = chosen(faults, 8)
    assert some == chosen(reversed(faults), 8)
    assert some[:3] != chosen(faults, 8, seed=1)[:3]
    assert len({(fault.file, fault.function) for fault in some}) == 8
    kinds = [fault.kind for fault in some]
    files = [fault.file for fault in some]
    assert max(map(kinds.count, kinds)) <= 2
    assert max(map(files.count, files)) <= 3


def test_rooms_are_there_and_plant_enough() -> None:
    for room in ROOMS.values():
        for path in (*room.folders, *room.tests):
            assert (ROOT / path).exists(), path
    assert sum(room.number for room in ROOMS.values()) >= 60


def test_an_earlier_runs_faults_come_first_and_equivalent_ones_are_replaced() -> None:
    first = planned("barrier", 3, 0, set(), set())
    others = planned("barrier", 3, 5, set(), set())
    ids = {fault.id for fault in others}
    assert {fault.id for fault in planned("barrier", 3, 0, set(), ids)} == ids
    replaced = planned("barrier", 3, 0, {first[0].id}, set())
    assert first[0] not in replaced
    assert len(replaced) == 3


def test_equivalent_faults_are_listed_with_a_reason(tmp_path: Path) -> None:
    file = tmp_path / "mutants.txt"
    file.write_text("# why\n\nabc  a hint\n", encoding="utf-8")
    assert equivalent(file) == {"abc"}
    lines = (ROOT / "scripts/mutants.txt").read_text(encoding="utf-8").splitlines()
    entries = [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]
    assert all(len(entry) == 2 and len(entry[0]) == 10 for entry in entries)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout of one module and two files of tests."""
    root = tmp_path / "checkout"
    for name, text in {
        "engine/heap.py": SOURCE,
        "tests/test_a.py": "",
        "tests/test_b.py": "from slackwater.engine.heap import Heap\n",
        "tests/test_heap_c.py": "",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    for command in (["init", "-q"], ["add", "-A"]):
        subprocess.run(["git", *command], cwd=root, check=True)
    (root / "unknown.txt").write_text("not tracked", encoding="utf-8")
    return root


def heap_fault(root: Path) -> PlantedFault:
    return faults_of("room", root, ["engine"])[0]


def test_a_copy_has_the_fault_for_a_while_and_the_checkout_never(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLACKWATER_CACHE", str(tmp_path / "none"))
    monkeypatch.setattr("scripts.fault_runs.ROOT", checkout)
    copy = Copy(tmp_path / "worker", checkout, KernelCache(tmp_path / "kernels"))
    file, fault = copy.root / "engine/heap.py", heap_fault(checkout)
    bytecode = file.parent / "__pycache__/heap.cpython-311.pyc"
    bytecode.parent.mkdir()
    bytecode.touch()
    with copy.planted(fault):
        assert file.read_text(encoding="utf-8") == SOURCE.replace(" and (", " or (")
        assert not bytecode.exists()
    assert file.read_text(encoding="utf-8") == SOURCE
    assert (checkout / "engine/heap.py").read_text(encoding="utf-8") == SOURCE
    assert not (copy.root / "unknown.txt").exists()


def test_tests_near_the_fault_run_first_then_the_quick(checkout: Path) -> None:
    fault, seconds = heap_fault(checkout), {"tests/test_a.py": 1.0, "tests/test_heap_c.py": 9.0}
    near = ["tests/test_b.py", "tests/test_heap_c.py", "tests/test_a.py"]
    assert in_order(checkout, ["tests"], fault, seconds) == near
    (checkout / "tests/test_d.py").touch()
    assert in_order(checkout, ["tests"], fault, seconds)[2:] == ["tests/test_d.py", near[2]]


def test_a_kernel_cache_is_lent_and_keeps_what_was_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "user/slackwater/numba"
    own.mkdir(parents=True)
    (own / "kernel").write_text("as it was", encoding="utf-8")
    monkeypatch.setenv("SLACKWATER_CACHE", str(tmp_path / "user"))
    kernels = KernelCache(tmp_path / "kernels")
    kernels.lend(tmp_path / "lent")
    lent = tmp_path / "lent/slackwater/numba"
    (lent / "new").write_text("compiled", encoding="utf-8")
    kernels.lend(tmp_path / "other")
    assert not (tmp_path / "other/slackwater/numba/new").exists()
    kernels.keep(tmp_path / "lent")
    kernels.lend(tmp_path / "other")
    assert (tmp_path / "other/slackwater/numba/new").read_text(encoding="utf-8") == "compiled"
    assert not (own / "new").exists()


def test_what_found_a_fault_is_named() -> None:
    output = "...F\nFAILED tests/a.py::test_b[x - y] - assert 1 == 2\n"
    assert failure_named(0, "3 passed") == ""
    assert failure_named(1, output) == "tests/a.py::test_b[x - y]"
    assert failure_named(2, "ERROR tests/a.py - NameError\n") == "tests/a.py"
    assert failure_named(1, "..Timeout?\nTimeout (0:02:00)!\nThread 0x1") == "time limit"
    assert failure_named(-11, "Fatal Python error") == "signal 11"


def test_what_an_earlier_run_found_and_this_one_did_not_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = planned("barrier", 2, 0, set(), set())
    lines = [
        asdict(fault) | {"found": n == 0, "by": "tests/a.py" if n == 0 else "", "seconds": 1}
        for n, fault in enumerate(plan)
    ]
    out = tmp_path / "now.jsonl"
    out.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    run = MutantRun(argparse.Namespace(out=out, limit=1), plan)
    assert conclude(run, []) == 0
    assert "barrier: 1 found (0 by the time limit), 1 not found" in capsys.readouterr().out
    assert conclude(run, [line | {"found": True, "by": "tests/b.py"} for line in lines]) == 1
    assert "found earlier by tests/b.py, and not now" in capsys.readouterr().out


def test_a_checkouts_paths_can_be_copied_alone(checkout: Path, tmp_path: Path) -> None:
    copy_tracked(checkout, tmp_path / "part", "tests")
    assert [path.name for path in (tmp_path / "part").iterdir()] == ["tests"]
