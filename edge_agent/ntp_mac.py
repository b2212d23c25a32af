"""Message authentication of time sync between an agent and its own gateway.

A packet is followed by a MAC of 20 octets, as symmetric keys have it in NTPv4 (RFC 5905 section
7.3, RFC 7822 section 7.5, and as long as RFC 8573's): a key identifier of 4, and a digest of 16.
RFC 8573's AES-CMAC is not in Python's library; the digest is HMAC-SHA-256 (RFC 2104), cut to 128
bits. Key and identifier are made of the source's name and its token, so a device needs no second
secret. The token itself is never sent here. A plain NTP client is answered plainly.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final

from edge_agent.errors import NtpRefused
from edge_agent.ntp import PACKET_BYTES

ID_BYTES: Final = 4
DIGEST_BYTES: Final = 16
MAC_BYTES: Final = ID_BYTES + DIGEST_BYTES


class NtpKey:
    """The key of one source."""

    def __init__(self, site: str, source: str, token: str) -> None:
        """``token`` is not empty."""
        assert token
        name = f"slackwater NTP key\0{site}\0{source}".encode()
        made = hmac.digest(token.encode(), name, "sha256")
        self._secret = made[ID_BYTES:]
        # Of the name alone: it finds the key, and tells nothing of the token. Never 0 (crypto-NAK).
        self.id = hashlib.sha256(name).digest()[: ID_BYTES - 1] + b"\x01"

    def signed(self, packet: bytes) -> bytes:
        """A packet and its MAC."""
        return packet + self.id + self._digest(packet)

    def packet(self, data: bytes) -> bytes:
        """The packet in ``data``, whose MAC is right.

        Raises:
            NtpRefused: ``mac``: it has none, or not this key's.
        """
        packet, key_id, digest = parts(data)
        if key_id != self.id or not hmac.compare_digest(digest, self._digest(packet)):
            raise NtpRefused("mac", "no MAC of this source's token")
        return packet

    def _digest(self, packet: bytes) -> bytes:
        return hmac.digest(self._secret, packet, "sha256")[:DIGEST_BYTES]


class NtpKeys:
    """The keys of all sources that a gateway knows."""

    def __init__(self, tokens: Mapping[tuple[str, str], str]) -> None:
        """``tokens``: by site and source."""
        self._keys: dict[bytes, list[NtpKey]] = {}
        for (site, source), token in tokens.items():
            if token:
                key = NtpKey(site, source, token)
                self._keys.setdefault(key.id, []).append(key)

    def key_of(self, data: bytes) -> NtpKey | None:
        """The key that ``data`` has a right MAC of; None: it has no MAC at all.

        Raises:
            NtpRefused: ``mac``: it has one of nobody.
        """
        if len(data) != PACKET_BYTES + MAC_BYTES:
            return None
        for key in self._keys.get(parts(data)[1], ()):
            try:
                key.packet(data)
            except NtpRefused:
                continue  # two names may have one identifier
            return key
        raise NtpRefused("mac", "a MAC of nobody's token")


def parts(data: bytes) -> tuple[bytes, bytes, bytes]:
    """Packet, key identifier and digest of ``data``; the latter empty where it has no MAC."""
    end = PACKET_BYTES + ID_BYTES
    if len(data) != PACKET_BYTES + MAC_BYTES:
        return data, b"", b""
    return data[:PACKET_BYTES], data[PACKET_BYTES:end], data[end:]
