"""From a message of MQTT to events: a payload of JSON, and the parts of its topic.

A payload is an object (an event, with the fields of a trace), a list of objects (some events), or a
number, text or truth by itself, which is the attribute that ``value`` names. ``parts`` names the
levels of the topic that are fields or attributes; what the payload has itself comes before them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from edge_agent.inputs.record_fields import FIELDS, RecordFields, read_text
from edge_agent.near_miss import did_you_mean
from edge_agent.rows import BadRecord, Row
from edge_agent.settings_file import Table

PAYLOAD_MAX: Final = 256 << 10
"""A longer payload is left out [bytes]."""
EVENTS_MAX: Final = 1_000
"""Of one message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadFields:
    """How an input's messages are read."""

    fields: RecordFields
    parts: tuple[str, ...]
    """Field or attribute of each level of the topic; empty: the level says nothing."""
    value: str
    """The attribute that a payload by itself is; empty: it must be an object."""

    def events(self, topic: str, payload: bytes, now_ns: int) -> list[tuple[str, Row]]:
        """Stream and event of all that a message says; ``now_ns``: when it came.

        Raises:
            BadRecord: names what is wrong; then nothing of the message is taken.
        """
        if len(payload) > PAYLOAD_MAX:
            raise BadRecord(f"a payload of {len(payload)} bytes; the longest is {PAYLOAD_MAX}")
        try:
            found = json.loads(payload)
        except (ValueError, RecursionError) as error:
            raise BadRecord(f"not JSON: {error}") from error
        records = found if isinstance(found, list) else [found]
        if len(records) > EVENTS_MAX:
            raise BadRecord(f"{len(records)} events in one message; the most are {EVENTS_MAX}")
        said = dict(zip(self.parts, topic.split("/"), strict=False))
        return [self.fields.event(self._record(each, said), now_ns, topic) for each in records]

    def _record(self, found: Any, said: Mapping[str, str]) -> dict[str, Any]:
        if isinstance(found, dict):
            record = found
        elif self.value and not isinstance(found, list):
            record = {self.value: found}
        else:
            raise BadRecord("not an object of JSON")
        stream = record.get("stream", said.get("stream", self.fields.stream))
        schema = self.fields.schemas.get(stream) if isinstance(stream, str) else None
        kinds = {} if schema is None else schema.attrs
        added = {
            name: read_text(text, "int" if name == "id" else kinds.get(name, "str"), name)
            for name, text in said.items()
            if name and name not in record
        }
        return record | added


def read_payload_fields(table: Table, fields: RecordFields) -> PayloadFields:
    """The settings ``parts`` and ``value`` of an input."""
    attrs = {attr for schema in fields.schemas.values() for attr in schema.attrs}
    parts = tuple(table.texts("parts", []))
    value = table.text("value", "")
    for key, names, known in (
        ("parts", [name for name in parts if name], [*FIELDS, *attrs]),
        ("value", [value] if value else [], attrs),
    ):
        for name in _strangers(names, known):
            raise table.wrong(key, f'"{name}" is no field or attribute{did_you_mean(name, known)}')
    return PayloadFields(fields=fields, parts=parts, value=value)


def _strangers(names: Sequence[str], known: Any) -> list[str]:
    return [name for name in names if name not in known]
