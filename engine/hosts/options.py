"""The options of a pass: convert short forms of a command or a call to chain settings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from msgspec import Struct

from slackwater.engine.barrier.registry import BARRIER_FORMS, parse_barrier
from slackwater.engine.core.clocks.choice import read_clock
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.units import parse_duration, unit_ns
from slackwater.engine.hosts.chain import ChainSettings
from slackwater.engine.operators.window.settings import read_window
from slackwater.engine.order.base import Guards, OrderSettings
from slackwater.engine.order.registry import ORDERS, parse_order
from slackwater.engine.query.joins import COST, IBP, check_index, check_joins
from slackwater.engine.query.language.statements import Definition, definitions
from slackwater.engine.query.monitor_plan import read_monitor
from slackwater.engine.query.pattern_settings import MATCHES_MAX, PatternSettings, parse_purge
from slackwater.engine.query.plan import Plan
from slackwater.engine.query.reference_tables import (
    NO_TABLES,
    ROWS_MAX,
    ReferenceTable,
    Tables,
)

# Files of queries and of constraints.


def statement_text(file: Path, of: str, named: str = "") -> str:
    """Return the text of ``file``; ``of``: its content, ``named``: its name, both for messages.

    Raises:
        UserError: it cannot be read.
    """
    named = named or str(file)
    try:
        return file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UserError(f"{named}: cannot read the {of}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{named}: the {of} is not UTF-8; save it as UTF-8") from error


def read_definitions(file: Path | None) -> dict[str, Definition]:
    """Return the constraints of ``file``, by name; None: there are none.

    Raises:
        UserError: the file or a constraint cannot be read; the message has the line.
    """
    if file is None:
        return {}
    return definitions(statement_text(file, "file of constraints"), str(file))


# Reference tables.


def read_tables(sources: Mapping[str, Any]) -> Tables:
    """Return the tables by name; a source is a path, a table in memory, or a table read before.

    Raises:
        UserError: a table cannot be read; the message has the line.
    """
    if not sources:
        return NO_TABLES
    from slackwater.engine.log.input.table_import import read_rows  # noqa: PLC0415 - of few calls

    found = {}
    for name, source in sources.items():
        if isinstance(source, ReferenceTable):
            found[name] = source
            continue
        where = str(source) if isinstance(source, str | Path) else f"table {name}"
        found[name] = ReferenceTable(name, where, *read_rows(source, where, ROWS_MAX))
    return found


def named_tables(words: Sequence[str]) -> dict[str, str]:
    """Return ``NAME=FILE`` words as a dict."""
    return named_words(words, "--table", "NAME=FILE, as in --table tags=tags.csv")


def named_words(words: Iterable[str], option: str, form: str) -> dict[str, str]:
    """Return ``NAME=WORD`` words of ``option`` as a dict; ``form``: its syntax for messages.

    Raises:
        UserError: a word lacks ``=``, or a name occurs twice.
    """
    found: dict[str, str] = {}
    for each in words:
        name, _, word = each.partition("=")
        if not name or not word:
            raise UserError(f"{option} {each}: write {form}")
        if name in found:
            raise UserError(f'{option} {each}: "{name}" is "{found[name]}" already')
        found[name] = word
    return found


# Options of a pass.


@dataclass(frozen=True, slots=True)
class PassRequest:
    """Options of a pass as typed, for its report.

    ``files``: the input; ``command``: the whole command. ``order`` None: by the input.
    ``excluded``: lines about excluded events, per source.
    """

    files: Sequence[str]
    plans: Sequence[Plan]
    order: str | None
    barrier: str | None
    command: str
    excluded: tuple[str, ...] = ()


SEQUENCE: Final = "sequence"
"""The default order, for events with sequence numbers."""


class CommandOption(Struct, frozen=True):
    """Shows a field as a command option of the same name."""

    metavar: str
    help: str


Guard = Annotated[
    str,
    CommandOption(
        "DURATION", "Quarantine events stamped this far beyond their arrival; off = never."
    ),
]


Clock = Annotated[
    Sequence[str],
    CommandOption(
        "CLOCK",
        "Of clocks without a sync: exact, or NAME=OFFSET±BOUND as in badge=-3.2s±0.1s "
        "(repeatable), or a TOML file of these.",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderOptions:
    """Options of the order of events, as on the command line."""

    order: Annotated[
        str | None,
        CommandOption(
            "ORDER",
            f"{', '.join(ORDERS)}; docs: Reference, Order. Default: sequence; by time where events "
            "have no numbers.",
        ),
    ] = None
    guard: Guard = "1s"
    clock: Clock = ()

    def ordering(self, time_unit: str, *, late: bool = False) -> ChainSettings:
        """Return settings of chains that emit the ordered stream and have no queries.

        Args:
            time_unit: of durations without one.
            late: whether late and quarantined events are kept.

        Raises:
            UserError: an option is invalid; the message has its syntax.
        """
        unit_ns(time_unit)
        return ChainSettings(
            self._order_settings(time_unit),
            guards=read_guards(self.guard, time_unit),
            clock=read_clock(self.clock, time_unit),
            ordered="full",
            aside=_aside(late),
        )

    def _order_settings(self, time_unit: str) -> OrderSettings:
        return parse_order(SEQUENCE if self.order is None else self.order, time_unit)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryOptions(OrderOptions):
    """Options of queries, for a command, a call and a server's settings."""

    barrier: Annotated[
        str | None,
        CommandOption(
            "BARRIER",
            f"When matches are let go, windows close: {', '.join(BARRIER_FORMS)}; with ,ordered.",
        ),
    ] = None
    """None: as each query's REALTIME says."""
    certainty: Annotated[str, CommandOption("RULE", "pairwise, max-delay or max-delay-r19.")] = (
        "pairwise"
    )
    purge: Annotated[
        str,
        CommandOption(
            "PURGE", "When a pattern's events are dropped: late:10s, slack:1s, promises."
        ),
    ] = "late"
    intervals: Annotated[
        str,
        CommandOption(
            "INDEX", "How an ISEQ is searched: naive, indexed (by ends), ibp (by starts too)."
        ),
    ] = IBP
    window: Annotated[
        str | None,
        CommandOption(
            "WINDOW",
            "How long after its end a window is corrected: horizon=10m. Default: 60 s, or its "
            "size if that is longer.",
        ),
    ] = None
    monitor: Annotated[
        str | None,
        CommandOption(
            "MONITOR",
            "How traces under a constraint are followed: horizon=10s (late events rewrite). "
            "Default: in release order.",
        ),
    ] = None
    spill: Annotated[
        str | None,
        CommandOption(
            "FOLDER",
            "Old events of patterns go to files: "
            "FOLDER[,hot=..,chunk=..,parts=..,pending=..,wait=..]; on Spark state[,..].",
        ),
    ] = None
    table: Annotated[
        Sequence[str],
        CommandOption("NAME=FILE", "A table for LOOKUP: CSV, JSON or Parquet; repeatable."),
    ] = ()
    joins: Annotated[
        str,
        CommandOption(
            "JOINS",
            "In which order steps of a SEQ/PAL tree are found: cost, left, right. Same results.",
        ),
    ] = COST
    matches_max: Annotated[
        int,
        CommandOption(
            "N", "So many matches may one event complete or change; beyond that the run ends."
        ),
    ] = MATCHES_MAX

    def tables(self) -> Tables:
        """Read the tables for LOOKUP.

        Raises:
            UserError: a table cannot be read; the message has the line.
        """
        return read_tables(named_tables(self.table))

    def answering(
        self,
        plans: tuple[Plan, ...],
        time_unit: str,
        *,
        late: bool = False,
        on_spark: bool = False,
    ) -> ChainSettings:
        """Return settings of chains that answer ``plans``.

        Args:
            plans: plans of the queries.
            time_unit: of durations without one.
            late: whether late and quarantined events are kept.
            on_spark: whether the chains run on Spark.

        Raises:
            UserError: an option is invalid; the message has its syntax.
        """
        if self.matches_max < 1:
            raise UserError(
                f"--matches-max {self.matches_max}: a number from 1; the default: {MATCHES_MAX}"
            )
        purge, spill = parse_purge(self.purge, time_unit), None
        if self.spill is not None:
            from slackwater.engine.operators.match.spill.bounds import read_spill  # noqa: PLC0415 - for few runs

            spill = read_spill(self.spill, time_unit, plans, purge, on_spark=on_spark)
        return ChainSettings(
            self._order_settings(time_unit),
            plans,
            None if self.barrier is None else parse_barrier(self.barrier, time_unit),
            self.certainty,
            read_guards(self.guard, time_unit),
            read_clock(self.clock, time_unit),
            aside=_aside(late),
            pattern=PatternSettings(
                **purge.of_pattern(),
                intervals=check_index(self.intervals),
                joins=check_joins(self.joins),
                matches_max=self.matches_max,
            ),
            spill=spill,
            window=read_window(self.window, time_unit, plans),
            monitor=read_monitor(self.monitor, time_unit, plans),
        )


def read_guards(text: str, time_unit: str) -> Guards:
    """Return the future guard of ``--guard``: a duration, or ``off``.

    Raises:
        UserError: it is neither.
    """
    if text == "off":
        return Guards(None)
    try:
        return Guards(parse_duration(text, time_unit))
    except UserError as error:
        raise UserError(f"--guard {text[:40]}: {error}; or write off") from error


def _aside(late: bool) -> str:
    return "full" if late else "no"
