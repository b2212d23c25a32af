"""``slackwater clocks``: whose clock is off, by how much, and how to say so."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from slackwater.engine.apps.report.numbers import as_json as json_text
from slackwater.engine.apps.report.page.document import check_new_page
from slackwater.engine.apps.validate.logs.clock_reports import clock_reports, remarks
from slackwater.engine.apps.validate.logs.clocks_page import (
    HTML,
    JSON,
    as_plain,
    clocks_table,
    headline,
    write_clocks,
)
from slackwater.engine.cli.options import InputOptions, ending_with_a_command, takes_options, typed
from slackwater.engine.cli.terminal import NO_BOX, plain_console, table_of, watched
from slackwater.engine.cli.visible import json_out
from slackwater.engine.hosts.pipeline import prepare, work_folder
from slackwater.engine.log.input.several import files_of


@takes_options
def show_clocks(
    *,
    source: Annotated[
        list[str],
        typer.Argument(
            metavar="PATH...", help="Traces, CSV, Parquet or an arrival log; - = stdin."
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for clocks.html and clocks.json.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="All numbers as JSON on standard output, no table.")
    ] = False,
    read: InputOptions,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
) -> None:
    """Says of each clock how far it is off, how well that is known, and the --clock to go on with.

    By its syncs, or by arrivals less stamps: an event arrives after it happened, so the least
    difference is the largest offset. That the clock is slow and not the way long, it cannot know.
    """
    if out is not None:
        check_new_page(out, (HTML, JSON))
    with work_folder(None) as folder, watched("reading", quiet=quiet) as advanced:
        files = files_of(source)
        with ending_with_a_command(files, read.form()):
            given = prepare(files, folder, read.form(), hold=True)
        arrives = given.log.arrival_given
        found = clock_reports(given.log, arrival_given=arrives, advanced=advanced)
    name = ", ".join(files)
    if out is not None:
        write_clocks(found, name, out, typed())
    if as_json:
        json_out().write(json_text(as_plain(found, name), indent=1) + "\n")
        return
    console = plain_console()
    console.print(headline(found), highlight=False, markup=False)
    table = clocks_table(found)
    console.print(table_of(table.headings, table.rows, bool, **NO_BOX))
    for each in remarks(found):
        console.print(each, highlight=False, markup=False)
    if out is not None:
        sys.stdout.write(f"{out / HTML}\n")
