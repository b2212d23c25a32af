"""A scenario from its log to its report, for ``slackwater run`` and the Python API."""

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
"""Setting of a scenario file that declares a clock."""
FILE: Final = ".toml"
"""Suffix of scenario files."""
_NO_SCENARIOS: Final = ("papers", "from_file")
"""Folders under ``scenarios/`` that are no scenarios."""
Watch = Callable[[str], AbstractContextManager[Advanced]]
"""Called with the name of a step; yields the function that takes its progress."""


@dataclass(frozen=True, slots=True)
class ScenarioRun:
    """A finished run in ``folder``, with the layout of ``engine.scenario``.

    ``main``: folder of the main pass, with the results of ``plans``.
    """

    folder: Path
    main: Path
    plans: tuple[Plan, ...]
    manifest: Mapping[str, Any]
    score: Score


def scenario_names(begin: str = "") -> list[str]:
    """Names of the built-in scenarios that begin with ``begin`` (for completion)."""
    return [
        module.name.replace("_", "-")
        for module in pkgutil.iter_modules(scenarios.__path__)
        if module.ispkg
        and module.name not in _NO_SCENARIOS
        and module.name.replace("_", "-").startswith(begin)
    ]


def load(name: str) -> RunnableScenario:
    """Load a built-in scenario by name, or a scenario file.

    Raises:
        UserError: there is none (names the known ones), or the file is wrong (names the line).
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
    """Load a scenario file.

    Raises:
        UserError: the file is wrong; names the line.
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
    """Hints about the cost of a long run, and about settings that would shorten it."""
    return scenario.run_time_hints(options) if isinstance(scenario, HintingScenario) else ()


def read_options(scenario: RunnableScenario, pairs: list[str]) -> dict[str, Any]:
    """The scenario's defaults, updated with ``NAME=VALUE`` texts, parsed by the defaults' types."""
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
    """Make the scenario's log, run its passes over it, score them, and write the report.

    Args:
        scenario: the scenario.
        options: all of its settings, see ``read_options``.
        folder: folder of the run.
        host: where the chains run.
        order: order of the main pass, instead of the scenario's.
        resume: continue the run in ``folder``.
        overwrite: replace the run in ``folder``.
        making: watches the making of the log.
        passing: watches each pass.
        warn: takes lines about likely mistakes.
        command: command line that repeats the run, for the report.

    Raises:
        UserError: an option or ``folder`` is invalid.
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
    """Run in this process and return only the score; files go to ``folder``.

    Raises:
        UserError: an option is invalid.
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
    """Run the passes, each with its chain, over the log in ``folder``.

    Returns:
        The lines of ``excluded_lines`` for the first pass.
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
    """Types of the attributes of its sources, whether or not their events arrive."""
    return scenario.attributes(options) if isinstance(scenario, DeclaringScenario) else {}


def _chains(passes: Sequence[Pass], plans: tuple[Plan, ...]) -> list[ChainSettings]:
    """Chain settings per pass; queries run in the first pass and in passes with a barrier."""
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
    """Check that a new run goes into a new or empty folder, or replaces a run if requested.

    Raises:
        UserError: the folder holds a run or other files; names the remedy.
    """
    check_parents(folder)
    if folder.exists() and not folder.is_dir():
        raise UserError(f"{folder}: is a file; choose another --out")
    entries = {path.name for path in folder.iterdir()} if folder.exists() else set()
    entries.discard(_MAKING)  # left by an interrupted run
    if not entries:
        return
    is_log = any(
        name.endswith(".parquet") for name in entries
    )  # written by ``slackwater simulate``
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
    """Make a log in ``folder`` and return its manifest; then replace an earlier run."""
    # Inside the folder, so that parts are only renamed on one file system.
    unfinished = folder / _MAKING
    is_new = not folder.exists()
    try:
        with taking_name(unfinished, folder):
            if unfinished.exists():
                shutil.rmtree(unfinished)  # left by an interrupted run
            manifest = simulated(scenario, options, unfinished, making)
            for part in (*_PARTS, _MANIFEST):
                path = folder / part
                if path.is_dir():
                    shutil.rmtree(path)
                else:
                    path.unlink(missing_ok=True)
            # The manifest first: it marks the folder as a run, which may be replaced.
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
    """Make the scenario's log in a new ``folder``; return the manifest."""
    folder.mkdir(parents=True)
    data = Path(os.environ.get("SLACKWATER_DATA", "../shared/data"))
    started = time.perf_counter()
    with making(f"making the log of {scenario.name}"):
        manifest = scenario.make(folder, options, data)
    manifest["seconds"] = round(time.perf_counter() - started, 3)
    return manifest


def _kept(folder: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """The manifest of the run to resume, after a check that its options are the same."""
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
