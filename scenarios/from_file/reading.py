"""Reads a scenario file; errors name the line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from slackwater.scenario import (
    StatementError,
    Tables,
    UserError,
    check_attributes,
    parse_barrier,
    parse_order,
    parse_queries,
    read_clock,
    read_tables,
    statement_names,
)
from slackwater.scenarios.from_file.overrides import (
    RECORDING,
    as_option,
    blamed,
    overridden,
    place_of,
)
from slackwater.scenarios.from_file.recordings import read_recording
from slackwater.scenarios.from_file.thresholds import Threshold, read_threshold
from slackwater.scenarios.network_correlation.agents import WORLDS as MACHINE_ROOM
from slackwater.scenarios.soccer.network import WORLDS as SOCCER
from slackwater.scenarios.warehouse.devices import WORLDS as COLD_STORE
from slackwater.simulation import FileScenario, build_from_tables, line_numbers, line_of

WORLDS: Final = {**SOCCER, **COLD_STORE, **MACHINE_ROOM}
"""Models of workloads from built-in scenarios, beside the plain ones."""
_ROOT: Final = "<file>"
_PLACE: Final = re.compile(r"[.\[\]\w-]*")


class ScenarioText:
    """The text of a scenario file; files that it names are relative to its folder.

    Args:
        path: of the file.

    Raises:
        UserError: it cannot be read, or is no TOML.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.text = path.read_bytes().decode("utf-8-sig")  # Notepad writes a mark
            self.tables: Mapping[str, Any] = tomllib.loads(self.text)
        except OSError as error:
            raise UserError(f"{path}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise UserError(f"{path}: not a text in UTF-8: {error}") from error
        except (ValueError, RecursionError) as error:  # also digits without end, and depth
            raise UserError(f"{path}: not TOML: {error}") from error

    def scenario(self, values: Mapping[str, Any]) -> FileScenario:
        """The scenario, with ``values`` at their paths instead of the file's.

        Raises:
            UserError: a setting is wrong; names the line, or the option.
        """
        tables = overridden(self.tables, values)
        try:
            return build_from_tables(self.path.stem, tables, self._recording, _ROOT, WORLDS)
        except UserError as error:
            message = str(error)
            place = ""
            if message.startswith(_ROOT):
                message = message.removeprefix(_ROOT).removeprefix(".")
                found = _PLACE.match(message)
                place, message = found[0] if found else "", message.removeprefix(": ")
            raise self.wrong(place, message, values) from error

    def files(self, tables: Mapping[str, Any]) -> list[Path]:
        """Files that ``tables``, its own or overridden ones, name: recordings, and tables for
        LOOKUP.
        """
        sources = [each for each in tables.get("sources", ()) if isinstance(each, dict)]
        recordings = [each[RECORDING] for each in sources if RECORDING in each]
        files = [each.get("file") for each in recordings if isinstance(each, dict)]
        named = tables.get("tables")
        files += named.values() if isinstance(named, dict) else ()
        return [self.path.parent / each for each in files if isinstance(each, str)]

    def reference_tables(self, scenario: FileScenario, values: Mapping[str, Any]) -> Tables:
        """Reads the reference tables of its queries.

        Raises:
            UserError: a file is wrong; names it.
        """
        try:
            return read_tables({n: self.path.parent / file for n, file in scenario.tables.items()})
        except UserError as error:
            raise self.wrong("tables", f"tables: {error}", values) from error

    def check_queries(
        self, scenario: FileScenario, attributes: Mapping[str, str] | None,
        values: Mapping[str, Any], tables: Tables,
    ) -> None:  # fmt: skip
        """Reads its queries; ``attributes``: types of the events' attributes, None: any;
        ``tables``: reference tables.

        Raises:
            UserError: one is wrong; names the line, and the place in it with a caret.
        """
        names = list(scenario.queries)
        try:
            plans = parse_queries(scenario.queries, tables)
        except StatementError as error:
            raise self._of_query(names[error.place], error, values) from error
        except UserError as error:
            raise self.wrong("queries", f"queries: {error}", values) from error
        stand_in = statement_names(scenario.queries)
        for plan in plans if attributes is not None else ():
            try:
                check_attributes(plan, attributes or {})
            except UserError as error:
                raise self._of_query(stand_in[plan.name], error, values) from error

    def _of_query(self, name: str, error: UserError, values: Mapping[str, Any]) -> UserError:
        return self.wrong(f"queries.{name}", f"queries.{name}: {error}", values)

    def check_answering(self, scenario: FileScenario, values: Mapping[str, Any]) -> None:
        """Reads its order, barrier and clocks.

        Raises:
            UserError: one is wrong; names the line.
        """
        for name, read in (
            ("order", parse_order), ("barrier", parse_barrier), ("clock", read_clock)
        ):  # fmt: skip
            text = getattr(scenario.answering, name)
            try:
                if text is not None:
                    read(text, "ns")
            except UserError as error:
                raise self.wrong(f"engine.{name}", f"engine.{name}: {error}", values) from error

    def thresholds(
        self, scenario: FileScenario, values: Mapping[str, Any]
    ) -> tuple[Threshold, ...]:
        """Its thresholds.

        Raises:
            UserError: one is wrong; names the line.
        """
        found = []
        for number, text in enumerate(scenario.thresholds):
            try:
                found.append(read_threshold(text, list(statement_names(scenario.queries))))
            except UserError as error:
                message = f"thresholds[{number}]: {error}"
                line = next(
                    (n for n, each in enumerate(self.text.splitlines(), 1) if text in each), 0
                )
                if line and "thresholds" not in values:
                    raise UserError(f"{self.path}:{line}: {message}") from error
                raise self.wrong("thresholds", message, values) from error
        return tuple(found)

    def wrong(self, place: str, message: str, values: Mapping[str, Any]) -> UserError:
        """The error to raise about the setting at ``place``; names the option that sets it, or the
        line of the file.
        """
        path = blamed(self.tables, values, place)
        if path is not None:
            about = f"{place_of(self.tables, path)}: "
            return UserError(f"{as_option(path, values[path])}: {message.removeprefix(about)}")
        line = line_of(line_numbers(self.text), place)
        return UserError(f"{self.path}:{line}: {message}" if line else f"{self.path}: {message}")

    def _recording(self, table: Mapping[str, Any], place: str) -> Any:
        return read_recording(table, place, self.path.parent)
