"""``slackwater serve``: a gateway on this machine's sockets and clock, writing its arrival log.

A start reads from the log what the gateway must know of it (``engine.gateway.recall``). SIGTERM and
Ctrl-C stop it in order: received records are made durable and acked, then connections are closed. A
kill loses nothing that was acked, because an ack follows the fsync of the file with the events.
SIGHUP reads the settings again: queries and sinks change while the gateway continues.
"""

from __future__ import annotations

import asyncio
import gc
import signal
import ssl
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from slackwater.edge_agent.standard_streams import keep_private
from slackwater.engine.core.errors import SlackwaterError, UserError, need
from slackwater.engine.core.units import unit_ns
from slackwater.engine.gateway.core import GatewayCore, Recalled
from slackwater.engine.gateway.outputs import DeadLetters
from slackwater.engine.hosts.live.questions import check_claim
from slackwater.engine.log.arrival_log import LogReader, LogWriter
from slackwater.engine.log.log_files import log_files
from slackwater.engine.log.log_folder import retired
from slackwater.engine.server.engine_process import (
    ChildProcess,
    EngineProcess,
    SinksProcess,
    spark_ready,
)
from slackwater.engine.server.log_keeper import LogKeeper, LogThread
from slackwater.engine.server.overview import AnswersState, Overview, ResultFeed
from slackwater.engine.server.site_file import SiteSettings, plain_tokens
from slackwater.engine.server.source_figures import SourceFigures
from slackwater.engine.server.tcp_host import (
    NtpResponder,
    RefusalLines,
    TcpHost,
    connections_within,
    open_files,
)
from slackwater.engine.sinks.forwarding import keeper_of

if TYPE_CHECKING:
    from slackwater.engine.server.page.web_server import PageServer

Tell = Callable[[str], None]
"""Takes a line for people, without its newline."""


class _Children:
    """The child processes: the engine, if there are queries, and the sinks."""

    def __init__(
        self, settings: SiteSettings, files: int, tell: Tell, feed: ResultFeed,
        answers: AnswersState,
    ) -> None:  # fmt: skip
        self._files = files
        self._tell = tell
        self._feed = feed
        self._answers = answers
        self._reloading = asyncio.Lock()
        self._reloads = set[asyncio.Task[None]]()
        self._engine: EngineProcess | None = None
        self._sinks: SinksProcess | None = None
        self._keep_answers: Callable[[], None] | None = None
        self._make(settings)

    def _make(self, settings: SiteSettings) -> None:
        self._settings = settings
        engine = settings.engine
        self._answers.running, self._answers.failed, self._answers.sinks = True, [], []
        self._engine = self._sinks = self._keep_answers = None
        if engine is not None:
            self._feed.unit_ns = unit_ns(engine.questions.time_unit)
            task, publish = replace(engine, durable=self._files), self._feed.publish
            self._engine = EngineProcess(task, self._tell, publish, self._answers)
            follows = {} if settings.sinks is None else settings.sinks.follows
            folders = engine.questions.folders
            keeper = keeper_of(Path(engine.answers), folders, engine.keep, follows, self._tell)
            self._keep_answers = keeper.step
        if settings.sinks is not None:
            self._sinks = SinksProcess(settings.sinks, self._tell, self._answers)

    @property
    def saved(self) -> int | None:
        """Number of the newest log file that is no longer needed; None: there is no engine."""
        return None if self._engine is None else self._engine.saved

    def keep_answers(self) -> None:
        """Remove answers beyond the limits; raises OSError."""
        if self._keep_answers is not None:
            self._keep_answers()

    def durable(self, files: int) -> None:
        """Record that the log is durable up to the file ``files``."""
        self._files = files
        if self._engine is not None:
            self._engine.durable(files)

    def start(self) -> None:
        """Start the children."""
        for child in self._running:
            child.start()

    async def stop(self) -> None:
        """Let the children finish their work, and end them."""
        await asyncio.gather(*self._reloads)
        async with self._reloading:
            await self._stop()

    @property
    def _running(self) -> list[ChildProcess]:
        return [child for child in (self._engine, self._sinks) if child is not None]

    async def _stop(self) -> None:
        for child in self._running:  # the engine first, so that the sinks deliver its last answers
            await child.stop()

    def reload_at_sighup(self, reread: Callable[[], SiteSettings]) -> None:
        """Reload at each SIGHUP from now on, including one that came while it was blocked."""
        loop = asyncio.get_running_loop()

        def reload() -> None:
            self._reloads.add(loop.create_task(self.reload(reread)))

        loop.add_signal_handler(signal.SIGHUP, reload)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})  # children inherit the mask

    async def reload(self, reread: Callable[[], SiteSettings]) -> None:
        """Continue with the new settings; if they are invalid, nothing changes."""
        async with self._reloading:
            try:
                settings = reread()
                _check_kind(settings)
                _check_answers(settings)
            except (UserError, OSError) as error:
                self._tell(f"settings are not reloaded: {error}")
                return
            before = self._settings
            if _beside(settings) != _beside(before):
                self._tell(
                    "of the settings, [engine], [answers], [[query]], [[table]] and [[sink]] count "
                    "now"
                )
            settings = replace(before, engine=settings.engine, sinks=settings.sinks)
            if settings == before:
                self._tell("settings are reloaded: no query and no sink has changed")
                return
            await self._stop()
            self._make(settings)
            self.start()
            self._tell(f"settings are reloaded: {_changes(before, settings)}")


def _beside(settings: SiteSettings) -> SiteSettings:
    """The settings that only the next start applies."""
    return replace(settings, engine=None, sinks=None, printed="")


def _changes(before: SiteSettings, after: SiteSettings) -> str:
    """Text about added and removed queries."""
    old, new = (
        {} if each.engine is None else dict(each.engine.questions.queries)
        for each in (before, after)
    )
    come = ", ".join(name for name in new if name not in old)
    gone = ", ".join(name for name in old if name not in new)
    said = [f"{len(new)} queries"]
    said += [f"new: {come}"] if come else []
    said += [f"gone: {gone}"] if gone else []
    return "; ".join(said)


def _check_kind(settings: SiteSettings) -> None:
    if settings.engine is not None and settings.engine.kind == "spark":
        spark_ready()


def _check_answers(settings: SiteSettings) -> None:
    engine = settings.engine
    if engine is not None:
        check_claim(Path(engine.answers), settings.log, engine.questions.of_each())


def serve(
    settings: SiteSettings, tell: Tell, reread: Callable[[], SiteSettings] | None = None
) -> None:
    """Run a gateway, and the engine that answers its queries, until a signal stops it.

    Args:
        settings: of the site.
        tell: takes a line for people.
        reread: reads the settings again at SIGHUP, which the caller has blocked so that none is
            lost; None: settings never change.

    Raises:
        UserError: the log's folder, an address or a certificate is unusable.
        SlackwaterError: the log could not be written at the end.
    """
    keep_private()
    for seen, remedy in plain_tokens(settings):
        tell(f"warning: {seen}: {remedy}")
    _check_kind(settings)
    tls = None if settings.tls is None else settings.tls.context()
    settings = _within_open_files(settings, tell)
    with LogWriter(settings.log) as writer, _opened(settings.dead_letters) as letters:

        def keep(line: str) -> None:
            letters.write(line)
            letters.flush()

        room = max(settings.dead_letters_max - letters.tell(), 0)
        recalled = _recalled(settings.log)
        feed, answers = ResultFeed(), AnswersState()
        _check_answers(settings)
        children = _Children(settings, writer.files, tell, feed, answers)
        log = LogThread(writer, settings.gateway.sink_retry_ns, tell)
        figures = SourceFigures(log, settings.gateway.sources_max)
        core = GatewayCore(settings.gateway, figures, DeadLetters(keep, room), recalled)
        tell(f"log {settings.log}: {_known(recalled)}")
        page = _page(settings, Overview(core, figures, answers), feed, tell)
        keeper = LogKeeper(
            settings.log, settings.keep, lambda: children.saved, tell, also=children.keep_answers
        )
        with keeper:
            asyncio.run(_serve(core, log, settings, tls, page, tell, children, reread))


def _within_open_files(settings: SiteSettings, tell: Tell) -> SiteSettings:
    """Limit connections to what this process can hold; one address cannot take all of them."""
    limits = settings.gateway
    files = open_files(limits.connections_max)
    most = min(limits.connections_max, connections_within(files))
    if most == limits.connections_max:
        return settings
    tell(
        f"connections_max is {most} instead of {limits.connections_max}, as this process may have "
        f"{files} open files: raise that limit (ulimit -Hn, LimitNOFILE)"
    )
    of_address = min(limits.connections_per_address, most // 2)
    gateway = replace(limits, connections_max=most, connections_per_address=of_address)
    return replace(settings, gateway=gateway)


def _opened(path: Path) -> TextIO:
    """Open the file of dead letters for appending."""
    try:
        return path.open("a", encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from error


async def _serve(
    core: GatewayCore,
    log: LogThread,
    settings: SiteSettings,
    tls: ssl.SSLContext | None,
    page: PageServer | None,
    tell: Tell,
    children: _Children,
    reread: Callable[[], SiteSettings] | None,
) -> None:
    host = TcpHost(core, refusals=RefusalLines(tell))
    listen = settings.gateway.listen
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)

    def durable(flushes: int, files: int) -> None:
        children.durable(files)
        host.flushed(flushes)

    over = log.start(durable, host.flush_failed)
    over.add_done_callback(lambda _: stopped.set())

    async def written() -> None:
        log.close()
        await over

    try:
        port = await host.listen(listen, settings.port, tls)
    except OSError as error:
        raise UserError(f"port {settings.port} at {listen}: {error.strerror}") from error
    try:
        responder = _responder(listen, settings.ntp_port or port, core)
    except UserError:
        await host.stop(written)
        raise
    if reread is not None:
        children.reload_at_sighup(reread)
    responder.start()
    children.start()
    gc.collect()
    gc.freeze()  # loaded modules stay: exempt them from collections, which delay peers
    tell(f"listening at {listen}: TCP {port}{' (TLS)' if tls else ''}, UDP {responder.port}")
    try:
        if page is not None:
            tell(f"page at {await page.start()}")
        await stopped.wait()
    finally:
        responder.close()
        try:
            await host.stop(written)
        except OSError as error:
            raise SlackwaterError(
                f"{settings.log}: {error.strerror}; what is not in the log was not acked, so that "
                "agents will send it again"
            ) from error
        finally:
            await children.stop()
            if page is not None:  # it shows the last answers
                await page.stop()
    tell("stopped; everything that came is in the log")


def _page(
    settings: SiteSettings, overview: Overview, feed: ResultFeed, tell: Tell
) -> PageServer | None:
    """The page, if requested; its packages are imported only then."""
    if settings.page is None:
        return None
    need("page")
    from slackwater.engine.server.page.web_server import PageServer  # noqa: PLC0415

    tls = settings.tls.context(ask_clients=False) if settings.tls and settings.page.tls else None
    return PageServer(settings.page, overview, feed, tls, tell)


def _responder(listen: str, port: int, core: GatewayCore) -> NtpResponder:
    try:
        return NtpResponder(listen, port, core.datagram_received)
    except OSError as error:
        raise UserError(f"UDP port {port} at {listen}: {error.strerror}") from error


def _recalled(log: Path) -> Recalled:
    return Recalled(LogReader(log).one_by_one() if log_files(log) else (), retired(log).known)


def _known(recalled: Recalled) -> str:
    if recalled.last_arrival is None:
        return "new"
    return f"goes on, with {len(recalled.sources)} sources known"
