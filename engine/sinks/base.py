"""What a sink is, what it gets, and the settings that all kinds share."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol

from slackwater.edge_agent.settings_file import Table
from slackwater.engine.output.schema import EMISSION


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
    content = {name: value for name, value in result.items() if name not in EMISSION}
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

    ``queries`` None: all. ``begins_now``: a new sink leaves out the answers that are there.
    ``settle_s``: a result waits so long for its retraction.
    ``behind_max``: bytes of answers that it may be behind without a warning.
    """

    name: str
    receiver: Receiver
    kind: str = ""
    queries: tuple[str, ...] | None = None
    begins_now: bool = False
    confirmed_only: bool = False
    settle_s: float = 0.0
    batch: int = 100
    behind_max: int = 1 << 30
    retry_s: tuple[float, float] = (1.0, 60.0)
