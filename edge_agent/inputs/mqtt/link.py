"""One connection to a broker: paho-mqtt speaks MQTT, asyncio watches the socket.

Each connection has its own client object, so no state of a lost connection remains; the broker
keeps the session (by client id). An acknowledgement on a lost connection has no effect: the broker
sends the message again.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode

CONNECT_SECONDS: Final = 5.0
_TICK_SECONDS: Final = 1.0
"""Interval between checks of the connection's age (keepalive)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSettings:
    """Address of the broker, and the agent's identity and topics."""

    host: str
    port: int
    client_id: str
    username: str
    password: str
    topics: tuple[str, ...]
    keepalive_s: int
    is_kept: bool = True
    """Whether the broker keeps the session, and messages until they are acknowledged."""


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """A received message. ``again``: marked (DUP) as sent before; ``mid``: its packet id."""

    link: BrokerConnection
    mid: int
    qos: int
    again: bool
    retained: bool
    topic: str
    payload: bytes


class BrokerConnection:
    """Opened by ``connect``; ``ended`` returns when it is lost. Always call ``close``."""

    def __init__(
        self,
        settings: BrokerSettings,
        tls: ssl.SSLContext | None,
        welcomed: Callable[[BrokerConnection], None],
        received: Callable[[ReceivedMessage], None],
    ) -> None:
        """``welcomed``: called once, when ``kept`` is known."""
        self.session: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        """The number of the session; set some time after ``welcomed``."""
        self.why = ""
        """Why the connection was lost."""
        self.kept = False
        """Whether the broker had kept the session."""
        self.subscribed = False
        """Whether the broker has confirmed all topics on this connection."""
        self._welcomed = welcomed
        self._is_welcome = False
        self._settings = settings
        self._received = received
        self._lost = asyncio.Event()
        self._paused = False
        self._socket: Any = None
        self._client = client = paho.Client(
            CallbackAPIVersion.VERSION2, settings.client_id, protocol=paho.MQTTv311,
            clean_session=not settings.is_kept, manual_ack=True, reconnect_on_failure=False,
        )  # fmt: skip
        if settings.username:
            client.username_pw_set(settings.username, settings.password or None)
        if tls is not None:
            client.tls_set_context(tls)
        client.connect_timeout = CONNECT_SECONDS
        client.on_connect = self._on_connect
        client.on_subscribe = self._on_subscribe
        client.on_message = self._on_message

    async def connect(self) -> None:
        """Open the connection; raises OSError (or ValueError for a bad host name)."""
        arguments = (self._settings.host, self._settings.port, self._settings.keepalive_s)
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._client.connect, *arguments)
        self._socket = self._client.socket()
        if self._socket is None:
            raise ConnectionError("the broker closed the connection")
        self._client.on_socket_close = self._on_socket_close
        loop.add_reader(self._socket, self._readable)

    async def ended(self) -> None:
        """Keep the connection alive; return when it is lost."""
        while not self._lost.is_set():
            if not self._paused:  # while reading is paused, a missing answer means nothing
                self._client.loop_misc()
            self._write_on()
            try:
                async with asyncio.timeout(_TICK_SECONDS):
                    await self._lost.wait()
            except TimeoutError:
                continue

    def subscribe(self) -> None:
        """Subscribe to all topics."""
        if not self._lost.is_set():
            qos = int(self._settings.is_kept)
            self._client.subscribe([(topic, qos) for topic in self._settings.topics])
            self._write_on()

    def acknowledge(self, mid: int) -> None:
        """Acknowledge a message; the broker may then forget it."""
        if not self._lost.is_set():
            self._client.ack(mid, 1)
            self._write_on()

    def pause(self) -> None:
        """Stop reading until ``resume``."""
        if not self._paused and not self._lost.is_set():
            self._paused = True
            asyncio.get_running_loop().remove_reader(self._socket)

    def resume(self) -> None:
        """Read again after ``pause``."""
        if self._paused and not self._lost.is_set():
            self._paused = False
            asyncio.get_running_loop().add_reader(self._socket, self._readable)

    def close(self) -> None:
        """Close without DISCONNECT: the broker keeps the session either way."""
        self._lose("closed")
        if self._socket is not None:
            self._socket.close()

    # --- inside

    def _readable(self) -> None:
        try:
            self._went(self._client.loop_read())
            # TLS may have read ahead: data in its buffer does not make the socket readable.
            while not self._lost.is_set() and getattr(self._socket, "pending", int)():
                self._went(self._client.loop_read())
        except Exception as error:  # hostile bytes may raise anything in the library
            self._lose(f"what the broker sent cannot be read: {error!r:.100}")
            return
        self._write_on()

    def _write_on(self) -> None:
        """Write pending bytes; what the kernel does not accept is written when it can be."""
        if self._lost.is_set():
            return
        if self._client.want_write():
            self._went(self._client.loop_write())
        loop = asyncio.get_running_loop()
        if self._lost.is_set():
            return
        if self._client.want_write():
            loop.add_writer(self._socket, self._write_on)
        else:
            loop.remove_writer(self._socket)

    def _went(self, code: MQTTErrorCode) -> None:
        if code is not MQTTErrorCode.MQTT_ERR_SUCCESS:
            self._lose(str(paho.error_string(code)))

    def _lose(self, why: str) -> None:
        self.why = self.why or why
        if self._socket is not None and not self._lost.is_set():
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._socket)
            loop.remove_writer(self._socket)
        self._lost.set()

    def _on_connect(
        self, client: paho.Client, userdata: Any, flags: Any, code: Any, properties: Any
    ) -> None:
        del client, userdata, properties
        if code.is_failure:
            self._lose(f"the broker refuses: {code}")
            return
        if not self._is_welcome:
            self._is_welcome, self.kept = True, bool(flags.session_present)
            self._welcomed(self)

    def _on_subscribe(
        self, client: paho.Client, userdata: Any, mid: int, codes: Any, properties: Any
    ) -> None:
        del client, userdata, mid, properties
        for topic, code in zip(self._settings.topics, codes, strict=False):
            if code.is_failure:
                self._lose(f"the broker refuses the topic {topic!r:.100}: {code}")
        self.subscribed = not self._lost.is_set()

    def _on_message(self, client: paho.Client, userdata: Any, message: paho.MQTTMessage) -> None:
        del client, userdata
        if not self._is_welcome:
            self._lose("the broker sent a message before its welcome")
            return
        self._received(
            ReceivedMessage(
                self, message.mid, message.qos, message.dup, message.retain, message.topic,
                bytes(message.payload),
            )
        )  # fmt: skip

    def _on_socket_close(self, client: paho.Client, userdata: Any, found: Any) -> None:
        del client, userdata, found
        self._lose("")  # the return value of loop_read gives the reason
