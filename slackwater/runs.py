"""``run``: a scenario from its log to its report."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

from slackwater.engine.apps.scenario_run import (
    REPORT,
    ScenarioRun,
    load,
    read_options,
    run_scenario,
)
from slackwater.engine.core.errors import need
from slackwater.engine.hosts.pipeline import Advanced, Host
from slackwater.engine.hosts.result_files import Answers
from slackwater.engine.output.part_store import PartStore
from slackwater.engine.output.run_writer import COUNTERS_FILE
from slackwater.engine.scenario import RunnableScenario, Score
from slackwater.folder import ClosesItself, Folder
from slackwater.results import Results
from slackwater.translate_options import translate_options
from slackwater.warning import warn

_MAIN: Final = "main"


class Run(ClosesItself):
    """A finished run of a scenario: the result of ``run``.

    A context manager; without ``with``, a temporary folder is removed when it is garbage-collected.

    Attributes:
        score: the scenario's score: claims that hold or fail, tables, facts.
        manifest: what was made, with its seed, its options and the log's hash.
        results: results of the main pass; times are in ns.
    """

    def __init__(self, ran: ScenarioRun, temporary: Folder | None) -> None:
        self.score: Score = ran.score
        self.manifest: Mapping[str, Any] = ran.manifest
        counters = json.loads((ran.main / COUNTERS_FILE).read_bytes())
        self.results = Results(
            Answers(PartStore(ran.main), ran.plans, "ns"), counters, Folder(), source=temporary
        )
        self._folder = ran.folder
        self._temporary = temporary

    @property
    def folder(self) -> Path:
        """Folder of the run, with ``log``, ``truth``, ``runs`` and the report.

        Raises:
            UserError: it was temporary, and is closed.
        """
        return self._folder if self._temporary is None else self._temporary.path / _MAIN

    @property
    def log(self) -> Path:
        """Its arrival log, which ``read`` takes."""
        return self.folder / "log"

    @property
    def report(self) -> Path:
        """Path of the report page."""
        return self.folder / REPORT

    def close(self) -> None:
        """Remove temporary data; a folder named by the caller stays."""
        self.results.close()
        if self._temporary is not None:
            self._temporary.close()

    def __repr__(self) -> str:
        holds = sum(claim.holds for claim in self.score.claims)
        return f"<slackwater.Run: {holds} of {len(self.score.claims)} claims hold>"


@translate_options
def run(
    scenario: str | RunnableScenario,
    settings: Mapping[str, object] | None = None,
    *,
    out: str | os.PathLike[str] | None = None,
    order: str | None = None,
    master: str | None = None,
    resume: bool = False,
    overwrite: bool = False,
) -> Run:
    """Make a scenario's log, run it through the engine, score it, and write the report.

    Args:
        scenario: the name of a built-in scenario, or a scenario object.
        settings: of the scenario, by name, each like its default: ``{"duration": "5 s"}``.
        out: folder of the run; None: a temporary one, removed with the returned object.
        order: main order instead of the scenario's.
        master: a Spark master, such as ``local[2]``; None: in this process.
        resume: continue the interrupted run in ``out``.
        overwrite: replace the run in ``out``.

    Raises:
        SlackwaterError: a package is not installed; names the extra of the installation.
        UserError: no such scenario or setting, or ``out`` holds other files.
    """
    need("sim")
    chosen = load(scenario) if isinstance(scenario, str) else scenario
    pairs = [f"{name}={value}" for name, value in (settings or {}).items()]
    options = read_options(chosen, pairs)
    temporary = None
    if out is None:
        temporary = Folder()
        out = temporary.path / _MAIN
    doubts: list[str] = []

    def unwatched(_what: str) -> nullcontext[Advanced]:
        return nullcontext(lambda _rows: None)

    try:
        ran = run_scenario(
            chosen, options, Path(out), Host(master), order, resume=resume, overwrite=overwrite,
            making=unwatched, passing=unwatched, warn=doubts.append,
        )  # fmt: skip
    except BaseException:
        if temporary is not None:
            temporary.close()
        raise
    warn(doubts)
    return Run(ran, temporary)
