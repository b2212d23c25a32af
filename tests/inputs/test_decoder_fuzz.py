"""Whatever bytes come: a decoder refuses them or takes them, in bounded time and memory."""

from __future__ import annotations

import contextlib
import gc
import time
import tracemalloc
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.edge_agent.errors import AgentError
from slackwater.edge_agent.inputs.hl7.message import Framing, Hl7Refusal, answers, read_message
from slackwater.edge_agent.inputs.llrp import protocol as p
from slackwater.edge_agent.inputs.llrp.inventory import has_rospec, reader_event, tag_reads
from slackwater.edge_agent.inputs.llrp.protocol import Messages
from slackwater.edge_agent.inputs.record_fields import RecordFields
from slackwater.edge_agent.inputs.soccer import lines_of
from slackwater.edge_agent.messages import StreamSchema
from tests.inputs.emulated_reader import EmulatedReader
from tests.inputs.outlet import NOW_NS, an_input
from tests.inputs.test_hl7 import PCD, a_message
from tests.inputs.test_llrp import REPORT
from tests.inputs.test_soccer import LINES

ATTRS = {"value": "float", "text": "str", "patient": "str", "v": "int"}

_HL7: Any = an_input(
    {"kind": "hl7-mllp", "zone": "Z", "map": {"v": "OBX-4"}},
    {"value": "float", "text": "str", "patient": "str", "v": "str"},
)

_HL7_ATTRS: Any = an_input(
    {"kind": "hl7-mllp", "observation": "attr", "zone": "Z", "map": {"v": "150021"}},
    {"v": "float", "A": "int", "patient": "str"},
)

_MQTT: Any = an_input({"kind": "mqtt", "topics": ["#"], "parts": ["text"], "value": "v"}, ATTRS)

_SOCCER: Any = an_input({"kind": "soccer-udp"}, {"sid": "int", "x": "int", "v": "float"})

_CSV = RecordFields(schemas={"events": StreamSchema("events", ATTRS)}, stream="events", texts=True)


def hl7(data: bytes) -> None:
    """A connection's bytes, in two pieces; each observation an event."""
    _hl7(data, _HL7)


def hl7_attrs(data: bytes) -> None:
    """The same, and observations are attributes."""
    _hl7(data, _HL7_ATTRS)


def _hl7(data: bytes, made: Any) -> None:
    framing = Framing(256 << 10)
    middle = len(data) // 2
    for frame in framing.feed(data[:middle]) + framing.feed(data[middle:]):
        message = refused = None
        try:
            message = read_message(frame.content.partition(b"\r")[0], "utf-8")
            made._check(frame, message)
            message = read_message(frame.content, "utf-8")
            made._key(message)
            made._observations.rows(message)
        except Hl7Refusal as error:
            refused = error
        for answer in answers(message, refused, NOW_NS, 1):
            assert answer[:1] == b"\x0b"
            assert answer[-2:] == b"\x1c\r"
            assert len(answer) < 64 << 10


def llrp(data: bytes) -> None:
    for message in Messages().feed(data):
        for read in (tag_reads, reader_event, has_rospec, p.status_of):
            try:
                read(message.body)
            except p.LlrpError:
                continue


def mqtt(data: bytes) -> None:
    _MQTT._payloads.events("a/b", data, NOW_NS)


def soccer(data: bytes) -> None:
    for line in lines_of(data):
        try:
            _SOCCER._fields.row(line)
        except AgentError:
            continue


def csv(data: bytes) -> None:
    """A line of CSV is a table of texts."""
    names = ["ts", "te", "id", "type", *ATTRS]
    cells = data.decode("utf-8", "replace").split(",")
    _CSV.event(dict(zip(names, cells, strict=False)), NOW_NS)


class Decoder(NamedTuple):
    decode: Callable[[bytes], None]
    valid: tuple[bytes, ...]
    special: tuple[bytes, ...]
    """What means something to it."""


def framed(text: str) -> bytes:
    return b"\x0b" + text.encode() + b"\x1c\r"


_READER = EmulatedReader()

_EVENT = _READER._event(0)

_MESSAGES = (framed(PCD), framed(a_message("OBX|1|SN|A||>^1&2~3")))

_MARKS = (
    b"\x0b", b"\x1c", b"\r", b"|", b"^", b"~", b"\\", b"&", b"OBX|1|NM|A||1\r", b"\xff", b'""',
    b"MSH|^~\\&|", b"+0100", b"UNICODE UTF-8",
)  # fmt: skip

DECODERS = {
    "hl7": Decoder(hl7, _MESSAGES, _MARKS),
    "hl7-attrs": Decoder(hl7_attrs, _MESSAGES, _MARKS),
    "llrp": Decoder(
        llrp,
        (REPORT, p.message(p.READER_EVENT_NOTIFICATION, 1, _EVENT),
         p.message(36, 1, bytes.fromhex("011f00080000000000b1000a000000010002"))),
        (b"\x00", b"\xff", b"\x80", b"\x8d", b"\x00\xf0\x00\x04", b"\x00\xf1\x00\x06\xff\xff"),
    ),
    "mqtt": Decoder(
        mqtt,
        (b'{"v": 3, "text": "a", "ts": "2024-01-01T00:00:00.5Z", "id": 7}', b"[{}, {}]", b"-4"),
        (b"{", b"[", b'"', b"\\u0000", b"\\ud800", b"1e999", b"NaN", b"-", b"null", b'"ts":',
         b"9" * 5000, b'{"":', b"\xff"),
    ),
    "soccer": Decoder(
        soccer, (LINES,), (b",", b"\n", b"-", b"9" * 30, b"nan", b"1e5", b"\xd9\xa1")
    ),
    "csv": Decoder(
        csv,
        (b"12,13,7,A,1.5,text,p,3", b"2024-01-01T00:00:00Z,,,,,,,"),
        (b",", b"1e400", b"inf", b"nan", b"-", b"9" * 5000, b"T25:00", b"\xc3", b"+14:00", b"."),
    ),
}  # fmt: skip


def mutated(random: Random, decoder: Decoder) -> bytes:
    """A valid message with some changes, or no message at all."""
    if random.random() < 0.05:
        return random.randbytes(random.randrange(200))
    data = bytearray(random.choice(decoder.valid))
    for _ in range(random.choice((1, 1, 2, 4, 16))):
        at = random.randrange(len(data) + 1)
        match random.randrange(6):
            case 0 if data:
                data[at % len(data)] = random.randrange(256)
            case 1:
                del data[at : at + random.choice((1, 2, 8, 40))]
            case 2:
                data[at:at] = random.choice(decoder.special)
            case 3:
                end = random.randrange(at, len(data) + 1)
                data[at:at] = data[at:end] * random.choice((1, 1, 3))
            case 4:
                data[at : at + 1] = random.choice(decoder.special) * random.choice((1, 2, 30))
            case _:
                data[at:] = random.choice(decoder.valid)[at:]
        if len(data) > 1 << 16:
            del data[1 << 16 :]
    return bytes(data)


SECONDS_PER_KB = 1e-3

SHORT, LONG = 16 << 10, 120 << 10

FROM_BYTES = 4096
"""Shorter inputs cost what a call costs."""

APART = [name for name in DECODERS if name != "hl7-attrs"]
"""Those two read the same bytes."""
TRIES = 170_000
"""Of each of six decoders: a million of all."""


def tried(decoder: Decoder, data: bytes) -> None:
    with contextlib.suppress(AgentError):
        decoder.decode(data)


def seconds(decoder: Decoder, data: bytes) -> float:
    """Processor time of the best of some runs."""
    best = 1e9
    for _ in range(3):
        began = time.thread_time()
        tried(decoder, data)
        best = min(best, time.thread_time() - began)
    return best


@pytest.mark.parametrize("name", DECODERS)
@given(data=st.binary(max_size=300), seed=st.integers(0, 2**32))
def test_a_decoder_takes_what_is_valid_and_refuses_what_is_not(
    name: str, data: bytes, seed: int
) -> None:
    for each in DECODERS[name].valid:
        DECODERS[name].decode(each)
    for each in (data, mutated(Random(seed), DECODERS[name])):
        tried(DECODERS[name], each)


@pytest.mark.slow
@pytest.mark.parametrize("name", APART)
def test_no_long_input_takes_long(name: str) -> None:
    """Against a short one in the same moment: what grows faster than the input would show."""
    decoder = DECODERS[name]
    for piece in (*decoder.special, *decoder.valid):
        for short, long in zip(
            made_long(decoder, piece, SHORT), made_long(decoder, piece, LONG), strict=True
        ):
            for _ in range(5):
                allowed = 4 * max(seconds(decoder, short) * LONG / SHORT, SECONDS_PER_KB)
                taken = seconds(decoder, long)
                if taken < allowed:
                    break
            assert taken < allowed, (piece, taken, allowed)


def made_long(decoder: Decoder, piece: bytes, size: int) -> tuple[bytes, ...]:
    """The piece over and over: alone, after a message that broke off, inside a valid one."""
    valid, many = decoder.valid[0], piece * (size // len(piece))
    return many, valid[: -1 - len(valid) // 4] + many, valid[:-2] + many + valid[-2:]


@pytest.mark.deep
@pytest.mark.parametrize("name", DECODERS)
def test_a_million_mutated_messages(name: str) -> None:
    decoder, random = DECODERS[name], Random(name)
    for number in range(TRIES):
        data = mutated(random, decoder)
        began = time.thread_time()
        tried(decoder, data)
        taken = time.thread_time() - began
        if len(data) >= FROM_BYTES and taken > SECONDS_PER_KB * len(data) / 1024:
            taken = seconds(decoder, data)
            assert taken <= SECONDS_PER_KB * len(data) / 1024, (number, len(data), taken)


@pytest.mark.slow
@pytest.mark.parametrize("name", APART)
def test_memory_stays_flat(name: str) -> None:
    decoder, random = DECODERS[name], Random(name)
    used = []
    tracemalloc.start()
    try:
        for _ in range(4):
            for _ in range(1_500):
                tried(decoder, mutated(random, decoder))
            gc.collect()
            used.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert used[-1] - used[0] < 200_000, used
