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
    "barrier": {"kernels", "stream"},
    "cascade": {
        "barrier", "clocks", "constraint", "kernels", "pattern", "query", "results", "stream",
        "window",
    },
    "chain": {
        "barrier", "cascade", "check", "clocks", "constraint", "grouping", "interval", "kernels",
        "order", "pattern", "query", "repetition", "results", "stream", "window",
    },
    "check": {"kernels", "query", "results", "stream"},
    "cli": {
        "barrier", "chain", "compare", "kernels", "live", "log", "order", "passes",
        "query", "report", "results", "server", "stream", "sweep", "validate",
    },
    "clocks": {"kernels", "stream"},
    "compare": {"chain", "kernels", "log", "order", "report", "stream"},
    "constraint": {"clocks", "kernels", "query", "results", "stream", "window"},
    "gateway": {"stream"},
    "grouping": {"barrier", "clocks", "kernels", "query", "results", "stream"},
    "interval": {"barrier", "pattern", "query", "stream"},
    "kernels": set[str](),
    "live": {
        "chain", "kernels", "log", "passes", "pattern", "query", "results", "spark",
        "stream",
    },
    "log": {"kernels", "stream"},
    "order": {"clocks", "kernels", "query", "stream"},
    "passes": {
        "barrier", "chain", "clocks", "constraint", "kernels", "log", "order", "pattern",
        "query", "report", "results", "spark", "stream", "window",
    },
    "pattern": {"barrier", "clocks", "kernels", "log", "query", "results", "stream"},
    "query": {"barrier", "stream"},
    "repetition": {"barrier", "kernels", "pattern", "query", "stream"},
    "report": {"clocks", "kernels", "log", "stream"},
    "results": {"kernels", "log", "order", "stream"},
    "server": {"clocks", "gateway", "live", "log", "stream"},
    "spark": {
        "barrier", "chain", "clocks", "constraint", "log", "order", "pattern", "query", "results",
        "stream", "window",
    },
    "stream": {"kernels"},
    "sweep": {"log", "passes", "report"},
    "validate": {
        "chain", "clocks", "kernels", "log", "order", "passes", "query", "report", "results",
        "stream",
    },
    "window": {"barrier", "clocks", "kernels", "query", "results", "stream"},
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
    assert order.index("stream") < order.index("order") < order.index("cli")
    closed = {**arrows(), "stream": {"order"}}
    with pytest.raises(graphlib.CycleError):
        list(graphlib.TopologicalSorter(closed).static_order())
