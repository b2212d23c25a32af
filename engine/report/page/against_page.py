"""Two runs side by side, as a page, a JSON file and lines of text."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from engine.log.whole_file import whole_file
from engine.report.against import compared, told
from engine.report.page.document import document
from engine.report.plain import as_json, plain
from engine.report.units import duration
from engine.report.versions import versions
from engine.scenario import Table

HTML: Final = "against.html"
JSON: Final = "against.json"
_CHAPTERS: Final = {"verdict": "What changed", "kpis": "Key numbers", "events": "Events",
                    "results": "Results", "runs": "The two runs"}  # fmt: skip
_COUNTED: Final = ("in both", "lost", "new", "changed", "sooner, p50", "p95", "max")
_BETTER: Final = {True: "better", False: "worse", None: ""}


def write_against(before: Path, now: Path) -> list[str]:
    """Writes ``against.html`` and ``against.json`` into ``now``; gives the summary's lines.

    Raises:
        UserError: ``before`` holds no report of this version.
    """
    found: dict[str, Any] = plain(compared(before, now)) | {"made_with": versions()}
    for name, text in ((JSON, as_json(found, indent=1) + "\n"), (HTML, page(found))):
        with whole_file(now / name) as sink:
            sink.write(text.encode())
    return summary(found)


def summary(found: Mapping[str, Any]) -> list[str]:
    """What changed, for a terminal."""
    lines = [f"against {found['before']['folder']} ({found['before']['made_at']}):"]
    lines += [f"  note: {note}" for note in found["notes"]]
    for each in found["kpis"]:
        if each["change"]:
            better = f"  {_BETTER[each['better']]}" if each["better"] is not None else ""
            pair = f"{each['before']} -> {each['now']}"
            lines.append(f"  {each['name']}: {pair}  {each['change']}{better}")
    if found["events"] is not None:
        sooner = _sooner(found["events"], "let go")
        lines.append(f"  {told('events', found['events'], 'events')}{sooner}")
    for name, each in found["queries"].items():
        lines.append(f"  {told(name, each)}{_sooner(each, 'told')}")
    return [line.replace("\N{NO-BREAK SPACE}", " ") for line in lines]


def _sooner(found: Mapping[str, Any], done: str) -> str:
    times = found["sooner_ns"]
    if not times or not times["p50"]:
        return ""
    word = "sooner" if times["p50"] > 0 else "later"
    return f"; {done} {duration(abs(times['p50']))} {word} in the middle"


def _row(name: str, found: Mapping[str, Any]) -> tuple[Any, ...]:
    times = found["sooner_ns"] or {}
    counts = (found[of] for of in ("both", "lost", "new", "changed"))
    return (name, *counts, *(duration(times.get(of)) for of in ("p50", "p95", "max")))


def page(found: Mapping[str, Any]) -> str:
    """The page; ``found`` is what against.json holds."""
    kpis = tuple(
        (each["name"], each["before"], each["now"], each["change"], _BETTER[each["better"]])
        for each in found["kpis"]
    )
    rows = [_row(name, each) for name, each in found["queries"].items()]
    of_events = () if found["events"] is None else (_row("events", found["events"]),)
    runs = tuple(
        (of, found["before"][of], found["now"][of])
        for of in ("folder", "title", "made_at", "command")
    )
    worse = any(each["better"] is False for each in found["kpis"])
    asked = found["queries"].values() or [found["events"]]
    lost = any(each["lost"] for each in asked if each is not None)
    return document(
        "against.html", f"Two runs: {found['now']['title']}", _CHAPTERS, [], found, JSON,
        state="fails" if worse or lost else "holds",
        tables={
            "kpis": Table("", ("key number", "before", "now", "change", ""), kpis),
            "events": Table(
                "", ("", *_COUNTED), of_events,
                "Changed: late, dropped or in order otherwise than before, or at another time. "
                "Sooner: by how much the order let an event of both go sooner now.",
            ),
            "results": Table(
                "", ("query", *_COUNTED), tuple(rows),
                "Sooner: by how much a result of both was told sooner now; a negative time is "
                "later.",
            ),
            "runs": Table("", ("", "before", "now"), runs),
        },
    )  # fmt: skip
