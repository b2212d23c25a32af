"""NTPv4 packets (RFC 5905 7.3), the arithmetic of one exchange in integers, and authentication."""

from __future__ import annotations

import hashlib
import hmac
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Final, NamedTuple

from slackwater.edge_agent.errors import NtpRefused

# Message authentication of time sync between an agent and its own gateway.
#
# A packet is followed by a MAC of 20 octets, as symmetric keys have it in NTPv4 (RFC 5905 section
# 7.3, RFC 7822 section 7.5, and as long as RFC 8573's): a key identifier of 4, and a digest of 16.
# RFC 8573's AES-CMAC is not in Python's library; the digest is HMAC-SHA-256 (RFC 2104), cut to 128
# bits. Key and identifier are made of the source's name and its token, so a device needs no second
# secret. The token itself is never sent here. A plain NTP client is answered plainly.


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
        # From the name alone: it finds the key and reveals nothing about the token. Never 0
        # (crypto-NAK).
        self.id = hashlib.sha256(name).digest()[: ID_BYTES - 1] + b"\x01"

    def signed(self, packet: bytes) -> bytes:
        """Append the MAC to a packet."""
        return packet + self.id + self._digest(packet)

    def packet(self, data: bytes) -> bytes:
        """Check the MAC of ``data`` and return the packet.

        Raises:
            NtpRefused: ``mac``: no MAC, or not of this key.
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
        """The key that made the MAC of ``data``; None: it has no MAC.

        Raises:
            NtpRefused: ``mac``: no known key made the MAC.
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


# NTPv4 packets (RFC 5905 section 7.3) and the arithmetic of one exchange, in integers.
#
# An agent asks in client mode, the gateway answers in server mode; any NTP client may ask the
# gateway. ``offset`` is server minus client: what is *added* to the client's clock, positive when
# the client is slow. Times are ns since the Unix epoch; on the wire they are 64-bit fixed point,
# 32 bits of seconds since 1900 (modulo 2**32: an *era* of 136 years) and 32 bits of fraction.


PACKET_BYTES: Final = 48
VERSION: Final = 4
MODE_CLIENT: Final = 3
MODE_SERVER: Final = 4
LEAP_UNSYNCHRONISED: Final = 3
STRATUM_LOCAL: Final = 10
STRATUM_UNSYNCHRONISED: Final = 16
LOCAL_CLOCK: Final = 0x7F7F0101
"""Reference id 127.127.1.1: the server's own undisciplined clock."""
NS: Final = 10**9
UNIX_EPOCH_S: Final = 2_208_988_800
"""Seconds from 1900-01-01 to 1970-01-01 (RFC 5905, Figure 4)."""
_HEADER: Final = struct.Struct(">BBbbIIIQQQQ")
_WRAP: Final = 1 << 64
_FRACTION: Final = 1 << 32


def ntp_from_ns(unix_ns: int) -> int:
    """Nanoseconds since 1970 as NTP's 64-bit fixed point, rounded to nearest; the era is lost.

    >>> hex(ntp_from_ns(0))
    '0x83aa7e8000000000'
    """
    since_1900 = unix_ns + UNIX_EPOCH_S * NS
    return ((since_1900 * _FRACTION + NS // 2) // NS) % _WRAP


def ns_from_ntp(fixed: int, near_ns: int) -> int:
    """Inverse of ``ntp_from_ns``, in the era that puts the result nearest to ``near_ns``.

    Exact for every ns within 68 years of ``near_ns``, in 2036 (when the era ends) and after.

    >>> ns_from_ntp(ntp_from_ns(1_700_000_000_123_456_789), near_ns=1_600_000_000 * NS)
    1700000000123456789
    """
    assert 0 <= fixed < _WRAP
    ahead = (fixed - ntp_from_ns(near_ns)) % _WRAP
    if ahead >= _WRAP // 2:
        ahead -= _WRAP
    # Whole fixed-point units before rounding, so that near_ns' own rounding does not add up.
    near_fixed = ((near_ns + UNIX_EPOCH_S * NS) * _FRACTION + NS // 2) // NS
    since_1900 = ((near_fixed + ahead) * NS + _FRACTION // 2) // _FRACTION
    return since_1900 - UNIX_EPOCH_S * NS


def precision_exponent(precision_ns: int) -> int:
    """Smallest power of two of a second that is not below ``precision_ns`` (field Precision)."""
    assert precision_ns > 0
    exponent = -32
    while exponent < 0 and precision_ns << -exponent > NS:
        exponent += 1
    return exponent


def precision_ns(exponent: int) -> int:
    """Nanoseconds of the field Precision, rounded up; one second at most."""
    return NS if exponent >= 0 else -(-NS // (1 << min(-exponent, 62)))


def _short_from_ns(duration_ns: int) -> int:
    """A duration as 16.16 fixed-point seconds, rounded up, at most 65536 s."""
    return min(-(-duration_ns * 65536 // NS), 2**32 - 1)


def _ns_from_short(short: int) -> int:
    """16.16 fixed-point seconds as ns, rounded up."""
    return -(-short * NS // 65536)


class NtpExchange(NamedTuple):
    """One exchange: sent ``t1`` and received ``t4`` on the client's clock, ``t2``/``t3`` server's.

    All in ns since the Unix epoch.
    """

    t1: int
    t2: int
    t3: int
    t4: int

    @property
    def offset_ns(self) -> int:
        """Server minus client (R19 Eq 3.13), positive = the client is slow; rounded down.

        >>> NtpExchange(100, 205, 206, 111).offset_ns
        100
        """
        return ((self.t2 - self.t1) + (self.t3 - self.t4)) // 2

    @property
    def delay_ns(self) -> int:
        """Round trip without the server's own time (R19 Eq 3.12).

        >>> NtpExchange(100, 205, 206, 111).delay_ns
        10
        """
        return (self.t4 - self.t1) - (self.t3 - self.t2)


def request(cookie: int) -> bytes:
    """A client's question. ``cookie`` (64 random bits) replaces the client's transmit time.

    The server copies it to the origin field of its answer: without seeing the question nobody can
    forge the answer, and the question does not reveal the device's clock.
    """
    assert 0 < cookie < _WRAP
    first = VERSION << 3 | MODE_CLIENT
    return _HEADER.pack(first, 0, 0, -20, 0, 0, 0, 0, 0, 0, cookie)


class ServerAnswer(NamedTuple):
    """The checked parts of a server's answer: its ``t2`` and ``t3``, and its precision.

    ``root_delay_ns``, ``root_dispersion_ns``: its own path to its reference clock; the error of its
    time is at most half the former plus the latter (RFC 5905, root distance).
    """

    t2: int
    t3: int
    precision_ns: int
    stratum: int
    root_delay_ns: int = 0
    root_dispersion_ns: int = 0


def read_answer(data: bytes, cookie: int, near_ns: int) -> ServerAnswer:
    """Check a server's answer to ``request(cookie)``; ``near_ns`` picks the NTP era.

    Raises:
        NtpRefused: ``length``, ``mode``, ``origin`` (not what was asked), ``leap`` (3: not
            synchronised), ``stratum`` (0: kiss of death, or 16 and above), or ``empty_time``.
    """
    if len(data) != PACKET_BYTES:
        raise NtpRefused("length", f"{len(data)} bytes")
    fields = _HEADER.unpack(data)
    first, stratum, exponent = fields[0], fields[1], fields[3]
    origin, received, sent = fields[8], fields[9], fields[10]
    if first & 7 != MODE_SERVER:
        raise NtpRefused("mode", f"mode {first & 7}")
    if origin != cookie:
        raise NtpRefused("origin", "an answer to no question of ours")
    if first >> 6 == LEAP_UNSYNCHRONISED:
        raise NtpRefused("leap", "the server is not synchronised")
    if stratum == 0 or stratum >= STRATUM_UNSYNCHRONISED:
        raise NtpRefused("stratum", f"stratum {stratum}")
    if received == 0 or sent == 0:
        raise NtpRefused("empty_time", "a server without time")
    t2 = ns_from_ntp(received, near_ns)
    root_delay, root_dispersion = (_ns_from_short(fields[place]) for place in (4, 5))
    return ServerAnswer(
        t2, ns_from_ntp(sent, t2), precision_ns(exponent), stratum, root_delay, root_dispersion
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerClock:
    """A server's fields about its own clock. The defaults describe an undisciplined local clock."""

    stratum: int = STRATUM_LOCAL
    leap: int = 0
    precision_ns: int = 1_000
    root_delay_ns: int = 0
    root_dispersion_ns: int = 10_000_000
    reference_id: int = LOCAL_CLOCK

    def answer(self, data: bytes, received_ns: int, sent_ns: int) -> bytes:
        """Answer a client's question received at ``received_ns``; the answer leaves at ``sent_ns``.

        Raises:
            NtpRefused: ``length``, ``mode`` (not a client's) or ``version`` (not 1 to 4).
        """
        if len(data) != PACKET_BYTES:
            raise NtpRefused("length", f"{len(data)} bytes")
        fields = _HEADER.unpack(data)
        version, poll, client_transmit = fields[0] >> 3 & 7, fields[2], fields[10]
        if fields[0] & 7 != MODE_CLIENT:
            raise NtpRefused("mode", f"mode {fields[0] & 7}")
        if not 1 <= version <= VERSION:
            raise NtpRefused("version", f"version {version}")
        return _HEADER.pack(
            self.leap << 6 | version << 3 | MODE_SERVER,
            self.stratum,
            poll,
            precision_exponent(self.precision_ns),
            _short_from_ns(self.root_delay_ns),
            _short_from_ns(self.root_dispersion_ns),
            self.reference_id,
            ntp_from_ns(received_ns),
            client_transmit,
            ntp_from_ns(received_ns),
            ntp_from_ns(sent_ns),
        )


# Chrony's bound of a host's clock: ``chronyc -c tracking``, one line of comma-separated values.
#
# The bound is chrony's own (chronyc(1), "tracking"; AWS's ClockBound uses the same): the error of
# the clock is at most |system time| + root dispersion + root delay / 2.


CHRONY_COMMAND: Final = ("chronyc", "-c", "tracking")
_CHRONY_FIELDS: Final = 14
_STRATUM, _SYSTEM, _ROOT_DELAY, _ROOT_DISPERSION, _LEAP = 2, 4, 10, 11, 13
_NOT_SYNCHRONISED: Final = "Not synchronised"
_SECONDS_MAX: Final = 10**9


class Tracking(NamedTuple):
    """``bound_ns``: largest error of the host's clock relative to its reference."""

    bound_ns: int
    stratum: int


def tracking(line: bytes) -> Tracking:
    r"""Parse the output of ``CHRONY_COMMAND``.

    >>> tracking(b"C0A80001,ntp,3,1.0,-0.000020,0,0,0,0,0,0.001,0.0005,64.2,Normal")
    Tracking(bound_ns=1020000, stratum=3)

    Raises:
        NtpRefused: ``chrony``: not such an output; ``leap``: the host is not synchronised.
    """
    cells = line.decode("ascii", "replace").strip().split(",")
    try:
        if len(cells) != _CHRONY_FIELDS:
            raise NtpRefused(
                "chrony", f"{len(cells)} values instead of {_CHRONY_FIELDS}: {line!r:.100}"
            )
        stratum = int(cells[_STRATUM])
        system, delay, dispersion = (
            abs(Decimal(cells[place])) for place in (_SYSTEM, _ROOT_DELAY, _ROOT_DISPERSION)
        )
        bound = system + dispersion + delay / 2
    except (ValueError, InvalidOperation) as error:
        raise NtpRefused("chrony", f"no numbers: {line!r:.100}") from error
    if cells[_LEAP] == _NOT_SYNCHRONISED or stratum == 0:
        raise NtpRefused("leap", "chrony is not synchronised; see chronyc sources")
    if not bound.is_finite() or bound > _SECONDS_MAX:
        raise NtpRefused("chrony", f"no bound: {line!r:.100}")
    return Tracking(-int(-bound * 10**9 // 1), stratum)
