"""What a sink is, what it gets, and the settings that all kinds share (``[[sink]]``).

Kinds are entry points of the group ``slackwater.sinks``, as inputs of agents are: of a function
that reads the kind's own settings from a ``Table`` and gives a ``Receiver``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, NamedTuple, Protocol

from slackwater.edge_agent.entry_points import Kind, read_kinds
from slackwater.edge_agent.settings_file import Table, unknown
from slackwater.edge_agent.units import NS_PER

GROUP: Final = "slackwater.sinks"
_KINDS: Final = "slackwater.engine.sinks.kinds"
OURS: Final[dict[str, Kind]] = {
    "exec": Kind(f"{_KINDS}:exec_sink"),
    "http": Kind(f"{_KINDS}:http_sink"),
    "mqtt": Kind("slackwater.engine.sinks.mqtt:mqtt_sink", ("mqtt",)),
}
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,63}")
_EMISSION: Final = ("op", "at")
"""Fields of a result that are no content (``engine.output.identity``)."""


class SinkItem(NamedTuple):
    """A result on its way.

    Attributes:
        query: its query.
        run: of what answers it is, 8 hexadecimal digits: the query's settings and its log.
        site: as the name of the site's file of answers has it.
        number: of its line in that file, from 0 on.
        identity: 32 hexadecimal digits; a ``-`` has that of the ``+`` that it retracts. Several
            equal results may stand at once, and then have one identity.
        line: the result, a JSON object in UTF-8.
        result: the same, parsed.
    """

    query: str
    run: str
    site: str
    number: int
    identity: str
    line: bytes
    result: Mapping[str, Any]

    @property
    def key(self) -> str:
        """By which a receiver knows a copy; the same after any restart."""
        return f"{self.query}@{self.run}/{self.site}/{self.number}"

    def json(self) -> bytes:
        """What receivers get: an object with ``key``, ``id`` and ``result``, without a newline."""
        head = json.dumps({"key": self.key, "id": self.identity}, ensure_ascii=False).encode()
        return head[:-1] + b', "result": ' + self.line + b"}"


def identity_of(result: Mapping[str, Any]) -> str:
    """``SinkItem.identity`` of a result."""
    content = {name: value for name, value in result.items() if name not in _EMISSION}
    text = json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode(), digest_size=16).hexdigest()


class RefusedError(Exception):
    """The receiver will not take these results, however often they come; says why."""


class RetryError(Exception):
    """They could not be delivered for now; says why. ``after_s``: not before."""

    def __init__(self, why: str, after_s: float = 0.0) -> None:
        super().__init__(why)
        self.after_s = after_s


class Receiver(Protocol):
    """Of one sink, used by one thread. It connects when there is something to deliver."""

    def deliver(self, items: Sequence[SinkItem]) -> None:
        """Returns when all are where they must go, in this order.

        Some may have been delivered before: they have the same keys.

        Raises:
            RefusedError: one at least cannot be taken. None was, or the same call with half of them
                does no harm: they come again in parts, so that only what cannot be taken is left.
            RetryError: all will be delivered again.
        """

    def close(self) -> None:
        """Nothing more comes."""


MakeReceiver = Callable[[Table, str], Receiver]
"""Of a kind: from its table and its name. It raises SettingsError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkSettings:
    """Settings that all kinds share.

    ``queries`` None: all. ``settle_s``: a result waits so long for its retraction.
    ``behind_max``: bytes of answers that it may be behind without a warning.
    """

    name: str
    receiver: Receiver
    queries: tuple[str, ...] | None = None
    confirmed_only: bool = False
    settle_s: float = 0.0
    batch: int = 100
    behind_max: int = 1 << 30
    retry_s: tuple[float, float] = (1.0, 60.0)


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
