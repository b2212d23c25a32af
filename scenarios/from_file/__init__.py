"""Scenarios from files: ``slackwater run my-shop.toml``."""

from pathlib import Path
from typing import Any, Final

from slackwater.scenarios.from_file.file_scenario import FromFile
from slackwater.scenarios.from_file.metrics import METRICS
from slackwater.scenarios.from_file.reading import WORLDS
from slackwater.simulation import scenario_file_schema

__all__ = ["METRICS", "SCHEMA", "TEMPLATE", "FromFile", "schema"]

TEMPLATE: Final = Path(__file__).with_name("template.toml")
SCHEMA: Final = Path(__file__).with_name("scenario.schema.json")


def schema() -> dict[str, Any]:
    """The JSON schema of scenario files."""
    return scenario_file_schema(WORLDS)
