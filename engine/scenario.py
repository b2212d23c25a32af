"""The contract between `slackwater run` and a scenario (one folder under ``scenarios/``).

A scenario makes an arrival log (by simulation, or by importing a recording), names the queries and
orders to run over it, and scores what came out against what is known to be true.

Layout of a run's directory::

    log/             the arrival log
    truth/           what is known to be true (scenario's own files; simulator's events, clocks)
    manifest.json    seed, options, versions, counts per source, hash of the log
    runs/LABEL/      one per order: windows/ matches/ ordered/ late/ quarantined/ (Parquet
                     parts), counters.json
    results.jsonl    the main order's results
    report.html      report.json
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from slackwater.engine.order.base import Guards
from slackwater.engine.query.reference_tables import Tables


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass over the log: ``label`` names its directory, ``order`` is the CLI's short form.

    ``guards``: what the order does before it trusts an event time. ``barrier``: short form; the
    queries run in the passes that name one and in the first; if that names none, as each query's
    REALTIME says. ``clock``: as of ``--clock``.
    """

    label: str
    order: str
    guards: Guards = field(default_factory=Guards)
    barrier: str | None = None
    clock: tuple[str, ...] = ("exact",)


@dataclass(frozen=True, slots=True)
class Claim:
    """A sentence that the run's data prove or refute: the report leads with these.

    ``ours``, ``published``: of a paper's claim, our figure and the paper's, also in ``detail``.
    ``rests``: on which choices of ours a paper's verdict rests, as the paper does not print them,
    and the range in which it stays the same; also in ``detail``.
    """

    text: str
    holds: bool
    detail: str = ""
    ours: str = ""
    published: str = ""
    rests: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the report; cells are shown as given, units belong into the headings."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str | int | float | None, ...], ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Series:
    """Points of a chart that belong together, in order; ``names`` are shown beside them, without
    any a line is all that is drawn. ``low``, ``high``: of a band around them, or empty.
    """

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    names: tuple[str, ...]
    joined: bool = False
    """Whether a line joins them."""
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Chart:
    """A figure of the report: points on two axes, whose titles name their units."""

    title: str
    caption: str
    x_title: str
    y_title: str
    series: tuple[Series, ...]


@dataclass(frozen=True, slots=True)
class Bar:
    """An interval of a timeline: on which line it lies, what it is (told by colour and legend),
    and what is said when one points at it. ``strong``: drawn fully, as it is part of a match.
    """

    lane: str
    kind: str
    start_ns: int
    end_ns: int
    name: str
    strong: bool = False


@dataclass(frozen=True, slots=True)
class Timeline:
    """A figure of the report: intervals on lines over time, in the order of their first bars."""

    title: str
    caption: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Tile:
    """A key number, shown large: ``value`` in ns, as a share or a count; ``text`` for people.

    ``bound``: what it must keep, as ``<= 2 s``, and ``holds``, whether it does; empty and None
    where nothing is asked of it.
    """

    name: str
    value: float | None
    text: str
    bound: str = ""
    holds: bool | None = None


@dataclass(frozen=True, slots=True)
class Unit:
    """What the report shows instead of a query's own unit: value times ``factor``."""

    name: str
    factor: float


@dataclass(frozen=True, slots=True)
class Score:
    """What a scenario says about its run."""

    claims: tuple[Claim, ...]
    tables: tuple[Table, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    """Numbers for ``report.json`` (and for tests)."""
    charts: tuple[Chart, ...] = ()
    timelines: tuple[Timeline, ...] = ()
    tiles: tuple[Tile, ...] = ()
    """Shown before those that every report has."""
    units: Mapping[str, Unit] = field(default_factory=dict)
    """Of aggregates, by what the query calls them: ``avg(v)``."""
    decisive: bool = False
    """Whether a claim that fails is a failure of the run, as a threshold is: exit code 1."""


class RunnableScenario(Protocol):
    """One folder under ``scenarios/`` exposes ``scenario() -> RunnableScenario``."""

    name: str
    title: str
    what: str
    """One or two sentences for the report: what is simulated or replayed."""

    def options(self) -> Mapping[str, Any]:
        """Names and defaults of ``--set NAME=VALUE``; times are texts such as ``60 s``."""

    def make(self, directory: Path, options: Mapping[str, Any], data: Path) -> dict[str, Any]:
        """Write ``log/``, ``truth/`` and return the manifest (also written to manifest.json).

        ``data`` is where recordings lie. Raises ``UserError`` naming a bad option with the known
        ones, or saying how to get an absent recording.
        """

    def passes(self, options: Mapping[str, Any]) -> Sequence[Pass]:
        """Orders to run; the first is the main one."""

    def queries(self, options: Mapping[str, Any]) -> Mapping[str, str]:
        """Query name -> text; run in the main pass."""

    def score(self, directory: Path, options: Mapping[str, Any]) -> Score:
        """Compare the runs with the truth."""


@runtime_checkable
class SettableScenario(RunnableScenario, Protocol):
    """One that reads ``--set PATH=VALUE`` itself: its settings are not a list of names."""

    def read_settings(self, pairs: list[str]) -> dict[str, Any]:
        """The options that these pairs make.

        Raises:
            UserError: one is wrong.
        """


@runtime_checkable
class HintingScenario(RunnableScenario, Protocol):
    """One that knows beforehand how long it takes."""

    def run_time_hints(self, options: Mapping[str, Any]) -> Sequence[str]:
        """Lines that say what a long run takes and what would shorten it; none of a short one."""


@runtime_checkable
class LookingScenario(RunnableScenario, Protocol):
    """One whose queries look up tables."""

    def tables(self, options: Mapping[str, Any]) -> Tables:
        """Those that the queries name, by name."""


@runtime_checkable
class DeclaringScenario(RunnableScenario, Protocol):
    """One that knows the attributes of its events before any has come."""

    def attributes(self, options: Mapping[str, Any]) -> Mapping[str, str]:
        """Type (``int float bool str``) by attribute."""
