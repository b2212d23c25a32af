"""A scenario file as ``slackwater run`` takes it (``engine.scenario.RunnableScenario``)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any, Final

from slackwater.scenario import Pass, Score, Tables, UserError, statement_names
from slackwater.scenarios.from_file.overrides import found_at, overridden, read_pairs
from slackwater.scenarios.from_file.reading import ScenarioText
from slackwater.scenarios.from_file.scoring import score_run
from slackwater.simulation import FileScenario, run_time_hints, simulate_to

MAIN: Final = "main"
FILE: Final = "file"


class FromFile:
    """What ``slackwater run my-shop.toml`` runs.

    Args:
        path: of the file.

    Raises:
        UserError: no such file, or a setting is wrong; names the line.
    """

    def __init__(self, path: str | Path) -> None:
        path = Path(path)
        self._read = ScenarioText(path)
        self._described: dict[str, FileScenario] = {}
        self._tables: dict[str, Tables] = {}
        self._digests: dict[Path, bytes] = {}
        scenario = self._read.scenario({})
        tables = self._read.reference_tables(scenario, {})
        self._read.check_queries(scenario, None, {}, tables)  # their attributes may be set: --set
        self._read.thresholds(scenario, {})
        self.name = path.stem
        self.title = scenario.title
        sources = len(scenario.simulated.sources)
        queries = len(statement_names(scenario.queries))
        who = f"{sources} source{'' if sources == 1 else 's'}"
        query_count = f"{queries} {'query' if queries == 1 else 'queries'}"
        self.what = f"{path.name}: {who}, {query_count}."

    def options(self) -> Mapping[str, Any]:
        """The content of the file, which identifies a run."""
        return {FILE: sha256(self._read.text.encode()).hexdigest()}

    def read_settings(self, pairs: list[str]) -> dict[str, Any]:
        """As ``engine.scenario.SettableScenario``: any setting of the file, by its path."""
        chosen = dict(self.options()) | read_pairs(pairs)
        self._of(chosen)
        return chosen

    def setting(self, path: str, options: Mapping[str, Any]) -> Any:
        """The value at ``path`` in ``options`` or the file; None: there is none."""
        return found_at(overridden(self._read.tables, _values(options)), path)

    def content(self, pairs: Sequence[str]) -> str:
        """Digest of the file, and of the files that it names with these ``PATH=VALUE``."""
        tables = overridden(self._read.tables, read_pairs(list(pairs)))
        parts = [self._read.text.encode(), *map(self._digest_of, self._read.files(tables))]
        return sha256(b"\0".join(parts)).hexdigest()

    def _digest_of(self, path: Path) -> bytes:
        """Digest of a recording, a file or a folder; read once."""
        if path not in self._digests:
            files = sorted(path.rglob("*")) if path.is_dir() else [path]
            found = sha256()
            for each in files:
                if each.is_file():
                    with each.open("rb") as file:
                        found.update(file_digest(file, "sha256").digest())
            self._digests[path] = found.digest()
        return self._digests[path]

    def make(self, directory: Path, options: Mapping[str, Any], data: Path) -> dict[str, Any]:
        manifest = simulate_to(
            self._of(options).simulated, directory, data,
            set=dict(options), scenario_file=self._read.text,
        ).manifest  # fmt: skip
        if not manifest["events"]["generated"]:
            raise UserError(
                f"{self._read.path}: nothing happens in its duration: see that, and how often its "
                "sources and machines have events"
            )
        return manifest

    def passes(self, options: Mapping[str, Any]) -> Sequence[Pass]:
        answering = self._of(options).answering
        return (Pass(MAIN, answering.order, barrier=answering.barrier, clock=answering.clock),)

    def queries(self, options: Mapping[str, Any]) -> Mapping[str, str]:
        return self._of(options).queries

    def tables(self, options: Mapping[str, Any]) -> Tables:
        self._of(options)
        return self._tables[_key_of(options)]

    def attributes(self, options: Mapping[str, Any]) -> Mapping[str, str]:
        return self._of(options).attributes

    def run_time_hints(self, options: Mapping[str, Any]) -> Sequence[str]:
        return run_time_hints(self._of(options).simulated)

    def score(self, directory: Path, options: Mapping[str, Any]) -> Score:
        scenario = self._of(options)
        thresholds = self._read.thresholds(scenario, _values(options))
        return score_run(directory, MAIN, scenario, thresholds, self.tables(options))

    def _of(self, options: Mapping[str, Any]) -> FileScenario:
        """The file with these options, checked once."""
        key = _key_of(options)
        if key not in self._described:
            values = _values(options)
            scenario = self._read.scenario(values)
            tables = self._tables[key] = self._read.reference_tables(scenario, values)
            self._read.check_queries(scenario, scenario.attributes, values, tables)
            self._read.check_answering(scenario, values)
            self._read.thresholds(scenario, values)
            self._described[key] = scenario
        return self._described[key]


def _key_of(options: Mapping[str, Any]) -> str:
    return json.dumps(options, sort_keys=True, default=str)


def _values(options: Mapping[str, Any]) -> dict[str, Any]:
    """The values of ``--set``, by path."""
    return {path: value for path, value in options.items() if path != FILE}
