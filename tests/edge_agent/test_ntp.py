"""SPEC 2: offset and delay of one exchange, NTP's fixed point, and what is not believed."""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import struct

import ntplib
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from slackwater.edge_agent import ntp
from slackwater.edge_agent.clock import Now
from slackwater.edge_agent.errors import NtpRefused
from slackwater.edge_agent.ntp import MAC_BYTES, NtpKey, NtpKeys
from slackwater.edge_agent.settings import SessionSettings
from slackwater.edge_agent.timesync import SyncSettings, SyncState, TimeSync
from slackwater.engine.gateway.peers import Admission
from slackwater.engine.gateway.recall import Recalled
from slackwater.engine.gateway.settings import GatewaySettings

MS = 10**6

S = 10**9

HOUR = 3600 * S

NOW = 1_763_000_000 * S

ERA_1_STARTS = (2**32 - ntp.UNIX_EPOCH_S) * S
"""2036-02-07 06:28:16 UTC: NTP's seconds wrap."""

HALF_ERA = 2**31 * S


def test_spec_2_golden_offset_100_delay_10() -> None:
    exchange = ntp.NtpExchange(100 * MS, 205 * MS, 206 * MS, 111 * MS)
    assert (exchange.offset_ns, exchange.delay_ns) == (100 * MS, 10 * MS)


def exchange_of(offset: int, out: int, back: int, t1: int = NOW) -> ntp.NtpExchange:
    """A source that is slow by ``offset``; legs of ``out`` and ``back``; 1 ms at the server."""
    t2 = t1 + offset + out
    return ntp.NtpExchange(t1, t2, t2 + MS, t1 + out + MS + back)


@pytest.mark.parametrize("offset", [HOUR, -HOUR, 0])
def test_spec_2_golden_one_hour_off_with_symmetric_legs_is_exact(offset: int) -> None:
    exchange = exchange_of(offset, 5 * MS, 5 * MS)
    assert (exchange.offset_ns, exchange.delay_ns) == (offset, 10 * MS)


def test_spec_2_golden_legs_9_and_1_err_by_4_ms_within_half_the_delay() -> None:
    exchange = exchange_of(HOUR, 9 * MS, 1 * MS)
    assert exchange.offset_ns - HOUR == 4 * MS
    assert exchange.delay_ns // 2 >= 4 * MS


@given(st.integers(-HOUR, HOUR), st.integers(0, S), st.integers(0, S), st.integers(-(2**60), 2**60))
def test_r19_eq_3_14_the_true_offset_lies_within_half_the_delay(
    offset: int, out: int, back: int, t1: int
) -> None:
    exchange = exchange_of(offset, out, back, t1)
    # Rounding down to whole ns may cost one.
    assert abs(exchange.offset_ns - offset) <= exchange.delay_ns // 2 + 1
    assert exchange.delay_ns == out + back


@given(st.integers(-(2**61), 2**61), st.integers(-HALF_ERA + S, HALF_ERA - S))
@example(ERA_1_STARTS, 0)
@example(ERA_1_STARTS, -1)
@example(ERA_1_STARTS - 1, 1)
@example(NOW, 0)
def test_ns_to_ntp_to_ns_is_the_identity_within_68_years(near: int, away: int) -> None:
    fixed = ntp.ntp_from_ns(near + away)
    assert 0 <= fixed < 2**64
    assert ntp.ns_from_ntp(fixed, near) == near + away


def test_rfc_5905_figure_4_the_epochs() -> None:
    assert ntp.ntp_from_ns(-ntp.UNIX_EPOCH_S * S) == 0
    assert ntp.ntp_from_ns(0) == 2_208_988_800 << 32
    assert ntp.ntp_from_ns(ERA_1_STARTS) == 0
    assert ntp.ns_from_ntp(1 << 32, ERA_1_STARTS - HOUR) == ERA_1_STARTS + S


def test_an_exchange_over_the_turn_of_the_era() -> None:
    t1 = ERA_1_STARTS - 2 * MS
    clock = ntp.ServerClock()
    data = clock.answer(ntp.request(77), ERA_1_STARTS + 3 * MS, ERA_1_STARTS + 4 * MS)
    answer = ntp.read_answer(data, 77, t1 + 11 * MS)
    exchange = ntp.NtpExchange(t1, answer.t2, answer.t3, t1 + 11 * MS)
    assert (exchange.offset_ns, exchange.delay_ns) == (0, 10 * MS)


@given(st.integers(1, 10**10))
def test_precision_is_rounded_up_to_a_power_of_two(precision: int) -> None:
    exponent = ntp.precision_exponent(precision)
    assert ntp.precision_ns(exponent) >= min(precision, S)
    if exponent < 0:
        assert precision << 1 - exponent > S


def answer_with(cookie: int = 5, **changes: int) -> bytes:
    """A good answer with changed header fields."""
    data = bytearray(ntp.ServerClock().answer(ntp.request(cookie), NOW, NOW + MS))
    if "first" in changes:
        data[0] = changes["first"]
    if "stratum" in changes:
        data[1] = changes["stratum"]
    if "received" in changes:
        data[32:40] = struct.pack(">Q", changes["received"])
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (answer_with(stratum=0), "stratum"),
        (answer_with(stratum=16), "stratum"),
        (answer_with(stratum=255), "stratum"),
        (answer_with(first=3 << 6 | 4 << 3 | 4), "leap"),
        (answer_with(first=4 << 3 | 3), "mode"),
        (answer_with(first=4 << 3 | 5), "mode"),
        (answer_with(cookie=6), "origin"),
        (answer_with(received=0), "empty_time"),
        (answer_with()[:47], "length"),
        (answer_with() + b"x", "length"),
        (b"", "length"),
    ],
)
def test_a_client_refuses_what_it_must_not_believe(data: bytes, reason: str) -> None:
    with pytest.raises(NtpRefused) as refused:
        ntp.read_answer(data, 5, NOW)
    assert refused.value.reason == reason


def test_a_client_takes_a_good_answer_of_any_true_stratum() -> None:
    for stratum in range(1, 16):
        answer = ntp.read_answer(answer_with(stratum=stratum), 5, NOW)
        assert answer[:4] == (NOW, NOW + MS, 1908, stratum)
        assert answer[4:] == (0, 10_009_766)  # the root distance, rounded up to 2^-16 s


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "length"),
        (ntp.request(1)[:-1], "length"),
        (bytes([4 << 3 | 4]) + ntp.request(1)[1:], "mode"),
        (bytes([0 << 3 | 3]) + ntp.request(1)[1:], "version"),
        (bytes([5 << 3 | 3]) + ntp.request(1)[1:], "version"),
    ],
)
def test_a_server_does_not_answer_what_is_no_question(data: bytes, reason: str) -> None:
    with pytest.raises(NtpRefused) as refused:
        ntp.ServerClock().answer(data, NOW, NOW)
    assert refused.value.reason == reason


@given(st.binary(max_size=60))
def test_no_bytes_crash_client_or_server(data: bytes) -> None:
    for ask in (
        lambda: ntp.ServerClock().answer(data, NOW, NOW),
        lambda: ntp.read_answer(data, 5, NOW),
    ):
        with contextlib.suppress(NtpRefused):
            ask()


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_a_foreign_client_reads_our_answer(version: int) -> None:
    question = ntplib.NTPPacket(version, 3, ntplib.system_to_ntp_time(1.5))
    clock = ntp.ServerClock(root_dispersion_ns=20 * MS)
    data = clock.answer(question.to_data(), NOW, NOW + MS)
    read = ntplib.NTPStats()
    read.from_data(data)
    assert (read.mode, read.version, read.leap, read.stratum) == (4, version, 0, 10)
    assert read.orig_timestamp == ntplib.system_to_ntp_time(1.5)
    assert ntplib.ntp_to_system_time(read.recv_timestamp) == pytest.approx(NOW / S, abs=1e-6)
    assert read.tx_timestamp - read.recv_timestamp == pytest.approx(0.001, abs=1e-6)
    assert read.root_dispersion == pytest.approx(0.02, abs=2e-5)
    assert read.precision == -19
    assert read.ref_id == 0x7F7F0101


TOKENS = {("main", "door"): "secret", ("main", "gate"): "other"}


def a_gateway(tokens: dict[tuple[str, str], str] | None = None) -> Admission:
    return Admission(GatewaySettings(tokens=TOKENS if tokens is None else tokens), Recalled())


def an_agent(token: str = "secret") -> TimeSync:
    settings = SessionSettings(source="door", token=token, sync=SyncSettings(attempts=1))
    return TimeSync(settings.sync, lambda: 77, settings.ntp_key)


def asked(sync: TimeSync) -> bytes:
    sync.start(Now(NOW, 0))
    (question,) = sync.requests()
    return question


def test_an_agent_and_its_gateway_believe_each_other() -> None:
    sync = an_agent()
    question = asked(sync)
    assert len(question) == ntp.PACKET_BYTES + MAC_BYTES == 68
    answer = a_gateway().time(question, NOW + S, NOW + S)
    sync.received(answer, Now(NOW + 10, 10))
    assert sync.state is SyncState.SYNCED
    assert sync.reports()[0].offset_ns == S - 5


@given(st.binary(max_size=100), st.integers(0, 67), st.integers(1, 255))
def test_no_other_answer_is_believed(junk: bytes, place: int, flip: int) -> None:
    sync = an_agent()
    question = asked(sync)
    answer = a_gateway().time(question, NOW + S, NOW + S)
    changed = bytearray(answer)
    changed[place] ^= flip
    plain = ntp.ServerClock().answer(question[:48], NOW + S, NOW + S)
    strange = NtpKey("main", "gate", "other").signed(answer[:48])
    for forged in (bytes(changed), plain, strange, question, answer[:48], answer + b"\0", junk):
        sync.received(forged, Now(NOW + 10, 10))
    assert sync.counts["refused_mac"] == 6
    assert sync.counts["refused_mode"] == 1  # our own question, sent back
    sync.received(answer, Now(NOW + 20, 20))  # the right one still counts
    assert sync.state is SyncState.SYNCED


@pytest.mark.parametrize(
    "tokens",
    [{}, {("main", "door"): "wrong"}, {("main", "gate"): "secret"}, {("main", "door"): ""}],
)
def test_a_question_with_a_mac_of_nobody_is_refused(tokens: dict[tuple[str, str], str]) -> None:
    with pytest.raises(NtpRefused, match="mac"):
        a_gateway(tokens).time(asked(an_agent()), NOW, NOW)


def test_two_sources_of_one_identifier_are_distinguished() -> None:
    keys = NtpKeys(TOKENS)
    door, gate = NtpKey("main", "door", "secret"), NtpKey("main", "gate", "other")
    gate.id = door.id
    keys._keys = {door.id: [gate, door]}
    assert keys.key_of(door.signed(bytes(48))) is door
    assert keys.key_of(gate.signed(bytes(48))) is gate


def test_the_mac_is_what_the_module_says() -> None:
    name = b"slackwater NTP key\0main\0door"
    made = hmac.new(b"secret", name, hashlib.sha256).digest()
    digest = hmac.new(made[4:], bytes(48), hashlib.sha256).digest()[:16]
    key_id = struct.pack(">3sB", hashlib.sha256(name).digest()[:3], 1)
    assert NtpKey("main", "door", "secret").signed(bytes(48)) == bytes(48) + key_id + digest
