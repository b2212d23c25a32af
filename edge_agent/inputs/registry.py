"""The kinds of input: one line each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from edge_agent.inputs.base import Input
from edge_agent.inputs.pipes import exec_input, stdin_input
from edge_agent.inputs.replay import replay_input
from edge_agent.messages import StreamSchema
from edge_agent.settings_file import Table

Maker = Callable[[Table, Mapping[str, StreamSchema], Callable[[], int]], Input]
"""From the input's settings, the streams by name and this device's wall clock [ns]."""

KINDS: Final[dict[str, Maker]] = {
    "exec": exec_input,
    "replay": replay_input,
    "stdin": stdin_input,
}


def read_input(
    table: Table, schemas: Mapping[str, StreamSchema], wall_ns: Callable[[], int]
) -> Input:
    """The input that an ``[[input]]`` describes.

    Raises:
        SettingsError: a mistake in it.
    """
    return KINDS[table.text("kind", among=list(KINDS))](table, schemas, wall_ns)
