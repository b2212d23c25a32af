"""Mapping of the OBX segments of an ORU^R01 message to events.

``observation = "type"``: each OBX is an event whose type is the observation's code (OBX-3.1).
``observation = "attr"``: the OBX segments of one OBR and instant form one event, and each code is
the name of an attribute. Other attributes are message fields, named as in ``FIELDS`` or by a path
such as ``PV1-3.1``. Only fields with an attribute are taken, so patient data stays out by default.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import tzinfo
from typing import Final, NamedTuple

from slackwater.edge_agent.errors import did_you_mean
from slackwater.edge_agent.inputs.hl7.message import (
    HEADER,
    Hl7Message,
    Hl7Refusal,
    Hl7Segment,
    instant_of,
    is_leap,
    offset_of,
    resolution_of,
)
from slackwater.edge_agent.messages import StreamSchema
from slackwater.edge_agent.packing import BadRecord, Row, checked_row

VALUE: Final = "value"
"""The observation's number (OBX-5 of type NM or SN), or truth value (Y, N of type ID or IS)."""
FIELDS: Final[dict[str, str]] = {
    "text": "OBX-5", "units": "OBX-6.1", "code": "OBX-3.1", "name": "OBX-3.2", "coding": "OBX-3.3",
    "sub_id": "OBX-4", "range": "OBX-7", "flags": "OBX-8", "status": "OBX-11", "device": "OBX-18.1",
    "order": "OBR-3.1", "service": "OBR-4.1", "patient": "PID-3.1", "location": "PV1-3",
    "visit": "PV1-19.1", "sender": "MSH-3.1", "facility": "MSH-4.1", "control_id": "MSH-10",
}  # fmt: skip
OBSERVATIONS_MAX: Final = 2_000
"""Most observations per HL7 message, so that its events fit into one wire message."""
_PATH: Final = re.compile(r"([A-Z][A-Z0-9]{2})-([0-9]{1,3})(?:\.([0-9]{1,3}))?")
_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})")
_WITHDRAWN: Final = frozenset("DWX")
"""Values of OBX-11: deleted, wrong, cannot be obtained."""
_EMPTY: Final = ("", '""')
_NOTHING: Final[dict[str, Hl7Segment]] = {}
_GROUPS: Final = {"PID": ("PV1", "OBR"), "OBR": ("OBR",)}
"""Segments that are forgotten when a segment of the key's kind begins."""


class Path(NamedTuple):
    """A field of a segment; component 0: the whole field."""

    segment: str
    field: int
    component: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationMapping:
    """Mapping of messages to events."""

    schema: StreamSchema
    as_attrs: bool
    """Whether a code is an attribute rather than a type."""
    type: str
    """Type of events whose codes are attributes; empty: OBR-4.1."""
    zone: tzinfo | None
    paths: Mapping[str, Path]
    """Attribute -> message field, for attributes that are message fields."""
    codes: Mapping[str, str]
    """Observation code -> attribute."""
    value: str
    """The attribute that gets the observation's number or truth value; empty: none."""


def mapping_of(
    schema: StreamSchema, names: Mapping[str, str], *, as_attrs: bool, type_: str,
    zone: tzinfo | None,
) -> ObservationMapping:  # fmt: skip
    """The mapping to a stream; ``names``: attribute -> its field or code, if named otherwise.

    Raises:
        ValueError: an attribute is no field of a message.
    """
    called = {attr: names.get(attr, attr) for attr in schema.attrs}
    paths = {attr: path for attr, name in called.items() if (path := path_of(name))}
    others = {attr: name for attr, name in called.items() if attr not in paths}
    value = ""
    if not as_attrs:
        value = next((attr for attr, name in others.items() if name == VALUE), "")
        strange = [attr for attr in others if attr != value]
        if strange:
            raise ValueError(
                f"attribute {strange[0]} is no field of a message"
                f"{did_you_mean(strange[0], FIELDS)}; or a path as PV1-3.1"
            )
    return ObservationMapping(
        schema=schema, as_attrs=as_attrs, type=type_, zone=zone, paths=paths, value=value,
        codes={name: attr for attr, name in others.items()} if as_attrs else {},
    )  # fmt: skip


def path_of(name: str) -> Path | None:
    """The field that a name in ``FIELDS``, or a path, denotes.

    >>> path_of("patient"), path_of("PV1-3"), path_of("8867-4")
    (Path(segment='PID', field=3, component=1), Path(segment='PV1', field=3, component=0), None)
    """
    found = _PATH.fullmatch(FIELDS.get(name, name))
    return None if found is None else Path(found[1], int(found[2]), int(found[3] or 0))


class Observations:
    """Converts messages to events, one message after the other."""

    def __init__(self, mapping: ObservationMapping) -> None:
        self.counts: Counter[str] = Counter()
        """Observations: ``withdrawn``, ``empty``, ``unmapped``, ``not_numeric``;
        ``time_of_message``: with no time of their own; ``leap_second``: with second 60."""
        self.stream = mapping.schema.name
        self._last: tuple[str, tzinfo | None, int] = ("", None, 0)
        """The time parsed last: many observations have the same one."""
        self.resolution_ns = 0
        """Resolution of the coarsest time in the last message [ns]."""
        self._mapping = mapping
        self._kept = {"OBR", *(path.segment for path in mapping.paths.values())}

    def rows(self, message: Hl7Message) -> list[Row]:
        """The events of ``message``; raises Hl7Refusal if an observation is invalid."""
        zone = offset_of(message.header.text(7, 1)) or self._mapping.zone
        self.resolution_ns = 0
        try:
            return [self._row(event) for event in self._events(message, zone)]
        except BadRecord as error:
            raise Hl7Refusal("AE", 207, str(error)) from error

    def made_at(self, message: Hl7Message) -> tuple[int | None, int]:
        """When the device made ``message`` by its own clock (MSH-7) and the resolution of that time
        [ns]; None: the message does not say.
        """
        text = message.header.text(7, 1)
        try:
            return instant_of(text, self._mapping.zone), resolution_of(text)
        except Hl7Refusal:
            return None, 0

    def _events(self, message: Hl7Message, zone: tzinfo | None) -> list[_ObservedEvent]:
        """``zone``: the zone of times that name none; MSH-7's if it has one."""
        around = {HEADER: message.header}
        events: list[_ObservedEvent] = []
        joins: _ObservedEvent | None = None
        count = 0
        for segment in message.segments:
            if segment.name != "OBX":
                if segment.name in self._kept or segment.name in _GROUPS:
                    # A new dict: events made before keep their own context.
                    gone = _GROUPS.get(segment.name, ())
                    around = {name: each for name, each in around.items() if name not in gone}
                    around[segment.name] = segment
                    joins = None if gone else joins
                continue
            code = segment.text(3, 1)
            if not self._counts(segment, code):
                continue
            count += 1
            if count > OBSERVATIONS_MAX:
                raise Hl7Refusal("AE", 207, f"more than {OBSERVATIONS_MAX} observations")
            ts = self._instant(segment, around, zone)
            if not self._mapping.as_attrs:
                events.append(_ObservedEvent(ts, code, segment, around, _NOTHING))
                continue
            name = self._mapping.codes[code]
            if joins is None or joins.ts != ts or name in joins.observed:
                joins = _ObservedEvent(ts, self._type(around), segment, around, {})
                events.append(joins)
            joins.observed[name] = segment
        return events

    def _counts(self, segment: Hl7Segment, code: str) -> bool:
        """Whether an OBX has a value that is used; counts why not."""
        withdrawn = segment.raw(11) in _WITHDRAWN and "status" not in self._mapping.schema.attrs
        unmapped = self._mapping.as_attrs and code not in self._mapping.codes
        if withdrawn or unmapped or segment.raw(5) in _EMPTY:
            why = "withdrawn" if withdrawn else "unmapped" if unmapped else "empty"
            self.counts[why] += 1
            return False
        return True

    def _type(self, around: Mapping[str, Hl7Segment]) -> str:
        return self._mapping.type or (around["OBR"].text(4, 1) if "OBR" in around else "")

    def _instant(
        self, segment: Hl7Segment, around: Mapping[str, Hl7Segment], zone: tzinfo | None
    ) -> int:
        """The observation's time: OBX-14, else OBR-7, else MSH-7."""
        text = segment.text(14, 1) or (around["OBR"].text(7, 1) if "OBR" in around else "")
        if not text:
            self.counts["time_of_message"] += 1
            text = around[HEADER].text(7, 1)
        self.resolution_ns = max(self.resolution_ns, resolution_of(text))
        if not text or text != self._last[0] or zone is not self._last[1]:
            self._last = (text, zone, instant_of(text, zone))
        if is_leap(text):
            self.counts["leap_second"] += 1
        return self._last[2]

    def _row(self, event: _ObservedEvent) -> Row:
        schema, attrs = self._mapping.schema, {}
        for name, kind in schema.attrs.items():
            path = self._mapping.paths.get(name)
            if name in event.observed:
                attrs[name] = self._value(event.observed[name], kind)
            elif path is not None:
                here = path.segment == "OBX"
                segment = event.segment if here else event.around.get(path.segment)
                if segment is not None:
                    attrs[name] = _converted(segment.text(path.field, path.component), kind, name)
            elif name == self._mapping.value:
                attrs[name] = self._value(event.segment, kind)
        return checked_row(schema, event.ts, None, None, event.type or None, attrs)

    def _value(self, segment: Hl7Segment, kind: str) -> str | float | bool | None:
        """Convert OBX-5 to an attribute of type ``kind``, according to OBX-2."""
        form, text = segment.raw(2), segment.text(5)
        if kind == "str":
            return text
        if form == "SN" and segment.text(5, 1) in ("", "="):
            text = "" if segment.text(5, 3) else segment.text(5, 2)
        elif form not in ("NM", "ID", "IS") or segment.repeats(5):
            text = ""
        if not text:
            self.counts["not_numeric"] += 1
        return _converted(text, kind, f"OBX-5 of {segment.text(3, 1)!r:.50}")


@dataclass(slots=True)  # frozen instances take three times as long to make
class _ObservedEvent:
    ts: int
    type: str
    segment: Hl7Segment
    """The OBX of the event, or the first of several."""
    around: Mapping[str, Hl7Segment]
    """The segments in effect at the event's first OBX, by name."""
    observed: dict[str, Hl7Segment]
    """Attribute -> its OBX, for events that join several."""


def _converted(text: str, kind: str, what: str) -> str | float | bool | None:
    if text == "":
        return None
    if kind == "str":
        return text
    if kind == "bool":
        if text not in ("Y", "N", "1", "0"):
            raise BadRecord(f"{what}: {text!r:.50} is not Y or N")
        return text in ("Y", "1")
    if not _NUMBER.fullmatch(text):
        raise BadRecord(f"{what}: {text!r:.50} is no number")
    if kind == "int":
        if "." in text:
            raise BadRecord(f"{what}: {text!r:.50} is no whole number, and the attribute is one")
        return int(text)
    return float(text)
