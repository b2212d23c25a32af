"""Interface of sinks, the results that they get, and the settings that all kinds share."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol

from slackwater.edge_agent.settings_file import Table
from slackwater.engine.output.schema import EMISSION


class SinkItem(NamedTuple):
    """A result to deliver.

    Attributes:
        query: name of its query.
        run: digest of the query's settings and its log, 8 hexadecimal digits.
        site: its site, as in the name of the file of answers.
        number: number of its line in that file, from 0.
        identity: 32 hexadecimal digits; a ``-`` has that of the ``+`` that it retracts. Equal
            results that hold at the same time share one identity.
        line: the result, a JSON object in UTF-8.
        result: the parsed line.
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
        """Key by which a receiver recognises duplicates; the same after any restart."""
        return f"{self.query}@{self.run}/{self.site}/{self.number}"

    def json(self) -> bytes:
        """The receiver's form: an object with ``key``, ``id`` and ``result``, without a newline."""
        head = json.dumps({"key": self.key, "id": self.identity}, ensure_ascii=False).encode()
        return head[:-1] + b', "result": ' + self.line + b"}"


def identity_of(result: Mapping[str, Any]) -> str:
    """Compute ``SinkItem.identity`` of a result."""
    content = {name: value for name, value in result.items() if name not in EMISSION}
    text = json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return blake2b(text.encode(), digest_size=16).hexdigest()


class RefusedError(Exception):
    """The receiver refuses these results permanently; the text says why."""


class RetryError(Exception):
    """The results cannot be delivered at present; the text says why. ``after_s``: least wait."""

    def __init__(self, why: str, after_s: float = 0.0) -> None:
        super().__init__(why)
        self.after_s = after_s


class Receiver(Protocol):
    """Receiver of one sink, used by one thread. It connects when there is something to deliver."""

    def deliver(self, items: Sequence[SinkItem]) -> None:
        """Deliver all items, in this order; return when they are safe.

        Some may have been delivered before: they have the same keys.

        Raises:
            RefusedError: at least one item is refused. Either none was taken, or a repeated call
                with half of them does no harm: they are delivered again in parts, to isolate
                refused ones.
            RetryError: all will be delivered again.
        """

    def close(self) -> None:
        """Close the receiver."""


MakeReceiver = Callable[[Table, str], Receiver]
"""Makes a receiver from its table and name. Raises SettingsError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkSettings:
    """Settings that all kinds share.

    ``queries`` None: all. ``begins_now``: a new sink skips existing answers. ``settle_s``: how long
    a result waits for its retraction. ``behind_max``: backlog in bytes without a warning.
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
