"""Who gets in, and what the gateway refuses: nothing a peer sends crashes or bloats it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_agent import messages as m
from edge_agent import wire
from engine.gateway.core import Close
from engine.gateway.dead_letter import DeadLetters
from tests.gateway.conftest import Bench, a_data, a_hello

MS = 10**6
S = 10**9


def closes(said: list[Any]) -> tuple[bool | None, list[str]]:
    """Whether the peer may try again, and what was closed."""
    errors = [each for each in said if isinstance(each, m.ErrorMessage)]
    return errors[0].retry if errors else None, [each for each in said if isinstance(each, str)]


def test_tokens_are_checked_and_an_unknown_name_is_told_no_more() -> None:
    bench = Bench(tokens={("main", "d"): "secret"})
    assert closes(bench.join("c", a_hello())) == (False, ["close c: token"])
    assert closes(bench.join("e", a_hello("x", token="secret"))) == (False, ["close e: token"])
    assert bench.join("f", a_hello(token="secret")) == [m.Welcome(0, (0,))]
    assert bench.core.counts["", "", "token"] == 2
    bench.core.received("c", b"late", 0)
    assert bench.core.counts["", "", "closed_connection"] == 1


def test_a_second_device_under_one_name_is_refused_while_the_first_is_alive() -> None:
    bench = Bench(takeover_ns=5 * S)
    bench.join("c", a_hello())
    retry, closed = closes(bench.join("x", a_hello(incarnation=2), now=4 * S))
    assert (retry, closed) == (True, ["close x: duplicate_source"])
    said = bench.join("y", a_hello(incarnation=2), now=6 * S)
    assert closes(said) == (False, ["close c: superseded"])
    assert m.Welcome(0, (0,)) in said
    retry, closed = closes(bench.join("z", a_hello(incarnation=1), now=7 * S))
    assert (retry, closed) == (True, ["close z: stale_incarnation"])


def test_a_gateway_that_forgot_goes_on_where_the_agent_was_acked() -> None:
    bench = Bench()
    assert bench.join("c", a_hello(acked=7, control_acked=3)) == [m.Welcome(3, (7,))]
    bench.say("c", a_data(7, 1))
    bench.core.finish(S)
    assert bench.answers() == [m.Ack(3, (8,))]
    # No sync report came in its time: the numbers are announced without an offset.
    assert bench.log.rows("kind", "seq", "first_seq", "offset") == [
        (3, None, 7, None),
        (0, 7, None, None),
    ]


def test_schemas_must_agree() -> None:
    bench = Bench()
    bench.join("c", a_hello())
    other = (m.HelloStream(m.StreamSchema("events", {"v": "str"}), 0, 0),)
    assert closes(bench.join("x", a_hello(streams=other))) == (False, ["close x: schema"])
    said = bench.join("y", a_hello("e", streams=other))
    assert closes(said) == (False, ["close y: attr_type"])
    assert said[0].detail == "attribute v is str here and int elsewhere at the site"
    many = m.StreamSchema("events", {f"a{i}": "int" for i in range(256)})
    for i in range(4):
        streams = (
            m.HelloStream(m.StreamSchema("s", {f"{i}_{n}": "int" for n in many.attrs}), 0, 0),
        )
        closed = closes(bench.join(f"m{i}", a_hello(f"m{i}", streams=streams)))[1]
    assert closed == ["close m3: attrs_max"]


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        ((a_data(0, 1),), "no_hello"),
        ((m.Ack(0, ()),), "no_hello"),
        ((a_hello(), a_hello()), "hello_twice"),
        ((a_hello(), m.Ack(0, (0,))), "direction"),
        ((a_hello(), m.Data(1, 0, 1, bytes(8), None, None, None, ())), "stream"),
        ((a_hello(), m.Promise(0, 1, None, ((1, 0),))), "stream"),
        ((a_hello(), m.Begin(0, 1, 0, 0, "A")), "stream"),
        ((a_hello(), m.Eos(0, 0, (1, 2))), "numbers"),
    ],
)
def test_a_peer_that_breaks_the_order_is_closed(sent: tuple[m.Message, ...], reason: str) -> None:
    bench = Bench()
    bench.core.connected("c", 0, "127.0.0.1")
    assert closes(bench.say("c", *sent)) == (True, [f"close c: {reason}"])
    assert sum(count for (_, _, key), count in bench.core.counts.items() if key == reason) == 1
    assert bench.core.dead_letters.kept == 1


def test_limits_on_connections_and_sources() -> None:
    bench = Bench(connections_max=2, connections_per_source=1, sources_max=1, hello_timeout_ns=S)
    bench.join("a", a_hello(), now=0)
    assert closes(bench.join("b", a_hello(), now=1)) == (True, ["close a: replaced"])
    bench.core.connected("x", 2, "127.0.0.1")
    bench.core.connected("y", 3, "127.0.0.1")
    assert closes(bench.answers()) == (True, ["close y: connections_max"])
    assert bench.core.next_wake() is not None
    bench.core.wake(2 + S)
    assert closes(bench.answers()) == (True, ["close x: hello_timeout"])
    assert closes(bench.join("z", a_hello("other"), now=2 * S)) == (True, ["close z: sources_max"])


def test_dead_letters_are_bounded_and_what_exceeds_is_counted() -> None:
    letters = DeadLetters(bytes_max=400)
    for i in range(5):
        letters.add(i, ("s", "d", "c"), "why", "", b"x")
    assert (letters.kept, letters.dropped, len(letters.lines)) == (3, 2, 3)


PEER_MESSAGES: st.SearchStrategy[m.Message] = st.one_of(
    st.builds(a_hello, st.sampled_from("de"), st.integers(0, 2), st.integers(0, 3)),
    st.builds(a_data, st.integers(0, 30), st.integers(1, 5)),
    st.builds(m.Sync, st.integers(0, 9), st.none(), st.none(), SEQ := st.integers(0, 99), SEQ, SEQ),
    st.builds(m.Promise, st.integers(0, 9), SEQ, st.none(), st.just(((0, 3),))),
    st.builds(m.Eos, st.integers(0, 9), SEQ, st.just((5,))),
    st.builds(m.Begin, st.integers(0, 9), st.integers(0, 1), SEQ, SEQ, st.just("A")),
    st.just(m.Ack(0, (0,))),
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["say", "say", "say", "bytes", "connect", "leave", "wake", "ask"]),
        st.integers(0, 3),
        PEER_MESSAGES,
        st.binary(max_size=20),
    ),
    max_size=40,
)


@settings(max_examples=40)
@given(steps=STEPS)
def test_nothing_a_peer_sends_crashes_or_bloats_the_gateway(
    steps: list[tuple[str, int, m.Message, bytes]],
) -> None:
    bench = Bench(connections_max=3, sources_max=2, islands_max=2, tick_every_ns=MS)
    core, open_, now, uses = bench.core, dict[int, str](), 0, 0
    for step, slot, message, noise in steps:
        now += MS // 3
        if step == "connect" and slot not in open_:
            uses += 1
            open_[slot] = f"{slot}/{uses}"
            core.connected(open_[slot], now, "127.0.0.1")
        elif step == "leave" and slot in open_:
            core.disconnected(open_.pop(slot), now)
        elif step in ("say", "bytes") and slot in open_:
            core.received(open_[slot], wire.encode(message) if step == "say" else noise, now)
        elif step == "ask":
            core.datagram_received(noise, now, now)
        elif step == "wake":
            core.wake(now)
        for output in core.outputs():
            assert output.connection in open_.values()
            if isinstance(output, Close):
                open_ = {k: name for k, name in open_.items() if name != output.connection}
        assert len(core._peers) <= 3
        assert set(core._peers) == set(open_.values())
    core.finish(now)
    rows = bench.log.rows("arrival", "kind", "source", "incarnation", "seq")
    assert [row[0] for row in rows] == sorted(row[0] for row in rows)
    numbered = [(source, inc or 0, seq) for _, kind, source, inc, seq in rows if not kind]
    assert len(numbered) == len(set(numbered))
    recorded = sum(n for (_, _, reason), n in core.counts.items() if reason == "recorded")
    assert recorded == len(numbered)
