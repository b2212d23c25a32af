"""The kinds of sink, found as entry points of the group ``slackwater.sinks``."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Final

from slackwater.edge_agent.settings_file import Kind, Table, read_kinds, unknown
from slackwater.edge_agent.units import NS_PER
from slackwater.engine.sinks.base import MakeReceiver, SinkSettings

GROUP: Final = "slackwater.sinks"
_KINDS: Final = "slackwater.engine.sinks.kinds"
OURS: Final[dict[str, Kind]] = {
    "exec": Kind(f"{_KINDS}:exec_sink"),
    "http": Kind(f"{_KINDS}:http_sink"),
    "mqtt": Kind("slackwater.engine.sinks.mqtt:mqtt_sink", ("mqtt",)),
    "postgres": Kind("slackwater.engine.sinks.postgres:postgres_sink", ("postgres",)),
}
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}")


def read_sinks(
    tables: Sequence[Table], folders: Collection[str] | None
) -> tuple[SinkSettings, ...]:
    """The sinks that the ``[[sink]]`` tables describe.

    Args:
        tables: one for each.
        folders: names of all that is answered; None: not known.

    Raises:
        SettingsError: a mistake in one, a name that two have, a package that is not installed.
    """
    found = []
    for name, table, maker in read_kinds(tables, OURS, GROUP, "sinks"):
        if not _NAME.fullmatch(name):
            raise table.wrong("name", f"{name!r} is part of names of files: letters, digits, _ -")
        make: MakeReceiver = maker
        queries = tuple(table.texts("queries", []))
        for query in queries:
            if folders is not None and query not in folders:
                raise table.wrong("queries", unknown(query, folders))
        retry = table.duration_ns("retry", NS_PER["s"], low=NS_PER["ms"])
        retry_max = table.duration_ns("retry_max", max(60 * NS_PER["s"], retry), low=retry)
        found.append(
            SinkSettings(
                name=name,
                queries=queries or None,
                confirmed_only=table.flag("confirmed_only", False),
                settle_s=table.duration_ns("settle", 0) / 1e9,
                batch=table.integer("batch", 100, 1, 100_000),
                behind_max=table.size("behind_max", 1 << 30, low=1),
                retry_s=(retry / 1e9, retry_max / 1e9),
                receiver=make(table, name),
            )
        )
    return tuple(found)
