"""The settings file of ``slackwater serve``: addresses, admission, the log, the page."""

from __future__ import annotations

import ssl
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, Final

from slackwater.edge_agent.errors import SettingsError
from slackwater.edge_agent.listening import Listening, is_loopback, read_listening
from slackwater.edge_agent.settings_file import Table, named_in_errors, read_toml
from slackwater.engine.core.errors import UserError
from slackwater.engine.gateway.settings import GatewaySettings
from slackwater.engine.hosts.live.program import Task
from slackwater.engine.log.input.numbering import BITS
from slackwater.engine.server.engine_process import read_engine, read_limits
from slackwater.engine.server.log_keeper import KeepSettings
from slackwater.engine.sinks.program import SinkTask, read_sinks

# ``[log]`` of a site's settings: how its files are kept.


def read_keep(table: Table) -> KeepSettings:
    """Read ``[log]``.

    Raises:
        SettingsError: a wrong setting.
    """
    compact = table.flag("compact", True)
    return KeepSettings(compact=compact, limits=read_limits(table))


# ``[page]`` of a site's settings: its address and access.


PAGE_PORT: Final = 9751


@dataclass(frozen=True, slots=True, kw_only=True)
class PageSettings(Listening):
    """Without a token only this machine may see the page. ``port`` 0: any free port.

    ``metrics_sources_max``: number of sources with their own series in /metrics.
    """

    port: int = PAGE_PORT
    tls: bool = False
    metrics_sources_max: int = 500


def read_page(whole: Table, *, has_tls: bool) -> PageSettings | None:
    """The settings in ``[page]``; None: no such table, so no page.

    Raises:
        SettingsError: an address that others can reach without a token, a short token, or TLS
            without a certificate.
    """
    has_page, table = "page" in whole, whole.table("page")
    if not has_page:
        return None
    at = read_listening(table, PAGE_PORT)
    tls = table.flag("tls", False)
    if tls and not has_tls:
        raise table.wrong("tls", "needs the certificate and key of [tls]")
    return PageSettings(
        listen=at.listen,
        port=at.port,
        token=at.token,
        tls=tls,
        metrics_sources_max=table.integer("metrics_sources_max", 500, 0, 100_000),
    )


# The settings file of ``slackwater serve``: addresses, admission, and the log.


PORT: Final = 9750
"""TCP port and, for time sync, UDP port."""
_NOT_LIMITS: Final = ("tokens", "listen", "without_tokens", "seq_bits", "ntp")


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteTlsFiles:
    """PEM files. ``clients``: authorities that must have signed every client's certificate."""

    certificate: Path
    key: Path
    clients: Path | None = None

    def context(self, *, ask_clients: bool = True) -> ssl.SSLContext:
        """Context of the server's sockets; ``ask_clients`` False: clients need no certificate.

        Raises:
            UserError: a file cannot be read, or holds no certificate or key.
        """
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as error:
            raise UserError(f"[tls] {self.certificate}, {self.key}: {_reason(error)}") from error
        if self.clients is not None and ask_clients:
            try:
                context.load_verify_locations(self.clients)
            except (OSError, ssl.SSLError) as error:
                raise UserError(f"[tls] clients: {self.clients}: {_reason(error)}") from error
            context.verify_mode = ssl.CERT_REQUIRED
        return context


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteSettings:
    """Settings of a server."""

    gateway: GatewaySettings
    port: int
    """TCP port; 0: any free port."""
    ntp_port: int
    """UDP port; 0: the same as TCP's."""
    log: Path
    keep: KeepSettings
    """How the log's files are kept."""
    dead_letters: Path
    dead_letters_max: int
    tls: SiteTlsFiles | None
    page: PageSettings | None
    """None: no page."""
    engine: Task | None
    """Engine and queries; None: only the log is written."""
    sinks: SinkTask | None
    """Sinks of the answers; None: there are none, or no engine."""
    printed: str
    """The effective settings as TOML, without tokens."""


def plain_tokens(settings: SiteSettings) -> list[tuple[str, str]]:
    """Where tokens cross a network unencrypted, and the remedy, as texts."""
    found = []
    remedy = "give [tls] a certificate, or listen at 127.0.0.1 behind a proxy that speaks TLS"
    gateway, page = settings.gateway, settings.page
    if gateway.tokens and settings.tls is None and not is_loopback(gateway.listen):
        found.append((f"[gateway] takes tokens without TLS at {gateway.listen}", remedy))
    if page is not None and page.token and not page.tls and not is_loopback(page.listen):
        remedy += ", and set tls = true in [page]"
        found.append((f"[page] takes its token without TLS at {page.listen}", remedy))
    return found


def read_site(path: Path, engine: str | None = None) -> SiteSettings:
    """Read the settings file ``path``; file names in it are relative to its folder.

    Args:
        path: the file.
        engine: kind of the engine, instead of the file's; None: as in the file.

    Raises:
        UserError: a wrong setting; names the place and the remedy.
    """
    try:
        with named_in_errors(path):
            return _site(read_toml(path), path.parent, engine)
    except SettingsError as error:
        raise UserError(str(error)) from error
    except UserError as error:
        raise UserError(f"{path}: {error}") from error


def _site(whole: Table, folder: Path, kind: str | None) -> SiteSettings:
    table = whole.table("gateway")
    listen = table.host("listen", "127.0.0.1")
    port = table.integer("port", PORT, 0, 65_535)
    ntp_port = table.integer("ntp_port", 0, 0, 65_535)
    log = folder / table.text("log")
    dead_letters = folder / table.text("dead_letters", f"{log.name}.refused.jsonl")
    letters_max = table.size("dead_letters_max", 16 << 20)
    gateway = GatewaySettings(
        listen=listen,
        without_tokens=table.flag("without_tokens", False),
        seq_bits=_seq_bits(whole.table("seq_bits")),
        tokens=_tokens(whole.table("tokens")) or None,
        **_limits(whole.table("limits")),
    )
    tls = _tls(whole.table("tls"), folder)
    page = read_page(whole, has_tls=tls is not None)
    keep = read_keep(whole.table("log"))
    engine = read_engine(whole, folder, log, kind)
    sinks = _sinks(whole, engine)
    whole.done()
    return SiteSettings(
        gateway=gateway,
        port=port,
        ntp_port=ntp_port,
        log=log,
        keep=keep,
        dead_letters=dead_letters,
        dead_letters_max=letters_max,
        tls=tls,
        page=page,
        engine=engine,
        sinks=sinks,
        printed=whole.printed(),
    )


def _sinks(whole: Table, engine: Task | None) -> SinkTask | None:
    """Check ``[[sink]]``; the process of the sinks reads the tables again."""
    tables = whole.tables("sink")
    if tables and "query" not in whole.values:
        raise tables[0].wrong("kind", "there are no answers to take away: add a [[query]]")
    found = read_sinks(tables, None if engine is None else engine.questions.folders)
    if not found or engine is None:
        return None
    queries = engine.questions.names()
    return SinkTask(
        answers=engine.answers,
        file=tables[0].file,
        tables=tuple(table.values for table in tables),
        queries=queries,
        follows={each.name: each.queries or queries for each in found},
    )


def _tokens(table: Table) -> dict[tuple[str, str], str]:
    """Read ``"site/source" = "token"``; the default site is ``main``."""
    found = {}
    for key in table.keys():  # noqa: SIM118 - a Table is no dict
        site, slash, source = key.partition("/")
        site, source = (site, source) if slash else ("main", site)
        if not site or not source:
            raise table.wrong(key, 'write "SITE/SOURCE" = "TOKEN"')
        token = table.text(key, secret=True)
        if not token:
            raise table.wrong(key, "an empty token lets anyone in")
        found[site, source] = token
    return found


def _seq_bits(table: Table) -> dict[str, int]:
    """Read ``STREAM = 8``, ``"SOURCE/STREAM" = 16``: bits of the counters in a stream whose events
    no agent numbers.
    """
    found = {stream: table.integer(stream) for stream in table.keys()}  # noqa: SIM118 - as above
    for stream, bits in found.items():
        if bits not in BITS:
            raise table.wrong(stream, f"a counter has {', '.join(map(str, BITS))} bits")
    return found


def _limits(table: Table) -> dict[str, Any]:
    """Read the limits and periods of ``GatewaySettings``, durations without ``_ns`` in their
    names.
    """
    found: dict[str, Any] = {}
    for field in fields(GatewaySettings):
        if field.name in _NOT_LIMITS:
            continue
        assert field.default is not MISSING
        name = field.name.removesuffix("_ns")
        if name != field.name:
            found[field.name] = table.duration_ns(name, field.default)
        elif "bytes" in name or name == "half_messages_max":
            found[field.name] = table.size(name, field.default, low=1)
        else:
            found[field.name] = table.integer(name, field.default, low=1)
    return found


def _tls(table: Table, folder: Path) -> SiteTlsFiles | None:
    certificate = table.text("certificate", "")
    key = table.text("key", "")
    clients = table.text("clients", "")
    if not (certificate or key or clients):
        return None
    for name, path in (("certificate", certificate), ("key", key)):
        if not path:
            raise table.wrong(name, "must be given with TLS")
    return SiteTlsFiles(
        certificate=folder / certificate,
        key=folder / key,
        clients=folder / clients if clients else None,
    )
