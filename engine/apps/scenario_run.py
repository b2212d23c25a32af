"""A scenario from its log to its report: what ``slackwater run`` does, in Python as well."""

from __future__ import annotations

import importlib
import json
import os
import pkgutil
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from slackwater import scenarios
from slackwater.edge_agent.errors import near_miss
from slackwater.edge_agent.standard_streams import taking_name
from slackwater.engine.apps.report.page.document import check_parents
from slackwater.engine.apps.report.write import write_report
from slackwater.engine.barrier.registry import parse_barrier
from slackwater.engine.core.clocks.choice import read_clock
from slackwater.engine.core.errors import UserError
from slackwater.engine.hosts.chain import ChainSettings
from slackwater.engine.hosts.clock_faults import excluded_lines
from slackwater.engine.hosts.pipeline import Advanced, Host, check_plans, with_upcoming_clocks
from slackwater.engine.hosts.warnings import of_clocks, of_promises
from slackwater.engine.order.registry import parse_order
from slackwater.engine.output.export import export_jsonl
from slackwater.engine.output.ordered_stream import write_event_files
from slackwater.engine.output.part_store import PartStore
from slackwater.engine.query.analysis.cascade import parse_queries
from slackwater.engine.query.plan import Plan
from slackwater.engine.query.reference_tables import NO_TABLES
from slackwater.engine.scenario import (
    DeclaringScenario,
    HintingScenario,
    LookingScenario,
    Pass,
    RunnableScenario,
    Score,
    SettableScenario,
)

RESULTS: Final = "results.jsonl"
REPORT: Final = "report.html"
_PARTS: Final = (
    "log", "truth", "runs", RESULTS, REPORT, "report.json", "against.html", "against.json",
)  # fmt: skip
_MANIFEST: Final = "manifest.json"
_MAKING: Final = ".making"
_CLOCK: Final = '[engine] clock = ["{}"]'
"""How a file says what is known of a clock."""
FILE: Final = ".toml"
"""Of a scenario that is a file."""
_NO_SCENARIOS: Final = ("papers", "from_file")
"""Folders under ``scenarios/`` that are none."""
Watch = Callable[[str], AbstractContextManager[Advanced]]
"""Called with what is done; returns the function that takes its progress."""


@dataclass(frozen=True, slots=True)
class ScenarioRun:
    """A run that is done: ``folder`` as ``engine.scenario`` lays it out.

    ``main``: folder of the main pass, with the results of ``plans``.
    """

    folder: Path
    main: Path
    plans: tuple[Plan, ...]
    manifest: Mapping[str, Any]
    score: Score


def scenario_names(begin: str = "") -> list[str]:
    """The scenarios there are, by name (for completion: those that begin so)."""
    return [
        module.name.replace("_", "-")
        for module in pkgutil.iter_modules(scenarios.__path__)
        if module.ispkg
        and module.name not in _NO_SCENARIOS
        and module.name.replace("_", "-").startswith(begin)
    ]


def load(name: str) -> RunnableScenario:
    """The scenario of that name, or in the file of that name.

    Raises:
        UserError: there is none; names the ones there are. A file is wrong; names the line.
    """
    if name.endswith(FILE):
        return load_file(Path(name))
    if name not in scenario_names():
        known = f"{', '.join(scenario_names())}{near_miss(name, scenario_names())}"
        raise UserError(f"no scenario {name!r}; there are {known}, and files, as my-shop{FILE}")
    module = importlib.import_module(f"slackwater.scenarios.{name.replace('-', '_')}")
    found: RunnableScenario = module.scenario()
    return found


def load_file(path: Path) -> RunnableScenario:
    """The scenario in a file.

    Raises:
        UserError: it is wrong; names the line.
    """
    module = importlib.import_module("slackwater.scenarios.from_file")
    found: RunnableScenario = module.FromFile(path)
    return found


def check_questions(
    scenario: RunnableScenario, options: Mapping[str, Any]
) -> tuple[tuple[Plan, ...], list[Pass], list[ChainSettings]]:
    """Plans of a scenario's queries, its passes, and the chain of each.

    Raises:
        UserError: a query, an order or a barrier is wrong.
    """
    tables = scenario.tables(options) if isinstance(scenario, LookingScenario) else NO_TABLES
    plans = parse_queries(scenario.queries(options), tables)
    passes = list(scenario.passes(options))
    return plans, passes, _chains(passes, plans)


def run_time_hints(scenario: RunnableScenario, options: Mapping[str, Any]) -> Sequence[str]:
    """Lines that say what a long run of it takes, and what would shorten it."""
    return scenario.run_time_hints(options) if isinstance(scenario, HintingScenario) else ()


def read_options(scenario: RunnableScenario, pairs: list[str]) -> dict[str, Any]:
    """The scenario's defaults with the user's ``NAME=VALUE``s, each of its default's type."""
    if isinstance(scenario, SettableScenario):
        return scenario.read_settings(pairs)
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


def run_scenario(
    scenario: RunnableScenario,
    options: Mapping[str, Any],
    folder: Path,
    host: Host,
    order: str | None = None,
    *,
    resume: bool = False,
    overwrite: bool = False,
    making: Watch,
    passing: Watch,
    warn: Callable[[str], None],
    command: str = "",
) -> ScenarioRun:
    """Makes the scenario's log, runs its passes over it, scores them, writes the report.

    Args:
        scenario: what is run.
        options: all of its settings, see ``read_options``.
        folder: of the run.
        host: where the chains run.
        order: of the main pass, instead of the scenario's.
        resume: go on with the run that ``folder`` holds.
        overwrite: replace the run that ``folder`` holds.
        making: watches the making of the log.
        passing: watches each pass.
        warn: is given lines about what is most likely not meant so.
        command: that makes the run again, for the report.

    Raises:
        UserError: an option or ``folder`` is at fault.
    """
    plans, passes, chains = check_questions(scenario, options)
    if order is not None:
        passes[0] = replace(passes[0], order=order)
        chains = _chains(passes, plans)
    if resume:
        manifest = _kept(folder, options)
    else:
        _check_run_folder(folder, overwrite=overwrite)
        for line in run_time_hints(scenario, options):
            warn(line)
        manifest = _made(scenario, options, folder, making)
    declared = _declared(scenario, options)
    of_passes = list(zip(passes, chains, strict=True))
    excluded = _answer(folder, plans, of_passes, host, passing, warn, declared)
    main = folder / "runs" / passes[0].label
    export_jsonl(main, folder / RESULTS, queries=[plan.name for plan in plans])
    score = scenario.score(folder, options)
    score = replace(score, facts={**score.facts, "excluded": excluded})
    write_report(
        folder, scenario.title, scenario.what, {plan.name: plan.text.strip() for plan in plans},
        passes, score, options, command,
    )  # fmt: skip
    return ScenarioRun(folder, main, plans, manifest, score)


def scored_run(scenario: RunnableScenario, options: Mapping[str, Any], folder: Path) -> Score:
    """The score alone of a run in this process; its files are in ``folder``.

    Raises:
        UserError: an option is at fault.
    """
    plans, passes, chains = check_questions(scenario, options)
    made = folder / "made"
    simulated(scenario, options, made, _unwatched)
    of_passes = list(zip(passes, chains, strict=True))
    declared = _declared(scenario, options)
    _answer(made, plans, of_passes, Host(None), _unwatched, lambda _line: None, declared)
    return scenario.score(made, options)


def _unwatched(_what: str) -> AbstractContextManager[Advanced]:
    return nullcontext(lambda _rows: None)


def _answer(
    folder: Path, plans: tuple[Plan, ...], passes: Sequence[tuple[Pass, ChainSettings]],
    host: Host, passing: Watch, warn: Callable[[str], None], declared: Mapping[str, str],
) -> list[str]:  # fmt: skip
    """Runs the passes, each with its chain, over the log in ``folder``.

    Returns:
        what ``excluded_lines`` says of the first.
    """
    log, excluded = folder / "log", list[list[str]]()
    check_plans(log, plans, declared)
    for each, of_pass in passes:
        chain = with_upcoming_clocks(log, of_pass)
        for line in of_promises(log, chain.plans, chain.order, chain.barrier):
            warn(f"{each.label}: {line}")
        what = f"{each.order}, {each.barrier}" if each.barrier else each.order
        with passing(f"{each.label}: {what}") as advanced:
            counters = host.run(log, chain, PartStore(folder / "runs" / each.label), advanced)
            write_event_files(folder / "runs" / each.label)
        excluded.append(excluded_lines(counters, log, _CLOCK))
        for line in (*excluded[-1], *of_clocks(counters, _CLOCK)):
            warn(f"{each.label}: {line}")
    return excluded[0]


def _declared(scenario: RunnableScenario, options: Mapping[str, Any]) -> Mapping[str, str]:
    """Attributes that its sources have, whether or not their events come."""
    return scenario.attributes(options) if isinstance(scenario, DeclaringScenario) else {}


def _chains(passes: Sequence[Pass], plans: tuple[Plan, ...]) -> list[ChainSettings]:
    """Of each pass; the queries run in the first, and in those that name a barrier."""
    return [
        ChainSettings(
            parse_order(each.order),
            plans if number == 0 or each.barrier else (),
            None if each.barrier is None else parse_barrier(each.barrier),
            clock=read_clock(each.clock),
            guards=each.guards,
            ordered="bare",
            aside="bare",
        )
        for number, each in enumerate(passes)
    ]


def _check_run_folder(folder: Path, *, overwrite: bool) -> None:
    """A new run goes into a new or empty folder, or on demand into that of an earlier run.

    Raises:
        UserError: the folder holds a run, or anything else; names the remedy.
    """
    check_parents(folder)
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder}: is a file; choose another --out")
    entries = {path.name for path in folder.iterdir()} if folder.exists() else set()
    entries.discard(_MAKING)  # of a run that was cut off
    if not entries:
        return
    is_log = any(name.endswith(".parquet") for name in entries)  # of simulate
    if _MANIFEST not in entries or is_log:
        raise UserError(f"{folder}: holds other files; choose another --out")
    if not overwrite:
        raise UserError(
            f"{folder}: holds a run already; --overwrite replaces it, --resume goes on with it if "
            "it was cut off, or choose another --out"
        )


def _made(
    scenario: RunnableScenario, options: Mapping[str, Any], folder: Path, making: Watch
) -> dict[str, Any]:
    """The manifest of a new log in ``folder``; an earlier run goes only once it is made."""
    # Inside the folder, so that on one file system the parts need but a new name.
    unfinished = folder / _MAKING
    is_new = not folder.exists()
    try:
        with taking_name(unfinished, folder):
            if unfinished.exists():
                shutil.rmtree(unfinished)  # of a run that was cut off
            manifest = simulated(scenario, options, unfinished, making)
            for part in (*_PARTS, _MANIFEST):
                path = folder / part
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)
            # The manifest first: with it, a folder is known as a run's and may be replaced.
            for path in sorted(unfinished.iterdir(), key=lambda path: path.name != _MANIFEST):
                path.rename(folder / path.name)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
        if is_new and folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
    return manifest


def simulated(
    scenario: RunnableScenario, options: Mapping[str, Any], folder: Path, making: Watch
) -> dict[str, Any]:
    """The manifest of what the scenario makes in a new ``folder``."""
    folder.mkdir(parents=True)
    data = Path(os.environ.get("SLACKWATER_DATA", "../shared/data"))
    started = time.perf_counter()
    with making(f"making the log of {scenario.name}"):
        manifest = scenario.make(folder, options, data)
    manifest["seconds"] = round(time.perf_counter() - started, 3)
    return manifest


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
