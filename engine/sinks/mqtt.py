"""The kind of sink ``mqtt``: one message with QoS 1 for each result."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Condition
from typing import Any, Final
from urllib.parse import SplitResult, unquote

from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from slackwater.edge_agent.listening import TlsFiles, read_tls
from slackwater.edge_agent.settings_file import Table
from slackwater.engine.sinks.base import RefusedError, RetryError, SinkItem
from slackwater.engine.sinks.kinds import read_password, read_timeout_s, read_url

_MQTT_PORTS: Final = {"mqtt": 1883, "mqtts": 8883}
_MQTT_REFUSES: Final = frozenset({0x90, 0x95, 0x99})
"""Reasons about the message: topic name, packet too large, payload format."""
_FAILURE: Final = 0x80
_PROTOCOLS: Final = {"5": 5, "3.1.1": 4}
"""paho's numbers. Only version 5 reports that a broker refuses a message."""


class MqttReceiver:
    """Publishes with QoS 1; a message is delivered when the broker has acknowledged it.

    Args:
        url: ``mqtt`` or ``mqtts``, with the user's name.
        password: password of that user.
        topic: may contain ``{query}`` and ``{site}``.
        protocol: a key of ``_PROTOCOLS``.
        timeout_s: for the acknowledgements of a batch.
        tls: for ``mqtts``.
    """

    def __init__(
        self, url: SplitResult, password: str, topic: str, protocol: str, timeout_s: float,
        tls: TlsFiles | None,
    ) -> None:  # fmt: skip
        self._url = url
        self._password = password
        self._topic = topic
        self._protocol = protocol
        self._timeout_s = timeout_s
        self._tls = tls
        self._client: Any = None
        self._changed = Condition()
        self._acknowledged = 0
        self._refused: list[str] = []
        self._lost = ""

    def deliver(self, items: Sequence[SinkItem]) -> None:
        if self._client is None:
            self._connect()
        self._acknowledged, self._refused = 0, []
        for item in items:
            topic = self._topic.format(query=item.query, site=item.site)
            self._client.publish(topic, item.json(), 1)
        self._wait(lambda: self._acknowledged == len(items), "no acknowledgement")
        if self._refused:
            raise RefusedError(f"{self._url.netloc}: {self._refused[0]}")

    def close(self) -> None:
        if self._client is not None:
            self._client.disconnect()
            self._client.loop_stop()
            self._client = None

    def _wait(self, done: Callable[[], bool], lacking: str) -> None:
        with self._changed:
            self._changed.wait_for(lambda: done() or self._lost, self._timeout_s)
            why = "" if done() and not self._lost else self._lost or lacking
        if why:
            self.close()
            raise RetryError(f"{self._url.hostname}: {why}")

    def _connect(self) -> None:
        self._lost = ""
        client = paho.Client(
            CallbackAPIVersion.VERSION2, protocol=MQTTProtocolVersion(_PROTOCOLS[self._protocol]),
            reconnect_on_failure=False,
        )  # fmt: skip
        if self._url.username:
            client.username_pw_set(unquote(self._url.username), self._password or None)
        if self._url.scheme == "mqtts":
            default = ssl.create_default_context
            client.tls_set_context(default() if self._tls is None else self._tls.context())
        client.max_queued_messages_set(0)
        client.connect_timeout = self._timeout_s
        client.on_connect = self._on_connect
        client.on_publish = self._on_publish
        client.on_disconnect = self._on_disconnect
        try:
            client.connect(
                self._url.hostname or "", self._url.port or _MQTT_PORTS[self._url.scheme]
            )
        except (OSError, ValueError) as error:  # ValueError: no such host name
            raise RetryError(f"{self._url.hostname}: {error}") from error
        self._client = client
        client.loop_start()
        self._wait(client.is_connected, "no answer")

    # Called by paho's thread.

    def _on_connect(self, client: Any, data: Any, flags: Any, reason: Any, more: Any) -> None:
        del client, data, flags, more
        with self._changed:
            if reason.is_failure:
                self._lost = f"the broker refuses: {reason}"
            self._changed.notify_all()

    def _on_publish(self, client: Any, data: Any, mid: int, reason: Any, more: Any) -> None:
        del client, data, mid, more
        with self._changed:
            if reason.value in _MQTT_REFUSES:
                self._refused.append(str(reason))
            elif reason.value >= _FAILURE:
                self._lost = f"the broker does not take it: {reason}"
            self._acknowledged += 1
            self._changed.notify_all()

    def _on_disconnect(self, client: Any, data: Any, flags: Any, reason: Any, more: Any) -> None:
        del client, data, flags, more
        with self._changed:
            self._lost = self._lost or f"the connection ended: {reason}"
            self._changed.notify_all()


def mqtt_sink(table: Table, name: str) -> MqttReceiver:
    """Read ``url``, ``password``, ``topic``, ``protocol``, ``timeout`` and ``tls``."""
    del name
    url = read_url(table, tuple(_MQTT_PORTS))
    topic = table.text("topic", "slackwater/{query}/{site}")
    try:
        example = topic.format(query="q", site="s")
    except (KeyError, IndexError, ValueError) as error:
        raise table.wrong("topic", "may have {query} and {site}, and no other braces") from error
    if not example or set(example) & {"+", "#"}:
        raise table.wrong("topic", "must have a character, and none of + and #")
    protocol = table.text("protocol", "5", among=_PROTOCOLS)
    tls = read_tls(table.table("tls"), Path(table.file).parent)
    if tls is not None and url.scheme == "mqtt":
        raise table.wrong("tls", "an mqtt address has no TLS; write mqtts")
    return MqttReceiver(url, read_password(table, url), topic, protocol, read_timeout_s(table), tls)
