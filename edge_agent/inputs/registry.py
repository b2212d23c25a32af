"""The kinds of input, found as entry points of the group ``slackwater.inputs``.

An installed package adds a kind in its pyproject.toml. Ours are written here in the same form, so
that they are found where no package's metadata is (a checkout, a zip file), and so that an agent
that needs no other starts without looking through all packages. A kind is loaded when settings name
it; what it lacks is told with the extra that brings it.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple, cast

from slackwater.edge_agent.inputs.base import Input, Maker, Surroundings
from slackwater.edge_agent.sequence import DeviceCounters
from slackwater.edge_agent.settings_file import Table, unknown

GROUP: Final = "slackwater.inputs"


class Kind(NamedTuple):
    """Where the maker of a kind's inputs is: an entry point, as packages write them."""

    maker: str
    """``module:function``"""
    extras: tuple[str, ...] = ()
    package: str = "slackwater"


OURS: Final[dict[str, Kind]] = {
    "exec": Kind("slackwater.edge_agent.inputs.pipes:exec_input"),
    "hl7-mllp": Kind("slackwater.edge_agent.inputs.hl7.listener:hl7_input"),
    "mqtt": Kind("slackwater.edge_agent.inputs.mqtt.subscription:mqtt_input", ("mqtt",)),
    "replay": Kind("slackwater.edge_agent.inputs.replay:replay_input"),
    "rfid-llrp": Kind("slackwater.edge_agent.inputs.llrp.reader:llrp_input"),
    "soccer-udp": Kind("slackwater.edge_agent.inputs.soccer:soccer_input"),
    "stdin": Kind("slackwater.edge_agent.inputs.pipes:stdin_input"),
}


class NamedInput(NamedTuple):
    """An input and what messages and the status file call it."""

    name: str
    input: Input
    counters: Sequence[DeviceCounters] = ()
    """Those that go over a restart of the agent."""


def read_inputs(tables: Sequence[Table], around: Surroundings) -> tuple[NamedInput, ...]:
    """The inputs that the ``[[input]]`` tables describe.

    Raises:
        SettingsError: a mistake in one, a name that two have, a package that is not installed.
    """
    found: dict[str, NamedInput] = {}
    count: Counter[str] = Counter()
    for table in tables:
        kind = table.text("kind")
        maker = _maker(_kind(kind, table), table)
        count[kind] += 1
        name = table.text("name", kind if count[kind] == 1 else f"{kind}-{count[kind]}")
        if name in found:
            raise table.wrong("name", f'two inputs are called "{name}"')
        own = replace(around, name=name, counters=[])
        found[name] = NamedInput(name, maker(table, own), own.counters)
    return tuple(found.values())


def _kind(name: str, table: Table) -> Kind:
    """Ours count where another package has the same name."""
    if name in OURS:
        return OURS[name]
    others = _others()
    if name not in others:
        raise table.wrong("kind", unknown(name, {**others, **OURS}))
    return others[name]


def _others() -> dict[str, Kind]:
    """Those of installed packages."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - a third of an agent's start

    return {
        each.name: Kind(
            f"{each.module}:{each.attr}", tuple(each.extras),
            each.name if each.dist is None else each.dist.name,
        )
        for each in entry_points(group=GROUP)
    }  # fmt: skip


def _maker(kind: Kind, table: Table) -> Maker:
    module, _, name = kind.maker.partition(":")
    try:
        return cast("Maker", getattr(importlib.import_module(module), name))
    except ModuleNotFoundError as error:
        lacking = (error.name or str(error)).partition(".")[0]
        extras = f"[{','.join(kind.extras)}]" if kind.extras else ""
        remedy = f"pip install '{kind.package}{extras}'"
        raise table.wrong("kind", f"it needs {lacking}: {remedy}") from error
    except (ImportError, AttributeError) as error:
        raise table.wrong("kind", f"{kind.maker} cannot be used: {error}") from error
