"""What a pass is to do: from the short forms of a command or a call to the chains' settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from engine.barrier.registry import parse_barrier
from engine.chain import ChainSettings
from engine.clocks.choice import read_clock
from engine.constraint.settings import read_monitor
from engine.errors import UserError
from engine.order.base import Guards
from engine.order.registry import parse_order
from engine.pattern.settings import PatternSettings
from engine.query.endpoints.joins import COST, IBP, check_index, check_joins
from engine.query.language.statements import Definition, definitions
from engine.query.plan import Plan
from engine.query.purge_settings import MATCHES_MAX, parse_purge
from engine.units import parse_duration, unit_ns
from engine.window.settings import read_window

# A file of constraints.


def read_definitions(file: Path | None) -> dict[str, Definition]:
    """The constraints of ``file``, by name; None: there are none.

    Raises:
        UserError: it cannot be read, or one of them, with its line.
    """
    if file is None:
        return {}
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UserError(f"{file}: cannot read the constraints: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{file}: is not UTF-8; save it as UTF-8") from error
    return definitions(text, str(file))


# Options of a pass: from the short forms of a command or a call to the chains' settings.


@dataclass(frozen=True, slots=True)
class PassRequest:
    """Options of a pass as typed, for its report.

    ``source``: the input; ``command``: all of it. ``excluded``: a line per source of which events
    were set aside.
    """

    source: str
    plans: Sequence[Plan]
    order: str
    barrier: str | None
    command: str
    excluded: tuple[str, ...] = ()


def asked_of_queries(
    plans: tuple[Plan, ...],
    time_unit: str,
    *,
    order: str = "sequence",
    barrier: str | None = None,
    certainty: str = "pairwise",
    purge: str = "late",
    intervals: str = IBP,
    window: str | None = None,
    monitor: str | None = None,
    guard: str = "1s",
    late: bool = False,
    spill: str | None = None,
    on_spark: bool = False,
    joins: str = COST,
    matches_max: int = MATCHES_MAX,
    clock: str | Sequence[str] = (),
) -> ChainSettings:
    """The settings of chains that answer ``plans``; each option is the command line's, as a text.

    Args:
        plans: of the queries.
        time_unit: of durations without one.
        order: how events are put in order.
        barrier: when matches are let go and windows close; None: as each query's REALTIME says.
        certainty: ``pairwise``, ``max-delay`` or ``max-delay-r19``.
        purge: when a pattern's events are dropped.
        intervals: how an ISEQ is searched: ``naive``, ``indexed``, ``ibp``.
        window: how long windows are corrected, as ``horizon=10m``; None: by default.
        monitor: how patterns under a constraint are followed, as ``horizon=10s``; None: by default.
        guard: the future guard, a duration or ``off``.
        late: whether late and quarantined events are kept.
        spill: where old events of patterns go; None: nowhere.
        on_spark: where the chains run.
        joins: in which order the steps of a SEQ/PAL tree are found.
        matches_max: matches that one event may complete or change.
        clock: what is known of clocks without a sync (``engine.clocks.choice``).

    Raises:
        UserError: a short form is at fault; says how to write it.
    """
    if matches_max < 1:
        raise UserError(f"--matches-max {matches_max}: a number from 1; the default: {MATCHES_MAX}")
    purged, spills = parse_purge(purge, time_unit), None
    if spill is not None:
        from engine.pattern.spill.bounds import read_spill  # noqa: PLC0415 - for few runs

        spills = read_spill(spill, time_unit, plans, purged, on_spark=on_spark)
    return ChainSettings(
        parse_order(order, time_unit),
        plans,
        None if barrier is None else parse_barrier(barrier, time_unit),
        certainty,
        read_guards(guard, time_unit),
        read_clock(clock, time_unit),
        aside=_aside(late),
        pattern=PatternSettings(
            **purged.of_pattern(),
            intervals=check_index(intervals),
            joins=check_joins(joins),
            matches_max=matches_max,
        ),
        spill=spills,
        window=read_window(window, time_unit, plans),
        monitor=read_monitor(monitor, time_unit, plans),
    )


def asked_of_order(
    time_unit: str, *, order: str = "sequence", guard: str = "1s", late: bool = False,
    clock: str | Sequence[str] = (),
) -> ChainSettings:  # fmt: skip
    """The settings of chains that put events in order; arguments as of ``asked_of_queries``.

    Raises:
        UserError: a short form is at fault; says how to write it.
    """
    unit_ns(time_unit)
    return ChainSettings(
        parse_order(order, time_unit),
        guards=read_guards(guard, time_unit),
        clock=read_clock(clock, time_unit),
        ordered="full",
        aside=_aside(late),
    )


def read_guards(text: str, time_unit: str) -> Guards:
    """The future guard of ``--guard``: a duration, or ``off``.

    Raises:
        UserError: neither.
    """
    if text == "off":
        return Guards(None)
    try:
        return Guards(parse_duration(text, time_unit))
    except UserError as error:
        raise UserError(f"--guard {text[:40]}: {error}; or write off") from error


def guarded(settings: ChainSettings, *, arrival_given: bool) -> ChainSettings:
    """Without the future guard where arrivals are only line numbers, which are no instants."""
    return settings if arrival_given else replace(settings, guards=Guards(None))


def _aside(late: bool) -> str:
    return "full" if late else "no"
