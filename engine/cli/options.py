"""Options that several commands have."""

from __future__ import annotations

import inspect
import itertools
import os
import shlex
import sys
from collections.abc import Callable, Iterable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Final, get_type_hints

import typer

from engine.cli.visible import print_stderr
from engine.errors import UserError
from engine.extras import need
from engine.log.input.input_read import SORTS, InputForm
from engine.log.input.numbering import BITS
from engine.log.record.times import DEFAULT_UNIT
from engine.passes.pipeline import Host

# Where a command's chains run: in this process, or on Spark where that is asked for.


HERE: Final = "in process"
_LOCAL: Final = "local[*]"

OnSpark = Annotated[bool, typer.Option("--spark", help="On Spark, on all cores of this machine.")]
Master = Annotated[
    str | None, typer.Option(metavar="URL", help="On Spark with this master, as local[2].")
]
InProcess = Annotated[bool, typer.Option("--in-process", help="In this process: the default.")]


def choose_host(*, on_spark: bool, master: str | None, in_process: bool) -> Host:
    """In process unless Spark is asked for.

    Raises:
        UserError: both are asked for.
    """
    if in_process and (on_spark or master is not None):
        asked = "--spark" if on_spark else "--master"
        raise UserError(f"--in-process and {asked}: give one of them")
    return Host(master if master is not None else _LOCAL if on_spark else None)


def spoken_host(host: Host) -> str:
    """The host in the words of a summary."""
    return HERE if host.master is None else f"on Spark {host.master}"


# Options for how an input is read, which several commands have.


_BAD_SUFFIX: Final = ".bad.jsonl"
"""Of the file for skipped lines, where none is named."""

OnBad = Annotated[
    str, typer.Option(metavar="stop|skip", help="stop at a bad line, or skip, count and keep it.")
]
DeadLetter = Annotated[
    Path | None, typer.Option(metavar="FILE", help="JSONL file for the skipped lines.")
]
Map = Annotated[
    list[str] | None,
    typer.Option(
        "--map",
        metavar="FIELD=COLUMN",
        help="Which column or JSON key is what, e.g. ts=Client.Time; repeatable.",
    ),
]
Attrs = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES", help="Columns that become attributes, with commas; default: the rest."
    ),
]
Delimiter = Annotated[
    str | None, typer.Option(metavar="CHAR", help="Of CSV; default: seen from the header.")
]
Header = Annotated[
    str | None,
    typer.Option(metavar="NAMES", help="Names of the columns of CSV without a header."),
]
Sort = Annotated[
    str | None,
    typer.Option(metavar="|".join(SORTS), help="Put the rows of an unsorted input into order."),
]
Timezone = Annotated[
    str | None,
    typer.Option(metavar="ZONE", help="Of times that name none, as Europe/Berlin; default: UTC."),
]
SeqBits = Annotated[
    list[str] | None,
    typer.Option(
        metavar="8|16|32",
        help="Numbers are counters of so many bits that wrap around; or STREAM=8, repeatable.",
    ),
]
Unit = Annotated[
    str | None, typer.Option("--time-unit", metavar="UNIT", help="Of times: ns us ms s min h d.")
]
_OPTIONS: Final = {
    "columns": Map, "attrs": Attrs, "delimiter": Delimiter, "header": Header, "sort": Sort,
    "timezone": Timezone, "seq_bits": SeqBits,
}  # fmt: skip
_FORM: Final = "form"
_UNIT: Final = "time_unit"


def reads_input(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options for how an input is written, as its argument ``form``.

    ``form.unit`` is None unless ``--time-unit`` was given: then the input's own times may say that
    the default cannot be right.
    """
    hints = get_type_hints(command, include_extras=True)
    shown = []
    for name, each in inspect.signature(command).parameters.items():
        if name == _UNIT:
            of, option = hints[name].__origin__, hints[name].__metadata__
            shown.append(each.replace(default=None, annotation=Annotated[of | None, *option]))
        elif name != _FORM:
            shown.append(each.replace(annotation=hints[name]))
    keyword = inspect.Parameter.KEYWORD_ONLY
    shown = [each.replace(kind=keyword) for each in shown]
    given_on = any(each.name == _UNIT for each in shown)
    if not given_on:
        shown.append(inspect.Parameter(_UNIT, keyword, default=None, annotation=Unit))
    shown += [
        inspect.Parameter(n, keyword, default=None, annotation=t) for n, t in _OPTIONS.items()
    ]

    @wraps(command)
    def with_form(**given: Any) -> None:
        values = {name: given.pop(name, None) for name in _OPTIONS}
        unit = given.pop(_UNIT)
        form = InputForm(
            unit,
            parse_mapping(values["columns"] or []),
            _names(values["attrs"]),
            values["delimiter"],
            _names(values["header"]),
            values["sort"],
            values["timezone"],
            parse_seq_bits(values["seq_bits"] or []),
        )
        if given_on:
            given[_UNIT] = unit or DEFAULT_UNIT
        command(**given, form=form)

    with_form.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    with_form.__annotations__ = {each.name: each.annotation for each in shown}
    return with_form


def _names(text: str | None) -> list[str] | None:
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def parse_mapping(pairs: Iterable[str]) -> dict[str, str]:
    """``FIELD=COLUMN`` words as a dict.

    Raises:
        UserError: a word without ``=``, or a field given twice.
    """
    mapping: dict[str, str] = {}
    for pair in pairs:
        field, equals, column = pair.partition("=")
        if not equals or not field or not column:
            raise UserError(f"--map {pair}: write FIELD=COLUMN, as in --map ts=Client.Time")
        if field in mapping:
            raise UserError(f'--map {pair}: "{field}" is "{mapping[field]}" already')
        mapping[field] = column
    return mapping


def parse_seq_bits(words: Iterable[str]) -> dict[str, int]:
    """``8`` or ``STREAM=8`` words as bits by stream.

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
    """A file for skipped lines where none is named: one that is not there yet.

    Args:
        beside: file or folder of the output, after which it is named.
    """
    names = itertools.chain([""], (f".{number}" for number in itertools.count(2)))
    paths = (beside.with_name(f"{beside.name}{number}{_BAD_SUFFIX}") for number in names)
    return next(path for path in paths if not os.path.lexists(path))


# ``--report DIR`` and ``--against DIR``: a page of what a pass did, and of what changed.


ReportFolder = Annotated[
    Path | None,
    typer.Option("--report", metavar="DIR", help="Folder for report.html: the story as a page."),
]
Against = Annotated[
    Path | None,
    typer.Option(
        "--against", metavar="DIR", help="An earlier run or --report: what changed since."
    ),
]


def check_folders(report: Path | None, against: Path | None) -> None:
    """Refuses before the work what would fail at the end.

    Raises:
        UserError: ``--against`` without ``--report``, no report there, or a folder of others.
        MissingExtra: the extra [report] is not installed.
    """
    if report is None:
        if against is not None:
            raise UserError("--against compares two reports: name a folder for this one, --report")
        return
    need("report")
    from engine.passes.own_report import check_report  # noqa: PLC0415 - needs the extra

    check_report(report)
    check_against(against, report)


def check_against(against: Path | None, now: Path) -> None:
    """There is an earlier report, and not in the folder that is written.

    Raises:
        UserError: it is not so.
    """
    if against is None:
        return
    from engine.report.against import read_report  # noqa: PLC0415 - rarely asked for

    read_report(against)
    if now.exists() and against.samefile(now):
        raise UserError(f"--against {against}: is where this run goes; choose another folder")


def print_against(against: Path | None, now: Path) -> None:
    """Writes the comparison beside the report in ``now``, and its summary on standard error."""
    if against is None:
        return
    from engine.report.against import HTML, write_against  # noqa: PLC0415 - as above

    for line in write_against(against, now):
        print_stderr(f"{line}\n")
    print_stderr(f"{now / HTML}\n")


def typed() -> str:
    """The command as it was typed, to be repeated."""
    return shlex.join(["slackwater", *sys.argv[1:]])


# Options that are a share: ``5 %`` or ``0.05``.


def read_share(option: str, text: str, example: str) -> float:
    """A share above 0 and at most 1; ``example``: of how to write it.

    >>> read_share("--uncertain", "5 %", "0.05"), read_share("--uncertain", "0.05", "0.05")
    (0.05, 0.05)

    Raises:
        UserError: it is none.
    """
    number, percent, rest = text.strip().partition("%")
    try:
        share = float(number) / (100 if percent else 1)
    except ValueError:
        share = -1.0
    if rest or not 0 < share <= 1:
        raise UserError(f"{option} {text}: write a share above 0 and at most 1, such as {example}")
    return share


# ``--spill``: whether old events of patterns leave memory, and where they go.


Spill = Annotated[
    str | None,
    typer.Option(
        metavar="FOLDER",
        help="Old events of patterns go to files: "
        "FOLDER[,hot=..,chunk=..,parts=..,pending=..,wait=..]; on Spark state[,..].",
    ),
]


# ``--window`` and ``--monitor``: how long windows and alerts are corrected; files beside.


WindowText = Annotated[
    str | None,
    typer.Option(
        "--window",
        metavar="WINDOW",
        help="How long after its end a window is corrected: horizon=10m. Default: 60 s, or its "
        "size if that is longer.",
    ),
]
MonitorText = Annotated[
    str | None,
    typer.Option(
        "--monitor",
        metavar="MONITOR",
        help="How traces under a constraint are followed: horizon=10s (late events rewrite). "
        "Default: in release order.",
    ),
]
ConstraintsFile = Annotated[
    Path | None,
    typer.Option(
        "--constraints",
        metavar="FILE",
        help="Constraints that queries name: CONSTRAINT name FOR TRACE BY ... AS ...;",
    ),
]
