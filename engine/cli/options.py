"""Options that several commands share."""

from __future__ import annotations

import inspect
import itertools
import os
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Final, get_type_hints

import typer

from slackwater.edge_agent.errors import print_stderr
from slackwater.edge_agent.settings_file import HIDDEN
from slackwater.engine.core.errors import UserError, need
from slackwater.engine.hosts.java import need_spark
from slackwater.engine.hosts.options import CommandOption, named_words
from slackwater.engine.hosts.pipeline import Host
from slackwater.engine.log.input.input_read import (
    FORMATS,
    ON_SHORT,
    SORTS,
    InputForm,
    named_by_file,
)
from slackwater.engine.log.input.lines import STDIN
from slackwater.engine.log.input.numbering import BITS
from slackwater.engine.log.record.times import DEFAULT_UNIT

# Groups of options: a command has one parameter for each group.


def takes_options(command: Callable[..., None]) -> Callable[..., None]:
    """Decorator that gives ``command`` the options of its groups.

    A parameter whose type is a dataclass is a group. Its fields are options, described by
    ``typer.Option`` or ``CommandOption``, or groups.
    """
    hints = get_type_hints(command, include_extras=True)
    parameters: list[inspect.Parameter] = []
    groups = {}
    for name, each in inspect.signature(command).parameters.items():
        if is_dataclass(hints[name]):
            groups[name] = hints[name]
            parameters += _options(hints[name])
        else:
            parameters.append(_option(name, hints[name], each.default))

    @wraps(command)
    def with_groups(**arguments: Any) -> None:
        made = {name: _made(group, arguments) for name, group in groups.items()}
        command(**arguments, **made)

    with_groups.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_groups.__annotations__ = {each.name: each.annotation for each in parameters}
    return with_groups


def _options(group: Any) -> Iterator[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    for each in fields(group):
        hint = hints[each.name]
        if is_dataclass(hint):
            yield from _options(hint)
            continue
        yield _option(each.name, hint, each.default)


def _option(name: str, hint: Any, default: object) -> inspect.Parameter:
    """A field of a group as a parameter for typer."""
    kind, about = hint.__origin__, hint.__metadata__[0]
    if isinstance(about, CommandOption):
        about = typer.Option(f"--{name.replace('_', '-')}", metavar=about.metavar, help=about.help)
    if kind == Sequence[str]:
        kind, default = list[str] | None, None
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, about]
    )


def _made(group: Any, arguments: dict[str, Any]) -> Any:
    """Make the group's object from options, which are removed from ``arguments``."""
    hints = get_type_hints(group)
    values = {}
    for each in fields(group):
        kind = hints[each.name]
        if is_dataclass(kind):
            values[each.name] = _made(kind, arguments)
            continue
        value = arguments.pop(each.name)
        values[each.name] = tuple(value or ()) if kind == Sequence[str] else value
    return group(**values)


Quiet = Annotated[bool, typer.Option("--quiet", help="No progress.")]
Json = Annotated[bool, typer.Option("--json", help="The same as JSON, on standard output.")]
JsonNumbers = Annotated[
    bool, typer.Option("--json", help="All numbers as JSON on standard output, no table.")
]
Summary = Annotated[
    list[Path] | None,
    typer.Option(
        "--summary",
        metavar="FILE",
        help="The verdict for CI: .xml is JUnit, .md Markdown; repeatable.",
    ),
]


def refuse_options(options: Mapping[str, object], why: str) -> None:
    """Refuse options that do not fit the others.

    Raises:
        UserError: one of them was given.
    """
    for name, value in options.items():
        if value:
            raise UserError(f"{name} {why}")


# Where a command's chains run: in this process, or on Spark if requested.


HERE: Final = "in process"
LOCAL: Final = "local[*]"


@dataclass(frozen=True)
class HostOptions:
    """Options about where a pass runs."""

    spark: Annotated[
        bool, typer.Option("--spark", help="On Spark, on all cores of this machine.")
    ] = False
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="On Spark with this master, as local[2].")
    ] = None
    in_process: Annotated[
        bool, typer.Option("--in-process", help="In this process: the default.")
    ] = False

    def host(self) -> Host:
        """The host: in process unless Spark is requested.

        Raises:
            UserError: both are requested, or Spark is and is not installed.
        """
        if self.in_process and (self.spark or self.master is not None):
            other = "--spark" if self.spark else "--master"
            raise UserError(f"--in-process and {other}: give one of them")
        if not self.spark and self.master is None:
            return Host()
        need_spark("leave --spark and --master out (--in-process): the answers are the same")
        return Host(self.master if self.master is not None else LOCAL)


def spoken_host(host: Host) -> str:
    """The host as named in a summary."""
    return HERE if host.master is None else f"on Spark {host.master}"


# Options for reading an input.


_BAD_SUFFIX: Final = ".bad.jsonl"
"""Suffix of the file for skipped lines if none is named."""


_FORMAT_HELP: Final = f"Of the input: {' '.join(FORMATS)}; default: seen from its content."


@dataclass(frozen=True)
class InputOptions:
    """Format of an input that is no arrival log."""

    time_unit: Annotated[
        str | None,
        typer.Option(
            metavar="UNIT", help="Of times of input and output: ns us ms s min h d; default: ns."
        ),
    ] = None
    columns: Annotated[
        Sequence[str],
        typer.Option(
            "--map",
            metavar="FIELD=COLUMN",
            help="Which column or JSON key is what, e.g. ts=Client.Time; repeatable.",
        ),
    ] = ()
    attrs: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES", help="Columns that become attributes, with commas; default: the rest."
        ),
    ] = None
    delimiter: Annotated[
        str | None, typer.Option(metavar="CHAR", help="Of CSV; default: seen from the header.")
    ] = None
    header: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="Names of the columns of CSV without a header."),
    ] = None
    sort: Annotated[
        str | None,
        typer.Option(metavar="|".join(SORTS), help="Put the rows of an unsorted input into order."),
    ] = None
    timezone: Annotated[
        str | None,
        typer.Option(
            metavar="ZONE", help="Of times that name none, as Europe/Berlin; default: UTC."
        ),
    ] = None
    seq_bits: Annotated[
        Sequence[str],
        typer.Option(
            metavar="8|16|32",
            help="Numbers are counters of so many bits that wrap around; or STREAM=8, "
            "SOURCE/STREAM=8, repeatable.",
        ),
    ] = ()

    source_from: Annotated[
        str | None,
        typer.Option(metavar="name", help="The name of a file becomes the source of its rows."),
    ] = None
    stream_from: Annotated[
        str | None,
        typer.Option(metavar="name", help="The name of a file becomes the stream of its rows."),
    ] = None

    skip_lines: Annotated[
        int, typer.Option(metavar="N", help="Lines of CSV before the header; # and // go anyway.")
    ] = 0
    null: Annotated[
        str | None,
        typer.Option(metavar="WORDS", help="Texts that are no values, as unavailable,unknown,-."),
    ] = None
    on_short: Annotated[
        str,
        typer.Option(metavar="|".join(ON_SHORT), help="What rows of CSV are that lack values."),
    ] = "bad"
    date: Annotated[
        str | None,
        typer.Option(
            metavar="DATE",
            help="Of times of day alone, as 2026-03-01; of 3/1/2026 month-first or day-first.",
        ),
    ] = None
    encoding: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Of text that is not UTF-8, as cp1252 (Windows)."),
    ] = None
    file_format: Annotated[
        str | None,
        typer.Option("--format", metavar="FORMAT", help=_FORMAT_HELP),
    ] = None

    @property
    def unit(self) -> str:
        """Unit of times in results, and of durations without one."""
        return self.time_unit or DEFAULT_UNIT

    def form(self) -> InputForm:
        """The options as ``InputForm``. Without ``--time-unit`` the reader may refuse the default.

        Raises:
            UserError: an option is invalid.
        """
        return InputForm(
            self.time_unit,
            named_words(self.columns, "--map", "FIELD=COLUMN, as in --map ts=Client.Time"),
            _names(self.attrs),
            self.delimiter,
            _names(self.header),
            self.sort,
            self.timezone,
            parse_seq_bits(self.seq_bits),
            named_by_file(self.source_from, self.stream_from),
            self.file_format,
            self.skip_lines,
            tuple(_names(self.null) or ()),
            self.on_short,
            self.date,
            self.encoding,
        )


@dataclass(frozen=True)
class ExportedInputOptions(InputOptions):
    """``InputOptions`` for commands whose ``--format`` is that of the output."""

    file_format: Annotated[
        str | None, typer.Option("--input-format", metavar="FORMAT", help=_FORMAT_HELP)
    ] = None


@contextmanager
def ending_with_a_command(
    sources: Sequence[str], form: InputForm, *, may_skip: bool = False
) -> Iterator[None]:
    """Append a command that reads the input to a refusal, if inspection of the input finds one.

    Args:
        sources: of the input.
        form: its format according to the options.
        may_skip: whether the command has ``--on-bad``.

    Raises:
        UserError: the refusal.
    """
    try:
        yield
    except UserError as error:
        if STDIN in sources:
            raise
        from slackwater.engine.log.input.look import look  # noqa: PLC0415 - of few calls

        try:
            found = look(sources, form)
        except UserError:
            raise error from None
        if not found.options or (found.fault and not (may_skip and found.skipped)):
            raise
        reads = f"this reads all but {found.skipped:,} of it" if found.skipped else "this reads it"
        raise UserError(f"{error}\n{reads}: {typed()} {shlex.join(found.options)}") from error


@dataclass(frozen=True)
class BadLineOptions:
    """Options about lines that cannot be read."""

    on_bad: Annotated[
        str,
        typer.Option(metavar="stop|skip", help="stop at a bad line, or skip, count and keep it."),
    ] = "stop"
    dead_letter: Annotated[
        Path | None, typer.Option(metavar="FILE", help="JSONL file for the skipped lines.")
    ] = None


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def parse_seq_bits(words: Iterable[str]) -> dict[str, int]:
    """Parse ``8``, ``STREAM=8`` or ``SOURCE/STREAM=8`` as bits by stream.

    Raises:
        UserError: other bits, or a stream given twice.
    """
    bits: dict[str, int] = {}
    for word in words:
        stream, _, of = word.rpartition("=")
        if of not in map(str, BITS) or stream in bits:
            raise UserError(f"--seq-bits {word}: write 8, 16 or 32, once for each stream")
        bits[stream] = int(of)
    return bits


def bad_file(beside: Path) -> Path:
    """Return a new file name for skipped lines.

    Args:
        beside: file or folder of the output, from which the name is derived.
    """
    names = itertools.chain([""], (f".{number}" for number in itertools.count(2)))
    paths = (beside.with_name(f"{beside.name}{number}{_BAD_SUFFIX}") for number in names)
    return next(path for path in paths if not os.path.lexists(path))


# ``--report DIR`` and ``--against DIR``: a report of a pass, and a comparison with another.


Against = Annotated[
    Path | None,
    typer.Option(
        "--against", metavar="DIR", help="An earlier run or --report: what changed since."
    ),
]


@dataclass(frozen=True)
class ReportOptions:
    """Folder of the report, and of the report to compare with."""

    report: Annotated[
        Path | None,
        typer.Option(
            "--report", metavar="DIR", help="Folder for report.html: the story as a page."
        ),
    ] = None
    against: Against = None

    def check(self) -> None:
        """Check early for errors that would otherwise occur at the end.

        Raises:
            UserError: ``--against`` without ``--report``, no report there, or a folder with other
                files.
            MissingExtra: the extra [report] is not installed.
        """
        if self.report is None:
            if self.against is not None:
                raise UserError(
                    "--against compares two reports: name a folder for this one, --report"
                )
            return
        need("report")
        from slackwater.engine.apps.report.write import check_report  # noqa: PLC0415 - needs the extra

        check_report(self.report)
        check_against(self.against, self.report)


def check_against(against: Path | None, now: Path) -> None:
    """Check that ``against`` has a report and is not the folder to be written.

    Raises:
        UserError: one of the two does not hold.
    """
    if against is None:
        return
    from slackwater.engine.apps.report.against import read_report  # noqa: PLC0415 - rarely asked for

    read_report(against)
    if now.exists() and against.samefile(now):
        raise UserError(f"--against {against}: is where this run goes; choose another folder")


def print_against(against: Path | None, now: Path) -> None:
    """Write the comparison next to the report in ``now``, and its summary to standard error."""
    if against is None:
        return
    from slackwater.engine.apps.report.against import HTML, write_against  # noqa: PLC0415 - as above

    for line in write_against(against, now):
        print_stderr(f"{line}\n")
    print_stderr(f"{now / HTML}\n")


_PASSWORD: Final = re.compile(r"(?<=://)([^\s/:@]*):[^\s/@]*@")


def typed() -> str:
    """The command line for repetition, without passwords in addresses."""
    words = [_PASSWORD.sub(rf"\1:{HIDDEN}@", word) for word in sys.argv[1:]]
    return shlex.join(["slackwater", *words])


# Options that are a share: ``5 %`` or ``0.05``.


def read_share(option: str, text: str, example: str) -> float:
    """Parse a share above 0 and at most 1; ``example``: for messages.

    >>> read_share("--uncertain", "5 %", "0.05"), read_share("--uncertain", "0.05", "0.05")
    (0.05, 0.05)

    Raises:
        UserError: the text is no such share.
    """
    number, percent, rest = text.strip().partition("%")
    try:
        share = float(number) / (100 if percent else 1)
    except ValueError:
        share = -1.0
    if rest or not 0 < share <= 1:
        raise UserError(f"{option} {text}: write a share above 0 and at most 1, such as {example}")
    return share
