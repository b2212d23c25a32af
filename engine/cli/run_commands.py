"""``slackwater run`` and ``slackwater simulate``: scenarios from log to report."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import shutil
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer

import scenarios
from engine.barrier.registry import parse_barrier
from engine.chain import ChainSettings
from engine.cli.extras import need
from engine.cli.promise_warning import warn_unpromised
from engine.cli.watch import if_interrupted, tell_compiling, watched
from engine.errors import UserError, near_miss
from engine.order.registry import parse_order
from engine.pipeline import Host, check_plans
from engine.query import query as parse_query
from engine.query.plan import Plan
from engine.report import write_report
from engine.results.export import export_jsonl
from engine.results.part_store import PartStore
from engine.scenario import RunnableScenario, Score

_PARTS: Final = ("log", "truth", "runs", "results.jsonl", "report.html", "report.json")
_MANIFEST: Final = "manifest.json"
_MAKING: Final = ".making"


def scenario_names(begin: str = "") -> list[str]:
    """The scenarios there are, by name (for completion: those that begin so)."""
    return [
        module.name
        for module in pkgutil.iter_modules(scenarios.__path__)
        if module.ispkg and module.name != "papers" and module.name.startswith(begin)
    ]


Name = Annotated[
    str,
    typer.Argument(
        metavar="SCENARIO",
        help=f"{', '.join(scenario_names())}.",
        autocompletion=scenario_names,
    ),
]
Set = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A setting of the scenario; repeatable."),
]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress and no table.")]
_RESUME: Final = "the same command with --resume goes on"
_WIDTH: Final = 160
"""Of tables that are printed into a file or a pipe."""


def run_scenario(
    name: Name,
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of the run; default: out/SCENARIO.")
    ] = None,
    master: Annotated[str, typer.Option(metavar="URL", help="Spark master.")] = "local[*]",
    in_process: Annotated[bool, typer.Option("--in-process", help="Without Spark.")] = False,
    order: Annotated[
        str | None, typer.Option(metavar="ORDER", help="Another main order than the scenario's.")
    ] = None,
    settings: Set = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a run that was cut off.")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the run that --out holds.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Makes a scenario's log, runs it through the engine, scores it, writes report.html."""
    need("sim")
    scenario = load(name)
    options = read_options(scenario, settings or [])
    folder = out or Path("out") / name
    plans = tuple(
        parse_query(text, name=query) for query, text in scenario.queries(options).items()
    )
    passes = list(scenario.passes(options))
    if order is not None:
        passes[0] = replace(passes[0], order=order)
    orders = [parse_order(each.order) for each in passes]
    barriers = [None if each.barrier is None else parse_barrier(each.barrier) for each in passes]
    if resume:
        manifest = _kept(folder, options)
    else:
        _check_run_folder(folder, overwrite=overwrite)
        manifest = _made(scenario, options, folder, quiet=quiet)
    check_plans(folder / "log", plans)
    host = Host(None if in_process else master)
    tell_compiling(quiet=quiet)
    for number, (each, chosen) in enumerate(zip(passes, orders, strict=True)):
        asked: tuple[Plan, ...] = plans if number == 0 or each.barrier else ()
        barrier = barriers[number]
        warn_unpromised(folder / "log", asked, chosen, barrier, f"{each.label}: ")
        chain = ChainSettings(
            chosen, asked, barrier, guards=each.guards, ordered="bare", aside="bare"
        )
        what = f"{each.order}, {each.barrier}" if each.barrier else each.order
        with if_interrupted(_RESUME), watched(f"{each.label}: {what}", quiet=quiet) as advanced:
            host.run(folder / "log", chain, PartStore(folder / "runs" / each.label), advanced)
    main_run = folder / "runs" / passes[0].label
    export_jsonl(main_run, folder / "results.jsonl", queries=[plan.name for plan in plans])
    score = scenario.score(folder, options)
    write_report(
        folder, scenario.title, scenario.what, scenario.queries(options), passes, score, options
    )
    if not quiet:
        _tell(score, folder, manifest)


def simulate(
    name: Name,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder of the new arrival log.")],
    settings: Set = None,
    quiet: Quiet = False,
) -> None:
    """Writes only a scenario's arrival log, with truth/ and manifest.json in the same folder."""
    scenario = load(name)
    options = read_options(scenario, settings or [])
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out}: exists already; choose a new folder")
    _check_parents(out)
    unfinished = out.absolute().with_name(f".{out.absolute().name}.simulating")
    if unfinished.exists():
        shutil.rmtree(unfinished)  # of a simulation that was cut off
    try:
        manifest = _simulated(scenario, options, unfinished, quiet=quiet)
        log = unfinished / "log"
        for path in sorted(unfinished.iterdir()):
            if path != log:
                path.rename(log / path.name)
        if out.exists():
            out.rmdir()
        log.rename(out)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    if not quiet:
        typer.echo(f"{out}: hash {manifest['log_sha256']}")


def load(name: str) -> RunnableScenario:
    """The scenario of that name.

    Raises:
        UserError: there is none; names the ones there are.
    """
    if name not in scenario_names():
        known = f"{', '.join(scenario_names())}{near_miss(name, scenario_names())}"
        raise UserError(f"no scenario {name!r}; there are {known}")
    found: RunnableScenario = importlib.import_module(f"scenarios.{name}").scenario()
    return found


def read_options(scenario: RunnableScenario, pairs: list[str]) -> dict[str, Any]:
    """The scenario's defaults with the user's ``NAME=VALUE``s, each of its default's type."""
    options = dict(scenario.options())
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or key not in options:
            raise UserError(f"--set {pair}: write NAME=VALUE; names are {', '.join(options)}")
        default = options[key]
        try:
            if isinstance(default, bool):
                options[key] = {"true": True, "false": False}[value.lower()]
            else:
                options[key] = type(default)(value)
        except (ValueError, KeyError) as error:
            raise UserError(f"--set {pair}: {key} is like {default!r}") from error
    return options


def _check_run_folder(folder: Path, *, overwrite: bool) -> None:
    """A new run goes into a new or empty folder, or on demand into that of an earlier run.

    Raises:
        UserError: the folder holds a run, or anything else; names the remedy.
    """
    _check_parents(folder)
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder}: is a file; choose another --out")
    held = {path.name for path in folder.iterdir()} if folder.exists() else set()
    held.discard(_MAKING)  # of a run that was cut off
    if not held:
        return
    is_log = any(name.endswith(".parquet") for name in held)  # of simulate
    if _MANIFEST not in held or is_log:
        raise UserError(f"{folder}: holds other files; choose another --out")
    if not overwrite:
        raise UserError(
            f"{folder}: holds a run already; --overwrite replaces it, --resume goes on with it if "
            "it was cut off, or choose another --out"
        )


def _made(
    scenario: RunnableScenario, options: Mapping[str, Any], folder: Path, *, quiet: bool
) -> dict[str, Any]:
    """The manifest of a new log in ``folder``; an earlier run goes only once it is made."""
    # Inside the folder, so that on one file system the parts need but a new name.
    unfinished = folder / _MAKING
    if unfinished.exists():
        shutil.rmtree(unfinished)  # of a run that was cut off
    is_new = not folder.exists()
    try:
        manifest = _simulated(scenario, options, unfinished, quiet=quiet)
        for part in (*_PARTS, _MANIFEST):
            path = folder / part
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        # The manifest first: with it, a folder is known as a run's and may be made anew.
        for path in sorted(unfinished.iterdir(), key=lambda path: path.name != _MANIFEST):
            path.rename(folder / path.name)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
        if is_new and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
    return manifest


def _simulated(
    scenario: RunnableScenario, options: Mapping[str, Any], folder: Path, *, quiet: bool
) -> dict[str, Any]:
    """What the scenario makes in a new ``folder``."""
    folder.mkdir(parents=True)
    data = Path(os.environ.get("SLACKWATER_DATA", "../shared/data"))
    started = time.perf_counter()
    with watched(f"making the log of {scenario.name}", quiet=quiet):
        manifest = scenario.make(folder, options, data)
    manifest["seconds"] = round(time.perf_counter() - started, 3)
    return manifest


def _check_parents(folder: Path) -> None:
    above = next(path for path in folder.absolute().parents if path.exists())
    if not above.is_dir():
        raise UserError(f"{folder}: {above} is a file, not a folder; choose another --out")


def _kept(folder: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest of the run that is resumed, which was made with the same options."""
    path = folder / _MANIFEST
    if not path.is_file():
        raise UserError(f"{folder}: nothing to resume: no {_MANIFEST}; run without --resume")
    try:
        kept: Any = json.loads(path.read_bytes())
    except ValueError as error:
        raise UserError(f"{path}: damaged ({error}); run without --resume") from error
    if not isinstance(kept, dict) or "log_sha256" not in kept:
        raise UserError(f"{path}: not the manifest of a run; run without --resume")
    made_with: dict[str, Any] = kept.get("set") or kept.get("options") or {}
    other = [
        f"--set {name}={made_with[name]}"
        for name, value in options.items()
        if name in made_with and str(made_with[name]).strip() != str(value).strip()
    ]
    if other:
        raise UserError(f"{folder}: was made with {' '.join(other)}; resume it with the same")
    return kept


def _tell(score: Score, folder: Path, manifest: Mapping[str, Any]) -> None:
    """Verdict first, then the scenario's tables, then where the report is."""
    from rich.markup import escape  # noqa: PLC0415 - only for people
    from rich.table import Table  # noqa: PLC0415

    from engine.cli.plain_console import PlainConsole  # noqa: PLC0415

    # A file or pipe has no width of its own, and cells cut to 80 characters say nothing.
    console = PlainConsole(width=None if sys.stdout.isatty() else _WIDTH)
    for claim in score.claims:
        mark = "[green]holds[/]" if claim.holds else "[red]fails[/]"
        console.print(
            f"{mark}  {escape(claim.text)}  [dim]{escape(claim.detail)}[/]", highlight=False
        )
    for table in score.tables:
        shown = Table(title=escape(table.title), caption=escape(table.note) or None)
        for heading in table.headings:
            shown.add_column(escape(heading), overflow="fold")
        for row in table.rows:
            shown.add_row(*("" if cell is None else escape(str(cell)) for cell in row))
        console.print(shown)
    console.print(f"hash {manifest['log_sha256']}", highlight=False)
    sys.stdout.write(f"{folder / 'report.html'}\n")
