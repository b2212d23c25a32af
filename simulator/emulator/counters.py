"""Fates of the packets of each direction, for people and as a file for programs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from slackwater.edge_agent.standard_streams import taking_name
from slackwater.simulator.emulator.relay import LinkDirection

COLUMNS = (
    "entered", "delivered", "lost", "cut", "queue_dropped", "copied", "no_room", "refused",
)  # fmt: skip


def counters(way: LinkDirection, refused: int) -> dict[str, Any]:
    """Fields of one direction; numbers of packets, but for ``bytes`` and ``late``.

    ``entered``: sent by its namespace; ``delivered``: came out, copies included; ``lost``: by the
    loss model; ``cut``: by an outage; ``queue_dropped``: no room at the bottleneck; ``copied``:
    extra copies; ``no_room``: too much was under way in the emulator; ``refused``: the device at
    the end was down; ``late``: how far behind its instant the emulator delivered.
    """
    counts = way.link.counts
    return {
        "from": way.source,
        "to": way.target,
        "entered": counts.entered.messages,
        "entered_bytes": counts.entered.events,
        "delivered": way.late.packets - refused,
        "lost": counts.lost.messages,
        "cut": counts.cut.messages,
        "queue_dropped": counts.queue_dropped.messages,
        "copied": counts.copied.messages,
        "no_room": way.no_room.messages,
        "refused": refused,
        "late_mean_us": way.late.mean_ns // 1000,
        "late_max_us": way.late.max_ns // 1000,
        "late_over_1ms": way.late.over_1ms,
    }


def table(ways: Mapping[LinkDirection, int]) -> str:
    """The counters as lines; ``ways``: with the packets refused of each."""
    rows = [counters(way, refused) for way, refused in ways.items()]
    heads = ["from -> to", *(name.replace("_", " ") for name in COLUMNS), "late mean/max [us]"]
    cells = [
        [
            f"{row['from']} -> {row['to']}",
            *(str(row[name]) for name in COLUMNS),
            f"{row['late_mean_us']}/{row['late_max_us']}",
        ]
        for row in rows
    ]
    widths = [max(len(line[i]) for line in [heads, *cells]) for i in range(len(heads))]
    return "".join(
        "  ".join(
            text.ljust(width) if i == 0 else text.rjust(width)
            for i, (text, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        + "\n"
        for line in [heads, *cells]
    )


class StatusWriter:
    """Replaces a file again and again, in a thread of its own: disks make one wait.

    Args:
        path: the file; None: nothing is written.
    """

    def __init__(self, path: str | None) -> None:
        self._path = None if path is None else Path(path)
        self._thread = ThreadPoolExecutor(1, "status")
        self._last: Future[None] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self._thread.shutdown()
        if self._last is not None and problem[0] is None:
            self._last.result()

    def write(self, fields: Mapping[str, Any]) -> None:
        """Has it replaced.

        Raises:
            OSError: an earlier one could not be written.
        """
        if self._path is None:
            return
        if self._last is not None and self._last.done():
            self._last.result()
        self._last = self._thread.submit(_replace, self._path, json.dumps(fields) + "\n")


def _replace(path: Path, text: str) -> None:
    unfinished = path.with_name(f".{path.name}.writing")
    with taking_name(unfinished, path):
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(path)
