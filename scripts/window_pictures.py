"""Draws docs/images/windows-KIND.svg: results of the engine for seven events and a late one.

.venv/bin/python -m scripts.window_pictures
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import slackwater

IMAGES: Final = Path(__file__).resolve().parent.parent / "docs" / "images"
KINDS: Final = {
    "tumbling": ("TUMBLING 10", "by the clock, side by side"),
    "sliding": ("SLIDING 10 EVERY 5", "by the clock, one from each 5"),
    "session": ("SESSION 6", "until 6 are silent"),
    "rows": ("ROWS 3", "three by three, in order of time"),
}
EVENTS: Final = {2: 1, 5: 2, 8: 3, 17: 4, 24: 5, 33: 6, 36: 7, 12: 9}
"""Values by time, in order of arrival."""
LATE: Final = 12
_FIRST, _LAST, _WIDTH, _LEFT = -5, 45, 720, 40
_ROW: Final = 34
_STYLE: Final = """
    .value { font-size: 12.5px; fill: #ffffff }
    .axis { stroke: #444; stroke-width: 1.4 }
    .event { fill: #2b5d7d } .late { fill: #c2571a }
    .window { fill: #f4f8fb; stroke: #2b5d7d; stroke-width: 1.5 }
    .corrected { fill: #fdf1e8; stroke: #c2571a; stroke-width: 1.5 }
    .name { font-weight: 600; fill: #14303f } .small { font-size: 12.5px; fill: #4a5b66 }
    .old { text-decoration: line-through; fill: #8a8a8a } .new { fill: #c2571a; font-weight: 600 }
"""


def emissions(window: str) -> list[dict[str, Any]]:
    """The results of a query with this window over the events."""
    events = {"ts": [*EVENTS], "v": [*EVENTS.values()]}
    query = f"SELECT sum(v) AS n WINDOW {window}"
    return list(slackwater.query(events, query, order="kslack:0", guard="off").changes())


def windows(results: list[dict[str, Any]]) -> list[tuple[int, int, list[int]]]:
    """(start, end, emitted sums in order) of each final window.

    A window that takes another one's place has the other's sums before its own.
    """
    found: list[tuple[int, int, list[int]]] = []
    before: list[tuple[int, int, list[int]]] = []
    for r in results:
        start, end, n = r["window"]["start"], r["window"]["end"], r["value"]["n"]
        if r["op"] == "-":
            gone = next(one for one in found if one[:2] == (start, end))
            found.remove(gone)
            before.append(gone)
            continue
        replaced = [one for one in before if one[0] < end and start < one[1]]
        before = [one for one in before if one not in replaced]
        found.append((start, end, [*(n_before for one in replaced for n_before in one[2]), n]))
    return sorted(found)


def _x(time: float) -> float:
    return _LEFT + (time - _FIRST) * _WIDTH / (_LAST - _FIRST)


def _mark(ts: int, y: int) -> str:
    kind = "late" if ts == LATE else "event"
    return (
        f'  <circle class="{kind}" cx="{_x(ts):g}" cy="{y}" r="10"/>\n'
        f'  <text class="value" x="{_x(ts):g}" y="{y + 4}" text-anchor="middle">{EVENTS[ts]}</text>'
    )


def _bar(start: int, end: int, sums: list[int], y: int) -> str:
    corrected = len(sums) > 1
    text = f'<tspan class="{"new" if corrected else "name"}">{sums[-1]}</tspan>'
    if corrected:
        text = f'<tspan class="old">{" and ".join(map(str, sums[:-1]))}</tspan> {text}'
    return (
        f'  <rect class="{"corrected" if corrected else "window"}" x="{_x(start):g}" y="{y}" '
        f'width="{_x(end) - _x(start):g}" height="24" rx="4"/>\n'
        f'  <text x="{(_x(start) + _x(end)) / 2:g}" y="{y + 17}" text-anchor="middle">{text}</text>'
    )


def picture(name: str) -> str:
    """The SVG of one kind."""
    window, how = KINDS[name]
    free_from: list[int] = []
    bars = []
    for start, end, sums in windows(emissions(window)):
        lane = next((n for n, free in enumerate(free_from) if free <= start), len(free_from))
        free_from[lane : lane + 1] = [end]
        bars.append(_bar(start, end, sums, 104 + _ROW * lane))
    height = 116 + _ROW * len(free_from)
    ticks = [
        f'  <line class="axis" x1="{_x(t):g}" y1="62" x2="{_x(t):g}" y2="68"/>\n'
        f'  <text class="small" x="{_x(t):g}" y="84" text-anchor="middle">{t}</text>'
        for t in range(0, _LAST, 10)
    ]
    return "\n".join([
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 {height}" role="img"',
        '     font-family="system-ui, sans-serif" font-size="15">',
        f"  <title>WINDOW {window}</title>",
        f"  <desc>Eight events of a group, that at {LATE} late, and the windows that sum them up.",
        "  What the late one corrects shows both sums.</desc>",
        f"  <style>{_STYLE}  </style>",
        f'  <rect width="800" height="{height}" fill="#ffffff"/>',
        f'  <text class="name" x="{_LEFT}" y="26">WINDOW {window}</text>',
        f'  <text class="small" x="{_LEFT + 265}" y="26">{how}.',
        "  Orange: the late event, and what it corrects</text>",
        f'  <line class="axis" x1="{_x(_FIRST):g}" y1="65" x2="{_x(_LAST):g}" y2="65"/>',
        *ticks,
        *(_mark(ts, 50) for ts in EVENTS),
        *bars,
        "</svg>",
    ]) + "\n"  # fmt: skip


def main() -> None:
    """Write them all."""
    for name in KINDS:
        (IMAGES / f"windows-{name}.svg").write_text(picture(name), encoding="utf-8")


if __name__ == "__main__":
    main()
