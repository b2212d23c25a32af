"""``slackwater compare``: which order suits a recording, and what each one costs."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.markup import escape

from slackwater.edge_agent.errors import json_out
from slackwater.engine.apps.compare.comparison import COMPLETE, MEASURED, OrdersCompared, compare
from slackwater.engine.apps.compare.measure import Advanced, Reading
from slackwater.engine.apps.compare.page import (
    HTML,
    JSON,
    NO_ARRIVALS,
    arrival_facts,
    as_plain,
    order_table,
    write_comparison,
)
from slackwater.engine.apps.report.numbers import as_json, plain, versions
from slackwater.engine.apps.report.page.document import check_new_page
from slackwater.engine.apps.report.verdict import check_summaries, write_summaries
from slackwater.engine.cli.options import (
    InputOptions,
    JsonNumbers,
    Quiet,
    Summary,
    ending_with_a_command,
    read_share,
    takes_options,
    typed,
)
from slackwater.engine.cli.query_commands import Input
from slackwater.engine.cli.terminal import (
    NO_BOX,
    copying,
    plain_console,
    print_compiling,
    table_of,
    watched,
)
from slackwater.engine.core.clocks.choice import read_clock
from slackwater.engine.core.units import unit_ns
from slackwater.engine.hosts.clock_faults import behind_excluded
from slackwater.engine.hosts.options import Clock, Guard, read_guards
from slackwater.engine.hosts.pipeline import prepare, work_folder
from slackwater.engine.hosts.warnings import numbering_warnings
from slackwater.engine.log.input.input_log import files_of
from slackwater.engine.scenario import Claim

_WIDTH: Final = 220
"""Width of the table in a file or a pipe."""
Orders = Annotated[
    list[str] | None,
    typer.Option(
        "--order",
        metavar="ORDER",
        help="An order to compare; repeatable. Default: one of each kind.",
    ),
]
Sweep = Annotated[
    str | None,
    typer.Option(
        metavar="SLACKS",
        help="A range of slacks, as kslack:10ms..10s; default with --out: measured.",
    ),
]
Truth = Annotated[
    str | None, typer.Option(metavar="ATTR", help="Attribute with the true event time [ns].")
]
Departed = Annotated[
    str | None,
    typer.Option(metavar="ATTR", help="Attribute with the instant of leaving the source [ns]."),
]


@takes_options
def compare_orders(
    *,
    source: Input,
    orders: Orders = None,
    sweep: Sweep = None,
    complete: Annotated[
        str, typer.Option(metavar="SHARE", help="Share of events that must be in their place.")
    ] = str(COMPLETE),
    truth: Truth = None,
    departed: Departed = None,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder for compare.html and compare.json.")
    ] = None,
    as_json_lines: JsonNumbers = False,
    read: InputOptions,
    summary: Summary = None,
    guard: Guard = "1s",
    clock: Clock = (),
    quiet: Quiet = False,
) -> None:
    """Runs each order over the same input: which one suits it, and what the others cost."""
    unit_ns(read.unit)
    check_summaries(summary or ())
    share = read_share("--complete", complete, '0.999 or "99.9 %"')
    guards = read_guards(guard, read.unit)
    if out is not None:
        check_new_page(out, (HTML, JSON))

    def watch(what: str) -> AbstractContextManager[Advanced]:
        return watched(what, quiet=quiet)

    with work_folder(None) as folder:
        files = files_of(source, copying(quiet=quiet))
        with ending_with_a_command(files, read.form()):
            prepared = prepare(files, folder, read.form())
        print_compiling(quiet=quiet)
        found = compare(
            prepared.directory,
            orders or (),
            sweep if sweep is not None or out is None else MEASURED,
            Reading(truth, departed, read_clock(clock or (), read.unit)),
            guards,
            read.unit,
            share,
            watch,
        )
    name = ", ".join(files)
    write_summaries(summary or (), name, "", _checks(found))
    for line in (*numbering_warnings(prepared.counted_lanes), *found.arrivals.warnings):
        sys.stderr.write(f"warning: {line}\n")
    if not found.arrival_given:
        sys.stderr.write(f"{NO_ARRIVALS}\n")
    if out is not None:
        write_comparison(found, name, out, typed())
    if as_json_lines:
        json_out().write(as_json(plain(as_plain(found, name, versions())), indent=1) + "\n")
        return
    _print(found, swept=sweep is not None)
    if out is not None:
        sys.stdout.write(f"{out / HTML}\n")


def _checks(found: OrdersCompared) -> list[Claim]:
    """Claims about the input that hold if one of the orders suits it."""
    choice, excluded = found.choice, found.arrivals.excluded
    said = behind_excluded(excluded, "").strip() or "none is"
    claim_text = f"An order puts {100 * found.settings.complete:.6g} % of the events in their place"
    suits = Claim(claim_text, choice.suits is not None, f"{choice.headline} {choice.reason}")
    return [suits, Claim("No source is excluded", not excluded, said)]


def _print(found: OrdersCompared, *, swept: bool) -> None:
    """Print facts about arrivals, the recommendation, the costs of the others, and the table."""
    console = plain_console(_WIDTH)
    for name, said in arrival_facts(found):
        console.print(f"[dim]{escape(name)}:[/] {escape(said)}", highlight=False)
    choice = found.choice
    excluded = found.arrivals.excluded
    colour = "green" if choice.suits and not excluded else "yellow"
    word = "Recommended" if choice.suits or excluded else "No order is recommended"
    console.print(f"\n[bold {colour}]{word}:[/] {escape(found.headline)}", highlight=False)
    console.print(escape(choice.reason), highlight=False)
    for heading, enough in (("Complete enough too:", True), ("Not complete enough:", False)):
        costs = [(f"  {each.order}", each.text) for each in choice.costs if each.enough == enough]
        if costs:
            console.print(heading, highlight=False)
            console.print(table_of(("", ""), costs, show_header=False, **NO_BOX))
    headings, rows = order_table(found, found.orders)
    more = order_table(found, found.sweep)[1] if swept else []
    cells = [[f"{x:,}" if isinstance(x, int) else x for x in row] for row in (*rows, *more)]
    console.print(table_of(headings, cells, bool))
