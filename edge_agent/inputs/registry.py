"""The kinds of input, found as entry points of the group ``slackwater.inputs``.

An installed package adds a kind in its pyproject.toml; ours are entries of the same form, written
here, so that they are found where no package's metadata is (a checkout, a zip file). A kind is
loaded when settings name it. What it lacks is told with the extra that brings it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points
from typing import Final, NamedTuple, cast

from edge_agent.inputs.base import Input, Maker, Surroundings
from edge_agent.settings_file import Table

GROUP: Final = "slackwater.inputs"
OURS: Final = tuple(
    EntryPoint(name, maker, GROUP)
    for name, maker in {
        "exec": "edge_agent.inputs.pipes:exec_input",
        "hl7-mllp": "edge_agent.inputs.hl7.listener:hl7_input",
        "mqtt": "edge_agent.inputs.mqtt.subscription:mqtt_input [mqtt]",
        "replay": "edge_agent.inputs.replay:replay_input",
        "rfid-llrp": "edge_agent.inputs.llrp.reader:llrp_input",
        "soccer-udp": "edge_agent.inputs.soccer:soccer_input",
        "stdin": "edge_agent.inputs.pipes:stdin_input",
    }.items()
)


class NamedInput(NamedTuple):
    """An input and what messages and the status file call it."""

    name: str
    input: Input


def read_inputs(tables: Sequence[Table], around: Surroundings) -> tuple[NamedInput, ...]:
    """The inputs that the ``[[input]]`` tables describe.

    Raises:
        SettingsError: a mistake in one, a name that two have, a package that is not installed.
    """
    found: dict[str, NamedInput] = {}
    count: Counter[str] = Counter()
    known = _kinds() if tables else {}
    for table in tables:
        kind = table.text("kind", among=list(known))
        count[kind] += 1
        name = table.text("name", kind if count[kind] == 1 else f"{kind}-{count[kind]}")
        if name in found:
            raise table.wrong("name", f'two inputs are called "{name}"')
        here = replace(around, name=name)
        found[name] = NamedInput(name, _maker(known[kind], table)(table, here))
    return tuple(found.values())


def _kinds() -> dict[str, EntryPoint]:
    """Ours count where another package has the same name."""
    others = {each.name: each for each in entry_points(group=GROUP)}
    return others | {each.name: each for each in OURS}


def _maker(entry: EntryPoint, table: Table) -> Maker:
    try:
        return cast("Maker", entry.load())
    except ModuleNotFoundError as error:
        raise table.wrong("kind", f"{_lacking(entry, error)}") from error
    except (ImportError, AttributeError) as error:
        raise table.wrong("kind", f'"{entry.name}" ({entry.value}) cannot be used: {error}') from (
            error
        )


def _lacking(entry: EntryPoint, error: ModuleNotFoundError) -> str:
    package = "slackwater" if entry.dist is None else entry.dist.name
    module = (error.name or str(error)).partition(".")[0]
    extras = f"[{','.join(entry.extras)}]" if entry.extras else ""
    return f"\"{entry.name}\" needs {module}: pip install '{package}{extras}'"
