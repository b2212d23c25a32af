"""The ``[[abstract]]`` tables of an agent's settings file."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Final

from edge_agent.abstraction.machine import ABSTRACTIONS_MAX
from edge_agent.abstraction.settings import KINDS, AbstractSettings
from edge_agent.errors import SettingsError
from edge_agent.messages import StreamSchema
from edge_agent.settings_file import Table

_DURATIONS: Final = ("gap", "min", "max", "lag", "clock_step")


def read_abstracts(
    tables: Sequence[Table], streams: Sequence[StreamSchema], when_full: dict[str, str],
    among: Collection[str],
) -> tuple[tuple[AbstractSettings, ...], tuple[StreamSchema, ...]]:  # fmt: skip
    """What the tables say, and the streams of intervals that they make.

    ``when_full`` gets what becomes of intervals that find no room, one of ``among``; several
    abstractions may write into one stream if their intervals have the same attributes.

    Raises:
        SettingsError: a mistake in one; names the place and the key.
    """
    schemas = {stream.name: stream for stream in streams}
    found: list[AbstractSettings] = []
    made: dict[str, StreamSchema] = {}
    for table in tables:
        settings = _settings(table, list(schemas))
        if settings in found or len(found) == ABSTRACTIONS_MAX:
            raise table.wrong(
                "into", f"write each [[abstract]] once, and {ABSTRACTIONS_MAX} at most"
            )
        if settings.into in schemas:
            raise table.wrong("into", f"{settings.into} is a stream of readings; name a new one")
        try:
            schema = settings.schema(schemas[settings.stream])
        except SettingsError as error:
            raise _placed(table, error) from error
        full = table.text("when_full", "block", among=among)
        known = made.setdefault(settings.into, schema)
        if list(known.attrs.items()) != list(schema.attrs.items()):
            raise table.wrong(
                "into", f"intervals of {settings.into} have other attributes: "
                f"{', '.join(known.attrs)}, not {', '.join(schema.attrs)}"
            )  # fmt: skip
        if when_full.setdefault(settings.into, full) != full:
            raise table.wrong("when_full", f"is another one for {settings.into} above")
        found.append(settings)
    return tuple(found), tuple(made.values())


def _settings(table: Table, streams: Sequence[str]) -> AbstractSettings:
    defaults = AbstractSettings.__dataclass_fields__
    given: dict[str, Any] = {
        "stream": table.text("stream", streams[0], among=streams),
        "into": table.text("into"),
        "kind": table.text("kind", among=KINDS),
        "by": tuple(table.texts("by", [])),
        "value": table.text("value", ""),
        "bands": tuple(table.sequence("bands", [])),
        "hysteresis": table.number("hysteresis", 0.0),
        "type": table.text("type", ""),
        "only": tuple(table.texts("only", [])),
        "begins": table.flag("begins", True),
        "keep": table.flag("keep", False),
        "keys_max": table.integer("keys_max", defaults["keys_max"].default, 1),
    }
    durations: dict[str, Any] = {
        f"{name}_ns": table.duration_ns(name, defaults[f"{name}_ns"].default) for name in _DURATIONS
    }
    try:
        return AbstractSettings(**given, **durations)
    except SettingsError as error:
        raise _placed(table, error) from error


def _placed(table: Table, error: SettingsError) -> SettingsError:
    key, _, problem = str(error).partition(": ")
    return table.wrong(key, problem)
