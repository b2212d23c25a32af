"""Messages of MQTT: payloads and topics become events."""

from __future__ import annotations

from typing import Any

import pytest

from edge_agent.rows import BadRecord, Row
from tests.inputs.outlet import NOW_NS, an_input, mistake

ATTRS = {"temperature": "float", "machine": "str", "line": "int"}


def events(topic: str, payload: bytes, **settings: Any) -> list[Row]:
    made = an_input({"kind": "mqtt", "topics": ["#"], **settings}, ATTRS)
    return [row for _, row in made._payloads.events(topic, payload, NOW_NS)]


def test_a_payload_is_an_event_and_its_topic_says_more() -> None:
    # As Zigbee2MQTT and Tasmota publish: an object per reading, the device in the topic.
    payload = b'{"temperature": 21.5, "ts": "2024-01-01T00:00:00.5Z", "battery": 97}'
    found = events("hall/7/press-2/READING", payload, parts=["", "line", "machine", "type"])
    ts = 1704067200 * 10**9 + 500 * 10**6
    assert found == [Row(ts, ts, None, "READING", (21.5, "press-2", 7))]


def test_a_list_is_some_events() -> None:
    found = events("t", b'[{"ts": 1, "temperature": 1}, {"ts": 2}]', time_unit="ms")
    assert [(row.ts, row.attrs[0]) for row in found] == [(10**6, 1.0), (2 * 10**6, None)]


def test_a_number_is_the_attribute_that_is_named() -> None:
    (found,) = events("press-2", b"-4.25", value="temperature", parts=["machine"])
    assert found == Row(NOW_NS, NOW_NS, None, None, (-4.25, "press-2", None))


def test_what_the_payload_says_itself_comes_first() -> None:
    (found,) = events("a", b'{"machine": "b"}', parts=["machine"])
    assert found.attrs[1] == "b"


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        (b"", "not JSON"),
        (b"21.5", "not an object of JSON"),
        (b"[[1]]", "not an object of JSON"),
        (b"[" * 100_000, "not JSON"),
        (b'{"temperature": "warm"}', "attribute temperature: 'warm' is not of type float"),
        (b"\xff\xfe", "not JSON"),
        (b'{"stream": "other"}', "no stream 'other'"),
        (b'{"stream": ["events"]}', "no stream"),
        (b'"' + b"x" * (256 << 10) + b'"', "a payload of 262146 bytes"),
        (b"[" + b"{}," * 1000 + b"{}]", "1001 events in one message"),
    ],
)
def test_payloads_that_are_no_events_are_told(payload: bytes, told: str) -> None:
    with pytest.raises(BadRecord) as error:
        events("topic", payload)
    assert told in str(error.value)


def test_a_part_that_is_no_number_is_told() -> None:
    with pytest.raises(BadRecord, match="line: 'x' is not of type int"):
        events("x", b"{}", parts=["line"])


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, "topics: must be given"),
        ({"topics": []}, "topics: write the topics to subscribe to"),
        ({"topics": ["a"], "parts": ["machin"]}, 'did you mean "machine"?'),
        ({"topics": ["a"], "value": "type"}, '"type" is no field or attribute'),
        ({"topics": ["a"], "password": "x", "password_file": "y"}, "not both"),
        ({"topics": ["a"], "keepalive": "1 ms"}, "must be at least 1 s"),
        ({"topics": ["a"], "reconnect": "2 s", "reconnect_max": "1 s"}, "must be at least 2 s"),
        ({"topics": ["a"], "tls": {"certificate": "a.pem"}}, "certificate and key go together"),
        ({"topics": ["a"], "tls": {"on": True, "authorities": "gone.pem"}}, "gone.pem: No such"),
        ({"topics": ["a"], "quos": 1}, "quos: no such setting"),
    ],
)
def test_mistakes_in_settings_are_told(settings: dict[str, Any], told: str) -> None:
    assert told in mistake({"kind": "mqtt", **settings}, ATTRS)
