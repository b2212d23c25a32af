"""The settings file of ``slackwater agent``: its name, the gateway, the inputs."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Final

from slackwater.edge_agent.abstraction.machine import ABSTRACTIONS_MAX
from slackwater.edge_agent.abstraction.settings import KINDS, AbstractSettings
from slackwater.edge_agent.drivers.metrics import PORT as METRICS_PORT
from slackwater.edge_agent.drivers.session_driver import GatewayAddress, TimeServer
from slackwater.edge_agent.errors import SettingsError
from slackwater.edge_agent.inputs.base import Surroundings
from slackwater.edge_agent.inputs.registry import NamedInput, read_inputs
from slackwater.edge_agent.listening import Listening, TlsFiles, read_listening, read_tls
from slackwater.edge_agent.messages import ATTR_TYPES, StreamSchema
from slackwater.edge_agent.packing import check_schemas
from slackwater.edge_agent.settings import SessionSettings
from slackwater.edge_agent.settings_file import (
    Table,
    check_host,
    named_in_errors,
    read_toml,
    shown_ns,
)
from slackwater.edge_agent.timesync import CHRONY, GATEWAY, SyncSettings
from slackwater.edge_agent.units import NS_PER

# The ``[[abstract]]`` tables of an agent's settings file.


_DURATIONS: Final = ("gap", "min", "max", "lag", "clock_step")


def read_abstracts(
    tables: Sequence[Table], streams: Sequence[StreamSchema], when_full: dict[str, str],
    among: Collection[str],
) -> tuple[tuple[AbstractSettings, ...], tuple[StreamSchema, ...]]:  # fmt: skip
    """Read the ``[[abstract]]`` tables; also return the streams of intervals that they produce.

    ``when_full`` gets an entry per such stream, one of ``among``. Several abstractions may write
    into one stream if their intervals have the same attributes.

    Raises:
        SettingsError: a wrong setting; names the place and the key.
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
            raise _placed_in_table(table, error) from error
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
    options: dict[str, Any] = {
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
        return AbstractSettings(**options, **durations)
    except SettingsError as error:
        raise _placed_in_table(table, error) from error


def _placed_in_table(table: Table, error: SettingsError) -> SettingsError:
    key, _, problem = str(error).partition(": ")
    return table.wrong(key, problem)


# The settings file of ``slackwater agent``: its identity, the gateways, and what it sends.


PORT: Final = 9750
NTP_PORT: Final = 123
OUTBOX_WINDOW: Final = 2 << 20
"""Bytes of messages in flight from an outbox: enough for 100,000 events a second that are acked
within half a second. The outbox holds the others."""
_SERVER: Final = re.compile(r"(?:\[([0-9A-Fa-f:.]{2,45})\]|([^\s:\[\]/]{1,253}))(?::([0-9]{1,5}))?")
TIME_FROM: Final = ("gateway", "chrony")
WHEN_FULL: Final = ("block", "drop-oldest", "drop-newest")
_SESSION_DURATIONS: Final = (
    "heartbeat_ns", "heartbeat_lag_ns", "hello_timeout_ns", "ack_timeout_ns", "reconnect_ns",
    "reconnect_ns_max",
)  # fmt: skip
_BENT_MS_MAX: Final = 10**12
_BENT_PPM_MAX: Final = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSettings:
    """The settings of an agent."""

    session: SessionSettings
    gateways: tuple[GatewayAddress, ...]
    """Gateways in the order in which they are tried."""
    time_servers: tuple[TimeServer, ...]
    """Standard NTP servers, asked in this order if the gateway does not answer."""
    tls: TlsFiles | None
    streams: tuple[StreamSchema, ...]
    when_full: dict[str, str]
    """Per stream, what happens to events without room (``WHEN_FULL``)."""
    outbox: Path | None
    """Folder of the durable outbox; None: events wait in memory."""
    outbox_bytes_max: int
    """Size limit per stream."""
    drain_max: int
    """Most events per second that leave the outbox; 0: no limit."""
    sync_every_ns: int
    """Shortest time between fsyncs: events are fsynced together."""
    inputs: tuple[NamedInput, ...]
    abstracts: tuple[AbstractSettings, ...]
    """Abstractions of readings before they are sent."""
    stop_ns: int
    """How long a stop waits for acks [ns]."""
    status: Path | None
    status_every_ns: int
    metrics: Listening | None
    """Address at which Prometheus reads the status; None: no metrics."""
    clock_ahead_ns: int
    """Artificial offset [ns] and rate error [ns/s] of this agent's clock, for tests."""
    clock_fast_ppb: int
    printed: str
    """The effective settings as TOML, without the token."""


def read_agent(
    path: Path, wall_ns: Callable[[], int], own_name: Callable[[], str],
    jitter: Callable[[int], int] = lambda most: most,
) -> AgentSettings:  # fmt: skip
    """Read the settings file ``path``; file names in it are relative to its folder.

    Args:
        path: a TOML file.
        wall_ns: this device's wall clock.
        own_name: returns the source's name if the file has none.
        jitter: returns a random whole number up to its argument, for waits before reconnecting.

    Raises:
        SettingsError: a wrong setting; names the place and the remedy.
    """
    with named_in_errors(path):
        return _read(read_toml(path), path.parent, wall_ns, own_name, jitter)


def _read(
    whole: Table, folder: Path, wall_ns: Callable[[], int], own_name: Callable[[], str],
    jitter: Callable[[int], int],
) -> AgentSettings:  # fmt: skip
    table = whole.table("agent")
    outbox = whole.table("outbox")
    outbox_folder = outbox.text("folder", "")
    outbox_max = outbox.size("max", 64 << 20, low=1 << 20)
    sync_every_ns = outbox.duration_ns("sync_every", 20 * NS_PER["ms"])
    window = min(OUTBOX_WINDOW, outbox_max // 4) if outbox_folder else None
    session = _session(whole, table, folder, own_name, window)
    servers, places = _time(whole.table("time"))
    session = replace(session, time_places=places)
    stop_ns = table.duration_ns("stop_timeout", 5 * NS_PER["s"])
    status = table.text("status", "")
    status_every_ns = table.duration_ns("status_every", 10 * NS_PER["s"], low=NS_PER["ms"])
    metrics = None
    if "metrics" in whole:
        metrics = read_listening(whole.table("metrics"), METRICS_PORT)
    ahead_ns, fast_ppb = _bent(whole.table("clock"))
    gateway = whole.table("gateway")
    gateways = _gateways(gateway)
    session = replace(session, gateways=len(gateways))
    drain_max = gateway.integer("drain_max", 0)
    tls = read_tls(whole.table("tls"), folder)
    read_streams, when_full = _streams(whole)
    abstracts, interval_streams = read_abstracts(
        whole.tables("abstract"), read_streams, when_full, among=WHEN_FULL
    )
    streams = (*read_streams, *interval_streams)
    check_schemas(streams)
    if not outbox_folder and "drop-oldest" in when_full.values():
        raise outbox.wrong("folder", "must be given: only an outbox drops its oldest events")
    if drain_max and not outbox_folder:
        raise gateway.wrong("drain_max", "needs an outbox, which keeps what is not sent yet")
    _check_silence(whole, session, abstracts)
    schemas = {stream.name: stream for stream in read_streams}
    surroundings = Surroundings(
        schemas=schemas, wall_ns=wall_ns, jitter=jitter,
        source=f"{session.site}/{session.source}",
    )  # fmt: skip
    tables = whole.tables("input")
    inputs = read_inputs(tables, surroundings)
    for each in tables:
        if abstracts and each.effective.get("clock") == "arrival":
            raise each.wrong("clock", "[[abstract]] needs readings that one clock has stamped")
    whole.done()
    if not inputs:
        raise whole.wrong("input", "there is none: write [[input]] with its kind")
    return AgentSettings(
        session=session, gateways=gateways, time_servers=servers,
        tls=tls, streams=streams, when_full=when_full, inputs=inputs, abstracts=abstracts,
        stop_ns=stop_ns,
        outbox=folder / outbox_folder if outbox_folder else None, outbox_bytes_max=outbox_max,
        drain_max=drain_max, sync_every_ns=sync_every_ns,
        status=folder / status if status else None, status_every_ns=status_every_ns,
        metrics=metrics, clock_ahead_ns=ahead_ns, clock_fast_ppb=fast_ppb,
        printed=whole.printed(),
    )  # fmt: skip


def _bent(table: Table) -> tuple[int, int]:
    """Artificial offset [ns] and rate error [ns/s] of this agent's clock, for tests."""
    ahead_ns = table.integer("ahead_ms", 0, -_BENT_MS_MAX, _BENT_MS_MAX) * NS_PER["ms"]
    return ahead_ns, table.integer("fast_ppm", 0, -_BENT_PPM_MAX, _BENT_PPM_MAX) * 1000


def _check_silence(
    whole: Table, session: SessionSettings, abstracts: Sequence[AbstractSettings]
) -> None:
    """Check that promises do not cover the time in which an interval's end is still unknown."""
    silence_ns = max((each.silence_ns for each in abstracts), default=0)
    if session.heartbeat_ns and session.heartbeat_lag_ns < silence_ns:
        raise whole.table("delivery").wrong(
            "heartbeat_lag", f"must be at least {shown_ns(silence_ns)}: an interval ends so long "
            "before its agent knows it ([[abstract]] gap and lag)"
        )  # fmt: skip


def _session(
    whole: Table, table: Table, folder: Path, own_name: Callable[[], str], window: int | None
) -> SessionSettings:
    """``window``: default for bytes in flight; None: the session's own default."""
    source = table.text("source", "") or own_name()
    table.effective["source"] = source
    delivery = whole.table("delivery")
    defaults = SessionSettings(source="any")
    # A promise excludes older events: only the user knows how late events are read.
    silent = "heartbeat_lag" not in delivery
    durations: dict[str, Any] = {
        name: delivery.duration_ns(
            name.replace("_ns", ""),
            0 if silent and name == "heartbeat_ns" else getattr(defaults, name),
        )
        for name in _SESSION_DURATIONS
    }
    durations["ack_timeout_min_ns"] = delivery.duration_ns(
        "ack_timeout_min", min(NS_PER["s"], durations["ack_timeout_ns"])
    )
    sync = whole.table("sync")
    found: dict[str, Any] = {
        "source": source,
        "site": table.text("site", "main"),
        "token": table.secret("token", folder),
        "connections": delivery.integer("connections", 1, 1, 64),
        "unacked_bytes_max": delivery.size(
            "unacked_max", window or defaults.unacked_bytes_max, low=1 << 16
        ),
        "pull_back_bytes": delivery.size("pull_back", defaults.pull_back_bytes),
    }
    try:
        return SessionSettings(sync=_sync(sync), **found, **durations)
    except SettingsError as error:
        raise _placed(error, (sync, delivery, table)) from error


def _placed(error: SettingsError, tables: Sequence[Table]) -> SettingsError:
    """Return the error at the setting that its first word names, or the error itself."""
    said = str(error)
    key = said.partition(" ")[0].rstrip(":").rpartition(".")[2].replace("_ns", "")
    for table in tables:
        if key in table.effective and not said.startswith(f"{table.file}:"):
            return table.wrong(key, said.removeprefix(f"{key}: ").replace("_ns", ""))
    return error


def _sync(table: Table) -> SyncSettings:
    found: dict[str, Any] = {}
    defaults = SyncSettings()
    for field in fields(SyncSettings):
        name, default = field.name.removesuffix("_ns"), getattr(defaults, field.name)
        if name != field.name:
            found[field.name] = table.duration_ns(name, default)
        else:
            found[field.name] = table.integer(name, default)
    return SyncSettings(**found)


def _time(table: Table) -> tuple[tuple[TimeServer, ...], tuple[int, ...]]:
    """Read ``[time]``: the NTP servers, and the places to ask in order. The gateway comes first
    unless ``gateway`` is false; with ``from = "chrony"``, this host's chrony is the only place.
    """
    keeper = table.text("from", "gateway", among=TIME_FROM)
    found = _servers(table, "servers", NTP_PORT)
    gateway = table.flag("gateway", True)
    if keeper == "chrony":
        if found:
            raise table.wrong("servers", "are chrony's own business: leave them out")
        return (), (CHRONY,)
    if not found and not gateway:
        raise table.wrong("servers", "must be given: the gateway is not to be asked")
    first = () if not gateway else (GATEWAY,)
    return found, (*first, *range(GATEWAY + 1, GATEWAY + 1 + len(found)))


def _servers(table: Table, key: str, port: int) -> tuple[TimeServer, ...]:
    """``port``: default where a text names none."""
    texts = table.texts(key, [])
    try:
        return tuple(read_server(text, port) for text in texts)
    except SettingsError as error:
        raise table.wrong(key, str(error)) from error


def _gateways(table: Table) -> tuple[GatewayAddress, ...]:
    """Read ``host``, or ``hosts``, which may have their own ports."""
    port = table.integer("port", PORT, 1, 65_535)
    has_ntp_port = "ntp_port" in table
    ntp_port = table.integer("ntp_port", port, 1, 65_535)
    if "hosts" not in table:
        return (GatewayAddress(table.host("host", "127.0.0.1"), port, ntp_port),)
    if "host" in table:
        raise table.wrong("hosts", "goes without host: name all gateways in hosts")
    found = tuple(
        GatewayAddress(at.host, at.port, ntp_port if has_ntp_port else at.port)
        for at in _servers(table, "hosts", port)
    )
    if not found or len(set(found)) < len(found):
        raise table.wrong("hosts", 'name each gateway once, as in ["gate-1", "gate-2:9751"]')
    return found


def read_server(text: str, port: int = NTP_PORT) -> TimeServer:
    """Parse ``host``, ``host:port`` or ``[address]:port``; ``port``: the default.

    Raises:
        SettingsError: the text is none of these.
    """
    found = _SERVER.fullmatch(text)
    port = int(found[3] or port) if found else 0
    if found is None or not 1 <= port <= 65_535:
        raise SettingsError(f'{text!r:.100} is no server: write "name" or "name:port"')
    host = found[1] or found[2]
    check_host(host)
    return TimeServer(host, port)


def _streams(whole: Table) -> tuple[tuple[StreamSchema, ...], dict[str, str]]:
    found: list[StreamSchema] = []
    when_full: dict[str, str] = {}
    for table in whole.tables("stream"):
        name = table.text("name")
        inner = table.table("attrs")
        attrs = {attr: inner.text(attr, among=ATTR_TYPES) for attr in inner.keys()}  # noqa: SIM118
        found.append(StreamSchema(name, attrs))
        try:
            check_schemas(found)
        except SettingsError as error:
            raise table.wrong("name", str(error)) from error
        when_full[name] = table.text("when_full", "block", among=WHEN_FULL)
    if not found:
        found, when_full = [StreamSchema("events")], {"events": "block"}
    return tuple(found), when_full
