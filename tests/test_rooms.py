"""Folders of the engine import one another in one direction (DESIGN: order, operator, barrier).

``ROOMS`` draws the arrows. A new one is drawn here on purpose, or not at all; none may close a
circle, also not by way of the modules that lie in ``engine/`` itself.
"""

from __future__ import annotations

import graphlib
from pathlib import Path

import pytest

from tests.test_imports import imports

ENGINE = Path(__file__).resolve().parent.parent / "engine"

ROOMS = {
    "apps": {"barrier", "core", "hosts", "kernels", "log", "order", "output", "query"},
    "barrier": {"core", "kernels"},
    "cli": {
        "apps", "barrier", "core", "hosts", "kernels", "log", "order", "output", "query",
        "server", "sinks",
    },
    "core": {"kernels"},
    "gateway": {"core", "log"},
    "hosts": {"barrier", "core", "kernels", "log", "operators", "order", "output", "query"},
    "kernels": set[str](),
    "log": {"core", "kernels"},
    "operators": {"barrier", "core", "kernels", "log", "output", "query"},
    "order": {"core", "kernels", "query"},
    "output": {"core", "kernels", "log", "order", "query"},
    "query": {"barrier", "core"},
    "server": {"core", "gateway", "hosts", "log", "sinks"},
    "sinks": {"core", "log", "output"},
}  # fmt: skip


def room_of(name: str) -> str:
    """Folder of a dotted name of the engine; a module beside the folders is a room by itself."""
    first = name.split(".")[1]
    return first if (ENGINE / first).is_dir() else f"{first}.py"


def arrows() -> dict[str, set[str]]:
    """Room -> the rooms that its modules import, wherever in the module they do."""
    found: dict[str, set[str]] = {}
    for file in sorted(ENGINE.rglob("*.py")):
        own = ".".join(("engine", *file.relative_to(ENGINE).with_suffix("").parts))
        if own == "engine.__init__":
            continue
        others = found.setdefault(room_of(own), set())
        for _, name in imports(file.read_text(encoding="utf-8")):
            if name.startswith("engine."):
                others.add(room_of(name))
    return {room: others - {room} for room, others in found.items()}


def test_rooms_import_the_rooms_that_are_drawn() -> None:
    drawn = {room: others for room, others in arrows().items() if not room.endswith(".py")}
    assert {
        room: {other for other in others if not other.endswith(".py")}
        for room, others in drawn.items()
    } == ROOMS


def test_no_arrows_close_a_circle() -> None:
    order = list(graphlib.TopologicalSorter(arrows()).static_order())
    assert order.index("core") < order.index("order") < order.index("cli")
    closed = {**arrows(), "core": {"order"}}
    with pytest.raises(graphlib.CycleError):
        list(graphlib.TopologicalSorter(closed).static_order())
