"""``slackwater constraint learn|check|draw``: what a recording says of traces; a picture."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import typer
from rich.table import Table

from engine.cli.examples import epilog
from engine.cli.options import ConstraintsFile, reads_input
from engine.cli.terminal import PlainConsole, tell_compiling, watched
from engine.cli.visible import json_out, tell, visible
from engine.cli.work_folder import work_folder
from engine.constraint.learned import (
    END,
    Conformance,
    conformance,
    constraint_text,
    learn,
    variants_of,
)
from engine.errors import UserError
from engine.log.input.input_read import PLAIN_FORM, InputForm
from engine.passes.automata_drawn import drawings_of
from engine.passes.options import read_definitions
from engine.passes.pipeline import prepare
from engine.passes.traces_read import TypeNumbers, recorded_traces
from engine.query import query as parse_query
from engine.query.automata.picture import MOST
from engine.query.automata.verdicts import Automata, automata_under
from engine.query.language.definitions import expanded
from engine.query.plan import Attribute
from engine.report.numbers import as_json

constraint_app = typer.Typer(
    no_args_is_help=True,
    help="What a recording says of its traces, for patterns UNDER CONSTRAINT.",
    epilog=epilog("constraint"),
)
_BEFORE: Final = "EVENT SEQ(a a1, b b1) UNDER "
_SHOWN: Final = 10
"""Ways to break a constraint."""
Source = Annotated[
    str, typer.Argument(metavar="LOG", help="Trace, CSV, Parquet or arrival log; - = stdin.")
]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress and no summary.")]


@constraint_app.command(
    "learn", short_help="A constraint that a recording keeps to.", epilog=epilog("constraint learn")
)
@reads_input
def learn_constraint(
    source: Source,
    trace: Annotated[
        str, typer.Option(metavar="ATTR", help="The attribute that a trace's events share.")
    ],
    name: Annotated[str, typer.Option(metavar="NAME", help="Of the constraint.")] = "learned",
    ends: Annotated[
        list[str] | None,
        typer.Option(
            "--end", metavar="TYPE", help="Only traces that end with it are whole; repeatable."
        ),
    ] = None,
    rare: Annotated[
        float, typer.Option(metavar="SHARE", help="Leave out the rarest traces: up to this share.")
    ] = 0.0,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to write it; default: shown.")
    ] = None,
    form: InputForm = PLAIN_FORM,
    quiet: Quiet = False,
) -> None:
    """Writes a constraint that the recording's traces keep to, and says how many break it."""
    if not 0 <= rare < 1:
        raise UserError(f"--rare {rare}: must be at least 0 and below 1")
    types = TypeNumbers()
    with work_folder(None) as folder, watched("reading", quiet=quiet) as advanced:
        given = prepare(source, folder, form, hold=True)
        tell_compiling(quiet=quiet)
        found = recorded_traces(given.log, Attribute(trace), types.read, advanced)
    variants = variants_of(found.trace, found.symbol, types.names)
    learned = learn(variants, frozenset(ends or ()), rare)
    text = constraint_text(name, trace, learned.expression)
    checked = _checked(
        automata_under(f"{_BEFORE}{text}")[1], found.trace, found.symbol, types.names
    )
    said = (
        f"{learned.of:,} of {sum(variants.values()):,} traces ({learned.variants:,} kinds), "
        f"{checked.broken:,} break it ({checked.broken_share:.2%})"
    )
    written = f"-- Learned from {visible(Path(source).name)}: {said}.\n{text}{END}"
    if out is None:
        sys.stdout.write(written)
    else:
        out.write_text(written, encoding="utf-8")
    if not quiet:
        tell(f"{said}\n")
        if found.untraced:
            tell(f"{found.untraced:,} events have no {visible(trace)}\n")


@constraint_app.command(
    "check", short_help="How often a recording breaks one.", epilog=epilog("constraint check")
)
@reads_input
def check_constraint(
    source: Source,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="With one or more constraints.")],
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Which of them; default: all.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="The same as JSON.")] = False,
    time_unit: Annotated[
        str, typer.Option(metavar="UNIT", help="Of times in conditions without a unit.")
    ] = "ns",
    form: InputForm = PLAIN_FORM,
    quiet: Quiet = False,
) -> None:
    """Says how many traces of a recording keep to constraints, and which events break them."""
    known = read_definitions(file)
    if name is not None and name not in known:
        raise UserError(f"{file}: there is no constraint {name!r}; it has {', '.join(known)}")
    shown: dict[str, dict[str, Any]] = {}
    with work_folder(None) as folder:
        given = prepare(source, folder, form, hold=True)
        tell_compiling(quiet=quiet)
        for each in [name] if name is not None else known:
            trace, automata = automata_under(known[each].query, time_unit)
            with watched(each, quiet=quiet) as advanced:
                found = recorded_traces(given.log, trace, automata.alphabet.read, advanced)
            names = automata.alphabet.names
            checked = conformance(automata.constraint, names, found.trace, found.symbol)
            shown[each] = _facts(checked, found.untraced)
            if not json:
                _show(each, checked)
    if json:
        json_out().write(as_json(shown, indent=1) + "\n")


@constraint_app.command(
    "draw", short_help="What one makes certain, as a picture.", epilog=epilog("constraint draw")
)
def draw_constraint(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="A pattern UNDER CONSTRAINT.")],
    constraints: ConstraintsFile = None,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE.svg", help="Where to write it; default: shown.")
    ] = None,
    time_unit: Annotated[
        str, typer.Option(metavar="UNIT", help="Of times in conditions without a unit.")
    ] = "ns",
) -> None:
    """Draws the automaton of a pattern and its constraint as SVG, as reports show it."""
    plan = parse_query(expanded(query, read_definitions(constraints)), time_unit)
    drawn = next(drawings_of([plan]), None)
    if drawn is None:
        raise UserError(
            "the query has no automaton that can be drawn; give a pattern UNDER CONSTRAINT of up "
            f"to {MOST} states"
        )
    if out is None:
        sys.stdout.write(drawn.svg)
    else:
        out.write_text(drawn.svg, encoding="utf-8")


def _checked(
    automata: Automata, trace: np.ndarray, symbol: np.ndarray, names: list[str]
) -> Conformance:
    known = automata.alphabet.names
    of = np.array([known.index(name) for name in names], np.int32)
    return conformance(automata.constraint, known, trace, of[symbol])


def _facts(found: Conformance, untraced: int) -> dict[str, Any]:
    facts = {**asdict(found), "broken_share": found.broken_share, "untraced": untraced}
    facts["breaks"] = [
        {"came": came, "allowed": allowed, "traces": n}
        for (came, allowed), n in found.breaks.most_common()
    ]
    return facts


def _show(name: str, found: Conformance) -> None:
    console = PlainConsole()
    share = f"{found.broken_share:.2%}"
    console.print(
        f"{visible(name)}: {found.traces:,} traces: {found.complete:,} complete, {found.open:,} "
        f"may go on, {found.broken:,} break it ({share})"
    )
    if not found.breaks:
        return
    table = Table("traces", "came", "allowed")
    for (came, allowed), n in found.breaks.most_common(_SHOWN):
        table.add_row(f"{n:,}", visible(came), visible(allowed))
    console.print(table)
    if len(found.breaks) > _SHOWN:
        console.print(f"and {len(found.breaks) - _SHOWN} other ways; --json has all")
