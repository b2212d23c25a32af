"""Numbers of a report for people: units, names, the conservation table and key numbers."""

from __future__ import annotations

import platform
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Final

import numpy as np
from msgspec import Struct, json

from slackwater.engine.core.units import date, date_digits, duration, is_date, number, percent
from slackwater.engine.scenario import Tile

# Contents of table cells, and times of a run.


Cell = str | int | float | None
"""Content of a table cell: text as it is, other types formatted by ``number``."""
NS_PER_MS: Final = 1_000_000
_TIME_LINES: Final = (
    ("s", 10**9, 1_800), ("min", 60 * 10**9, 1_800), ("h", 3_600 * 10**9, 1_800),
    ("d", 86_400 * 10**9, 1_800), ("years", 31_557_600 * 10**9, 0),
)  # fmt: skip
"""Unit of a time line, its ns, and the largest number of units for which it is used; 0: any."""


@dataclass(frozen=True, slots=True)
class TimeLine:
    """Times since the run's first ``since`` (arrival, or event without arrivals), in ``unit``."""

    origin_ns: int
    unit: str
    unit_ns: int
    last_ns: int
    since: str = "arrival"

    @classmethod
    def of(cls, first_ns: int | None, last_ns: int | None, since: str = "arrival") -> TimeLine:
        """The time line between two instants; None: an empty run."""
        origin = first_ns or 0
        span = (last_ns or 0) - origin
        fitting = (each for each in _TIME_LINES if span <= each[2] * each[1] or not each[2])
        unit, unit_ns, _ = next(fitting)
        return cls(origin, unit, unit_ns, origin + span, since)

    @property
    def title(self) -> str:
        """Title of an axis: meaning of its numbers, and the date at its 0 if instants are dates."""
        said = f"time since the first {self.since} [{self.unit}]"
        if not is_date(self.origin_ns):
            return said
        at = date(self.origin_ns, "UTC", min(date_digits(self.origin_ns), 3))
        return f"{said}\n0 is {at.replace('T', ' ').replace('Z', ' UTC')}"

    @property
    def whole(self) -> list[float]:
        """Range of an axis that shows the whole run, with a margin."""
        last = self.place(self.last_ns)
        return [-0.02 * last, 1.02 * last]

    def text(self, at_ns: int) -> str:
        """An instant on the time line, as text."""
        return f"{number(round(self.place(at_ns), 6))}\N{NO-BREAK SPACE}{self.unit}"

    def place(self, at_ns: int) -> float:
        """An instant on the time line, in ``unit``."""
        return (at_ns - self.origin_ns) / self.unit_ns


# Conversion of scenarios' data to types of JSON.


def plain(value: Any) -> Any:
    """Convert ``value`` to dicts, lists, texts, numbers, bools and None only.

    NumPy values become Python's, numbers that are not finite become None, other objects texts.
    """
    return json.decode(json.encode(value, enc_hook=_builtin))


def _builtin(value: Any) -> Any:
    """JSON form of an object of another type."""
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else str(value)


def as_json(value: Any, indent: int | None = None) -> str:
    """JSON text of a value that ``plain`` accepts: one line, or indented."""
    return json.format(json.encode(value, enc_hook=_builtin), indent=indent or 0).decode()


# The terms of the conservation table, in the order in which an event passes them.


@dataclass(frozen=True, slots=True)
class BalanceTerm:
    """One column of the table: a count of events."""

    key: str
    heading: str
    definition: str


BEFORE: Final = (
    BalanceTerm("generated", "generated", "happened on the device"),
    BalanceTerm("made", "intervals made", "by the agents, of readings (interval abstraction)"),
    BalanceTerm(
        "abstracted", "in intervals", "readings that are not sent: intervals stand for them"
    ),
    BalanceTerm(
        "refused_by_agent", "refused by agent", "its queue was full, or the record was invalid"
    ),
    BalanceTerm("forgotten", "forgotten", "gone at a restart before the agent polled them"),
    BalanceTerm("not_polled", "not polled", "the run was over before the agent looked"),
    BalanceTerm("accepted", "numbered", "given a sequence number by the agent"),
    BalanceTerm("entered", "sent", "entered the network; an event that is sent again counts again"),
    BalanceTerm("copied", "duplicated", "extra copies that the network made"),
    BalanceTerm("lost", "lost", "lost by the network"),
    BalanceTerm("cut", "cut off", "entered the network during an outage"),
    BalanceTerm("queue_dropped", "queue full", "dropped by the network's queue"),
    BalanceTerm("left", "came out", "came out of the network, copies included"),
    BalanceTerm("closed", "closed", "came out on a connection that was closed already"),
    BalanceTerm("under_way", "under way", "still in the network when the run ended"),
    BalanceTerm("delivered", "delivered", "given to the gateway"),
    BalanceTerm("known", "already known", "duplicates that the gateway dropped (resent or copied)"),
    BalanceTerm(
        "refused_by_gateway", "refused by gateway", "broke a rule; kept with the dead letters"
    ),
    BalanceTerm("unheard", "unheard", "in messages for which the gateway closed the connection"),
    BalanceTerm("logged", "logged", "written to the arrival log"),
    BalanceTerm(
        "never_logged", "never logged", "numbered by the agent, and not in the arrival log"
    ),
)
PASS: Final = (
    BalanceTerm("arrived", "arrived", "read from the arrival log by the engine"),
    BalanceTerm("in_order", "in order", "released in order of reference time"),
    BalanceTerm("residual", "residual", "released although a later ref had been released before"),
    BalanceTerm("late_passed", "late passed", "arrived after their place was given up; passed on"),
    BalanceTerm("late_dropped", "late dropped", "arrived after their place was given up; dropped"),
    BalanceTerm(
        "residual_dropped", "residual dropped", "dropped: a later ref had been released before"
    ),
    BalanceTerm("duplicate", "duplicates dropped", "their number had been released already"),
    BalanceTerm(
        "quarantined_future", "quarantined (future)", "ref lies impossibly far after arrival"
    ),
    BalanceTerm(
        "quarantined_jump", "quarantined (jump)", "number impossibly far ahead of its lane"
    ),
    BalanceTerm("released", "released", "rows of the ordered stream that go on to the queries"),
    BalanceTerm("missing_total", "given up", "numbers that the order stopped waiting for"),
    BalanceTerm("missing_filled", "filled late", "given up, and arrived after all"),
    BalanceTerm("missing", "missing", "given up, and never arrived"),
)
LINK_TERMS: Final = ("entered", "copied", "lost", "cut", "queue_dropped", "left")
LANE_COUNTERS: Final = (
    "arrived", "in_order", "residual", "late_passed", "late_dropped", "residual_dropped",
    "duplicate", "quarantined_future", "quarantined_jump", "missing_total", "missing_filled",
)  # fmt: skip
HEADINGS: Final[Mapping[str, str]] = {
    **{term.key: term.heading for term in (*BEFORE, *PASS)},
    "truth_rows": "rows of the truth",
    "dropped_rows": "dropped rows of the ordered stream",
}


@dataclass(frozen=True, slots=True)
class Equation:
    """Sums that must be equal; with ``at_most``, the left one must not exceed the right one."""

    left: tuple[str, ...]
    right: tuple[str, ...]
    at_most: bool = False

    @property
    def text(self) -> str:
        """The equation in the words of the table."""
        sides = (" + ".join(HEADINGS[key] for key in side) for side in (self.left, self.right))
        return (" ≤ " if self.at_most else " = ").join(sides)

    def sums(self, counts: Mapping[str, Any]) -> tuple[int, int] | None:
        """(left, right), or None if a term is unknown."""
        if any(counts.get(key) is None for key in (*self.left, *self.right)):
            return None
        left, right = (sum(counts[key] for key in side) for side in (self.left, self.right))
        return left, right

    def off(self, left: int, right: int) -> int:
        """By how much the sums disagree: left minus right, 0 = balanced."""
        return max(left - right, 0) if self.at_most else left - right


BEFORE_EQUATIONS: Final = (
    Equation(
        ("generated", "made"),
        ("accepted", "refused_by_agent", "forgotten", "abstracted", "not_polled"),
    ),
    Equation(("generated",), ("truth_rows",)),
    Equation(("entered", "copied"), ("left", "lost", "cut", "queue_dropped")),
    Equation(("left",), ("delivered", "closed", "under_way")),
    Equation(("delivered",), ("logged", "known", "refused_by_gateway", "unheard")),
    Equation(("accepted",), ("logged", "never_logged")),
)
PASS_EQUATIONS: Final = (
    Equation(("logged",), ("arrived",)),
    Equation(
        ("arrived",),
        (
            "in_order", "residual", "late_passed", "late_dropped", "residual_dropped",
            "duplicate", "quarantined_future", "quarantined_jump",
        ),
    ),
    Equation(("released",), ("in_order", "residual", "late_passed")),
    Equation(("dropped_rows",), ("late_dropped", "residual_dropped")),
    Equation(("missing_filled",), ("missing_total",), at_most=True),
    # An event that never passed its lane under its own number can at most be found missing.
    Equation(
        ("missing",),
        ("never_logged", "duplicate", "quarantined_future", "quarantined_jump"),
        at_most=True,
    ),
)  # fmt: skip


# Every number of the page: name, definition and unit, shown at the end of the report.


_MORE: Final = (
    ("arrival", "when the receiver got an event, on the engine's clock", "s since first arrival"),
    ("balanced", "both sides of an equation are equal, for every source and in total", "events"),
    (
        "out of order",
        "some event of the site that arrived (or was released) earlier has a larger event time",
        "events",
    ),
    ("inversions", "pairs of events of a site in the wrong order", "pairs"),
    (
        "lateness",
        "largest event time seen so far minus the event's own; of events out of order only",
        "ms",
    ),
    ("ts", "event time at the source's own clock", "ns in files"),
    ("ref", "event time on the engine's clock: ts plus the source's offset", "ns in files"),
    ("hold time", "release minus arrival: how long ordering kept the event", "ms"),
    (
        "p50, p95, p99, p99.9",
        "at least this share of all values are at most this large; a value that occurred",
        "as its column",
    ),
    (
        "clock error",
        "ref minus the engine clock's reading when the event truly happened; positive = too late",
        "ms",
    ),
    (
        "declared bound",
        "half the time-sync delay plus the clocks' precision, growing with the offset's age",
        "ms",
    ),
    ("inside the bound", "events whose clock error is at most their declared bound", "%"),
    ("largest sync delay", "over a site's sources, of the delays that the time sync keeps", "ms"),
    ("most buffered", "largest number of events held at one time, of the site with most", "events"),
    ("error bar of a window", "what the clocks' errors could have made of it", "as the value"),
    ("missing in a window", "events known to be missing that could belong to it", "events"),
    (
        "ambiguous",
        "events of a window that the clocks' errors could move out of it or into it",
        "events",
    ),
    ("inserted, retracted", "results given out (+), and taken back (-) later", "results"),
    (
        "confirmed, uncertain",
        "no clock error within the bounds could undo the match; some could",
        "matches",
    ),
    ("unknown", "matches that compare clocks of which one is unknown: nobody knows", "matches"),
    ("taken back", "matches that were retracted and not given out again", "matches"),
    ("time to result", "instant a match was given out minus the end of its last event", "ms"),
    ("seconds of a pass", "how long the computer took for it; not part of any result", "s"),
)  # fmt: skip


def glossary(known: Collection[str]) -> list[dict[str, str]]:
    """``term``, ``definition`` and ``unit`` of each reported number.

    Args:
        known: keys of the terms before the arrival log that are known.
    """
    before = [term for term in BEFORE if term.key in known]
    counts = [(term.heading, term.definition, "events") for term in (*before, *PASS)]
    return [
        {"term": term, "definition": definition, "unit": unit}
        for term, definition, unit in (*counts, *_MORE)
    ]


def with_anchors(words: Iterable[Mapping[str, str]]) -> list[dict[str, str]]:
    """The entries of a glossary, each with the ``anchor`` of its place on a page."""
    return [{**each, "anchor": f"term-{at}"} for at, each in enumerate(words)]


def places_of(words: Iterable[Mapping[str, str]]) -> dict[str, tuple[str, str]]:
    """Term -> anchor and definition, from entries with anchors."""
    return {each["term"]: (each["anchor"], each["definition"]) for each in words}


# The key numbers of a report: tiles of its page, and the numbers by which runs are compared.


Report = Mapping[str, Any]


class Kpi(Struct, frozen=True, rename={"text": "shown"}):
    """One number: ``value`` in ns, as a share or a count; ``better``: ``less``, ``more`` or empty.

    ``name`` is the same in every run; ``text`` (``shown`` in JSON) and ``note`` are for people;
    ``term`` is its entry in the glossary. ``bound`` and ``holds``: as in ``engine.scenario.Tile``.
    """

    name: str
    value: float | None
    unit: str
    text: str
    note: str = ""
    better: str = ""
    term: str = ""
    bound: str = ""
    holds: bool | None = None


def kpis(report: Report, tiles: Sequence[Tile]) -> list[dict[str, Any]]:
    """Key numbers as plain data: the scenario's, then those of every report, if known."""
    found = [
        Kpi(
            each.name,
            each.value,
            unit_of(each.name),
            each.text,
            bound=each.bound,
            holds=each.holds,
        )
        for each in tiles
    ]
    return list(plain([*found, *_of_events(report), *_of_queries(report)]))


def with_unit(name: str, value: float) -> str:
    """Text of a scenario's metric with its unit."""
    unit = unit_of(name)
    if unit == "ns":
        return duration(value)
    return f"{number(100 * value)} %" if unit == "share" else number(value)


def unit_of(name: str) -> str:
    """Unit of a metric of scenario files, by its name."""
    metric = name.rpartition(": ")[2]
    if "delay" in metric or metric.startswith("hold"):
        return "ns"
    return "count" if metric in ("results", "events") else "share"


def _of_events(report: Report) -> Iterator[Kpi]:
    main = report["run"]["passes"][0]["label"]
    counts = report["conservation"]["passes"][main]["total"]
    sources = report["run"]["sources"]
    yield Kpi(
        "events arrived", counts["arrived"], "count", number(counts["arrived"]),
        f"of {number(sources)} source{'' if sources == 1 else 's'}", term="arrived",
    )  # fmt: skip
    yield from _lost(report, counts)
    arrived, left = report["disorder"]["arrived_ref"], report["disorder"]["released"][main]
    if arrived["events"]:
        before = percent(arrived["out_of_order"], arrived["events"])
        rest = left["in_time_out_of_order"]
        marked = left["late"] + left["residual"]
        note = f"{before} on arrival" + (f"; {number(marked)} marked late" if marked else "")
        yield _share("out of order after ordering", rest, left["events"], note, "out of order")
        if marked:
            yield _share("came too late", marked, left["events"], "and marked so", "late passed")
    dropped = counts["late_dropped"] + counts["residual_dropped"]
    if dropped:
        note = f"{number(dropped)}: they are in no answer"
        yield _share("dropped as too late", dropped, counts["arrived"], note, "late dropped")
    yield from _clocks(report)
    hold = report["holds"][main]["hold_ns"]
    if hold["p95"] is not None and report["run"]["arrival_given"]:
        note = f"half at most {duration(hold['p50'])}"
        yield Kpi(
            "hold time p95", hold["p95"], "ns", duration(hold["p95"]), note, "less", "hold time"
        )


def _share(name: str, part: int, whole: int, note: str, term: str) -> Kpi:
    value = part / whole if whole else None
    return Kpi(name, value, "share", percent(part, whole), note, "less", term)


def _lost(report: Report, counts: Mapping[str, int]) -> Iterator[Kpi]:
    before = report["conservation"]["before"]["total"]
    lost = before.get("never_logged")
    if lost is not None:
        note = f"{number(lost)} of {number(before['accepted'])} that were sent"
        yield _share("never arrived", lost, before["accepted"], note, "never logged")
    elif counts["missing_total"] or counts["missing"]:
        known = counts["missing"] + counts["arrived"]
        note = f"{number(counts['missing'])} number{'s' * (counts['missing'] != 1)} never came"
        yield _share("declared lost", counts["missing"], known, note, "missing")


def _clocks(report: Report) -> Iterator[Kpi]:
    apart = report["over_time"]["clocks"]
    if apart is None:
        return
    note = f"{duration(apart['spread_ns'])} apart by themselves"
    worst = [each["error_ns"]["max"] for each in report["clock_error"]["sources"].values()
             if each.get("with_truth")]  # fmt: skip
    if worst:
        value = max(worst)
        name, term = "max clock error", "clock error"
    else:
        value, name, term = apart["bound_ns"]["max"], "clocks known to ±", "declared bound"
    yield Kpi(name, value, "ns", duration(value), note, "less", term)


def _of_queries(report: Report) -> Iterator[Kpi]:
    for query, found in report["matches"].items():
        unknown = found.get("unknown", 0)  # missing in older reports
        count = found["confirmed"] + found["uncertain"] + unknown
        note = f"{number(found['uncertain'])} of them uncertain"
        if found["true"]:
            note += f"; {number(found['true'])} in truth"
        if unknown:
            note += f"; {number(unknown)} unknown, as no clock tells"
        if found["taken_back"]:
            note += f"; {number(found['taken_back'])} taken back"
        yield Kpi(f"{query}: matches", count, "count", number(count), note,
                  term="confirmed, uncertain")  # fmt: skip
        delay = found["delay_ns"]["p95"]
        if delay is not None and report["run"]["arrival_given"]:
            note = f"half within {duration(found['delay_ns']['p50'])}"
            yield Kpi(f"{query}: time to result p95", delay, "ns", duration(delay), note, "less",
                      "time to result")  # fmt: skip
    for query, found in report["windows"].items():
        windows = found["windows"] - found["phantom"]
        note = f"{number(found['with_missing'])} of them miss events"
        if found["ambiguous"]:
            share = percent(found["ambiguous"], found["certain"] + found["ambiguous"])
            note += f"; {share} of all lie near a border"
        yield Kpi(f"{query}: windows", windows, "count", number(windows), note,
                  term="missing in a window")  # fmt: skip


# Versions with which a report was made.


_NAMED: Final = ("slackwater", "numpy", "numba", "pyarrow", "pyspark", "plotly")


def versions() -> dict[str, str]:
    """Versions of Python, slackwater, and the libraries on which numbers could depend."""
    found = {"python": platform.python_version()}
    for name in _NAMED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found
