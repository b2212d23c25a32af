"""What may be wrong with the input of an agent: a peer's bytes, or its own settings.

Peers' errors carry a short ``reason`` (a fixed word, for counting) and a ``detail`` (for people).
"""

from __future__ import annotations

from typing import Final

SAMPLE_BYTES: Final = 256
"""So much of a refused message is kept with the error, for the dead-letter file."""


class AgentError(Exception):
    """Base of every error that the agent raises on purpose."""


class WireError(AgentError):
    """A peer sent what breaks a rule of the wire. The peer is refused, nobody crashes."""

    def __init__(self, reason: str, detail: str = "", data: bytes = b"") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.detail = detail
        self.sample = bytes(data[:SAMPLE_BYTES])


class NtpRefused(AgentError):  # noqa: N818 - a refusal is expected traffic, not an error
    """An NTP packet that must not be believed or answered; ``reason`` is counted."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}" if detail else reason)
        self.reason = reason
        self.detail = detail


class SettingsError(AgentError):
    """A setting of the agent is out of its range; the message names it and the range."""
