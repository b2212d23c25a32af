"""``--report DIR`` and ``--against DIR``: a page of what a pass did, and of what changed."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from engine.cli.terminal.visible import tell
from engine.errors import UserError
from engine.extras import need

ReportFolder = Annotated[
    Path | None,
    typer.Option("--report", metavar="DIR", help="Folder for report.html: the story as a page."),
]
Against = Annotated[
    Path | None,
    typer.Option(
        "--against", metavar="DIR", help="An earlier run or --report: what changed, told and drawn."
    ),
]


def check_folders(report: Path | None, against: Path | None) -> None:
    """What can be known to go wrong at the end is told before the work.

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


def tell_against(against: Path | None, now: Path) -> None:
    """Writes the comparison beside the report in ``now``, and its summary on standard error."""
    if against is None:
        return
    from engine.report.page.against_page import HTML, write_against  # noqa: PLC0415 - as above

    for line in write_against(against, now):
        tell(f"{line}\n")
    tell(f"{now / HTML}\n")


def typed() -> str:
    """The command as it was typed, to be repeated."""
    return shlex.join(["slackwater", *sys.argv[1:]])
