"""What the gateway lets in, every query can answer: hostile values, any columns, any cut of frames.

Whatever peers send, the gateway refuses or records it. What it recorded is run through whole
chains: none may fail (it would at every replay), no result may be anything but JSON, and how the
rows were cut into frames and calls must not matter.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from slackwater.edge_agent import messages as m
from slackwater.edge_agent import records as limits
from slackwater.edge_agent import wire
from slackwater.engine.core.frame import Frame
from slackwater.engine.gateway.core import GatewayCore, GatewaySettings
from slackwater.engine.hosts.chain import ChainSettings
from slackwater.engine.kernels.jit import plain
from slackwater.engine.order.base import Guards
from slackwater.engine.order.registry import parse_order
from slackwater.engine.query import query
from slackwater.simulator.run import FrameList
from tests.chain.chain_text import chain_text

ORDERS = ("sequence", "sequence:timeout=fixed:3,late=pass", "none", "kslack:5", "mp-kslack")
QUERIES = (
    "SELECT count(*), sum(v), avg(v), stddev(v), min(v), max(v) FROM events WINDOW TUMBLING 1 s",
    "SELECT count(*), sum(n), max(n) FROM events GROUP BY s WINDOW TUMBLING 10 d",
    "EVENT SEQ(A a, B b) WHERE a.v < b.v + 1 WITHIN 10 s",
    "EVENT SEQ(A a, !C c, B b) WHERE b.n - a.n > 0 WITHIN 1 d",
    "EVENT AND(A a, B b) WITHIN 36 d",
)
ATTRS = {"v": "float", "n": "int", "f": "bool", "s": "str"}
SCHEMAS = (m.StreamSchema("events", ATTRS), m.StreamSchema("other", {"n": "int"}))
ENDS = (limits.TIME_MAX_NS, limits.TIME_MAX_NS - 1, 2**61, 10**18, 10**9, 7, 1, 0)
TIMES = st.sampled_from([sign * end for end in ENDS for sign in (1, -1)]) | st.integers(0, 20)
BEYOND = st.sampled_from([2**62, -(2**62), 2**63 - 1, -(2**63)])
# Squares of these and sums of squares are finite: what a sum beyond all floats is, a window says.
FLOATS = st.sampled_from([0.0, -0.0, 1.5, 5e-324, 1e150, -1e150, float("nan")])
INFINITE = st.sampled_from([float("inf"), float("-inf")])
INTS = st.sampled_from([0, 1, -1, 2**53 + 1, 2**63 - 1, -(2**63)]) | st.integers(-5, 5)


def packed(form: str, values: list[Any]) -> bytes:
    return struct.pack(f"<{len(values)}{form}", *values)


@st.composite
def texts(draw: st.DrawFn, rows: int, names: tuple[str, ...]) -> m.Texts:
    if draw(st.booleans()):
        return m.Texts([draw(st.sampled_from(names))], None)
    codes = [draw(st.integers(-1, len(names) - 1)) for _ in range(rows)]
    if draw(st.integers(0, 20)) == 0:
        codes[0] = draw(st.sampled_from([len(names), -2, 2**31 - 1]))
    return m.Texts(list(names), packed("i", codes))


@st.composite
def values(draw: st.DrawFn, rows: int, kind: str) -> m.Values | m.Texts:
    if kind == "str":
        return draw(texts(rows, ("x", "", "\u2028\x1b[31m", "\U0001f600")))
    valid = draw(st.none() | st.lists(st.booleans(), min_size=rows, max_size=rows).map(bytes))
    given_ = {"float": FLOATS, "int": INTS, "bool": st.integers(0, 255)}[kind]
    column = [draw(given_) for _ in range(rows)]
    if kind == "float" and draw(st.integers(0, 9)) == 0:
        column[-1] = draw(INFINITE)
    return m.Values(packed({"float": "d", "int": "q", "bool": "B"}[kind], column), valid)


@st.composite
def datas(draw: st.DrawFn) -> m.Data:
    rows, stream = draw(st.integers(1, 4)), draw(st.sampled_from([0, 0, 0, 1]))
    ts = [draw(TIMES) for _ in range(rows)]
    if draw(st.integers(0, 9)) == 0:
        ts[0] = draw(BEYOND)
    lengths = [draw(st.sampled_from([0, 0, 3, 2**62, -1])) for _ in range(rows)]
    te = [min(max(t + more, -(2**63)), 2**63 - 1) for t, more in zip(ts, lengths, strict=True)]
    attrs = [
        draw(values(rows, kind)) if draw(st.booleans()) else None
        for kind in SCHEMAS[stream].attrs.values()
    ]
    return m.Data(
        stream, draw(st.integers(0, 12) | st.sampled_from([2**62 - 20])), rows, packed("q", ts),
        packed("q", te) if draw(st.integers(0, 3)) == 0 else None,
        packed("q", [draw(INTS) for _ in range(rows)]) if draw(st.integers(0, 3)) == 0 else None,
        draw(st.none() | texts(rows, ("A", "B", "C"))), tuple(attrs),
    )  # fmt: skip


OFFSETS = st.sampled_from([0, 5, -(10**9), limits.OFFSET_MAX_NS, -limits.OFFSET_MAX_NS])
SYNCS = st.builds(
    m.Sync, st.just(0), OFFSETS, st.sampled_from([0, 9, 10**9, limits.DELAY_MAX_NS]), TIMES,
    st.sampled_from([0, 1, limits.PRECISION_MAX_NS]),
    st.sampled_from([0, 50_000, limits.SKEW_ERROR_MAX_PPB]),
)  # fmt: skip
CONTROLS = st.one_of(
    SYNCS,
    st.builds(m.Sync, st.just(0), st.none(), st.none(), TIMES, st.just(0), st.just(0)),
    st.builds(
        m.Promise, st.just(0), TIMES, st.sampled_from([None, "A", "B"]),
        st.just(((0, 0),)) | st.just(((0, 3), (1, 0))),
    ),
    st.builds(m.Begin, st.just(0), st.just(0), TIMES, INTS, st.just("A")),
    st.builds(m.Eos, st.just(0), TIMES, st.just((12, 4))),
)  # fmt: skip
SAID = st.lists(
    st.tuples(st.sampled_from("aab"), datas() | CONTROLS, st.sampled_from([0, 1, 10**9])),
    min_size=1, max_size=12,
)  # fmt: skip


def recorded(said: list[tuple[str, Any, int]], frame_rows: int, resend: bool) -> list[Frame]:
    """The frames that a gateway makes of it; each control message has the next number."""
    sink = FrameList()
    core = GatewayCore(
        GatewaySettings(frame_rows=frame_rows, frame_every_ns=2**50, tick_every_ns=0), sink
    )
    now, numbers = 0, dict.fromkeys("ab", 0)
    for source in "ab":
        core.connected(source, now, "::1")
        streams = tuple(m.HelloStream(schema, 0, 0) for schema in SCHEMAS)
        hello = m.Hello("main", source, "", int(source == "b"), resend, 0, streams)
        core.received(source, wire.encode(hello), now)
    for source, message, later in said:
        now += later
        sent = message
        if not isinstance(message, m.Data):
            sent = replace(message, number=numbers[source])
            numbers[source] += 1
        core.received(source, wire.encode(sent), now)
    core.finish(now)
    closed = [reason for (_, _, reason) in core.counts if reason in ("msgpack", "type", "range")]
    assert not closed, "the wire refused a message that the test meant for the content's check"
    return sink.frames


def settings_of(order: str) -> ChainSettings:
    plans = tuple(query(text, "ns", name=f"q{n}") for n, text in enumerate(QUERIES))
    return ChainSettings(parse_order(order), plans, guards=Guards(None), ordered="full")


@settings(max_examples=25, suppress_health_check=list(HealthCheck))
@given(said=SAID, order=st.sampled_from(ORDERS), frame_rows=st.integers(1, 9),
       together=st.integers(1, 4), resend=st.booleans())  # fmt: skip
def test_what_the_gateway_lets_in_every_query_answers_in_every_cut(
    said: list[tuple[str, Any, int]], order: str, frame_rows: int, together: int, resend: bool
) -> None:
    one = recorded(said, 10**6, resend)
    many = recorded(said, frame_rows, resend)
    assert sum(frame.rows for frame in one) == sum(frame.rows for frame in many)
    batches = [many[at : at + together] for at in range(0, len(many), together)]
    assert chain_text(batches, settings_of(order)) == chain_text(
        [one] if one else [], settings_of(order)
    )


@pytest.mark.slow
@settings(max_examples=5, suppress_health_check=list(HealthCheck))
@given(said=SAID, order=st.sampled_from(ORDERS))
def test_kernels_as_plain_python_answer_what_compiled_ones_do(
    said: list[tuple[str, Any, int]], order: str
) -> None:
    frames = recorded(said, 10**6, resend=False)
    batches = [frames] if frames else []
    compiled = chain_text(batches, settings_of(order))
    assume(len(compiled) < 2_000_000)  # plain Python takes minutes for many windows
    with plain():
        assert chain_text(batches, settings_of(order)) == compiled
