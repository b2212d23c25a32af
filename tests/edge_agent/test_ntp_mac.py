"""Time sync is authenticated by the source's token; plain clients are answered plainly."""

from __future__ import annotations

import hashlib
import hmac
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_agent import ntp
from edge_agent.clock import Now
from edge_agent.errors import NtpRefused
from edge_agent.ntp_mac import MAC_BYTES, NtpKey, NtpKeys
from edge_agent.settings import SessionSettings
from edge_agent.timesync import SyncSettings, SyncState, TimeSync
from engine.gateway.peers import Admission
from engine.gateway.recall import Recalled
from engine.gateway.settings import GatewaySettings

S = 10**9
NOW = 1_700_000_000 * S
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


def test_who_asks_plainly_is_answered_plainly() -> None:
    answer = a_gateway().time(ntp.request(5), NOW, NOW)
    assert ntp.read_answer(answer, 5, NOW).t2 == NOW


@pytest.mark.parametrize(
    "tokens",
    [{}, {("main", "door"): "wrong"}, {("main", "gate"): "secret"}, {("main", "door"): ""}],
)
def test_a_question_with_a_mac_of_nobody_is_refused(tokens: dict[tuple[str, str], str]) -> None:
    with pytest.raises(NtpRefused, match="mac"):
        a_gateway(tokens).time(asked(an_agent()), NOW, NOW)


def test_two_sources_of_one_identifier_are_told_apart() -> None:
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
