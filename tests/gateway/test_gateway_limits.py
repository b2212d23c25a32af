"""Whatever a peer sends, memory and one call stay bounded, and no address takes all connections."""

from __future__ import annotations

import struct
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.edge_agent import messages as m
from slackwater.edge_agent import wire
from slackwater.edge_agent.packing import Codes, MaskedColumn, data_message, encoded_data
from slackwater.edge_agent.records import Kind
from slackwater.engine.core.errors import UserError
from slackwater.engine.gateway import settings as addresses
from slackwater.engine.gateway.core import TIMERS_PER_WAKE
from slackwater.engine.gateway.recall import ReceivedSet
from slackwater.engine.gateway.settings import Addresses, GatewaySettings
from tests.gateway.conftest import SCHEMA, SYNC, Bench, a_data, a_hello

MS = 10**6

S = 10**9


def wide_hello(number: int, names: int = 250) -> m.Hello:
    """A source at a site of its own, with attributes that nobody else has."""
    attrs = {f"{number}_{each}": "int" for each in range(names)}
    streams = (m.HelloStream(m.StreamSchema("events", attrs), 0, 0),)
    return m.Hello(f"site {number}", "d", "", 1, True, 0, streams)


def reasons(said: list[Any]) -> list[str]:
    return [each.reason for each in said if isinstance(each, m.ErrorMessage)]


def test_who_says_hello_and_nothing_else_leaves_nothing_behind() -> None:
    bench = Bench()
    for number in range(300):
        assert reasons(bench.join(f"c{number}", wide_hello(number))) == []
        bench.core.disconnected(f"c{number}", 0)
    core = bench.core
    assert core.admission.kept_bytes == 0
    assert not core.admission.sources
    assert not core._sites
    assert not core._peers
    assert core.next_wake() is None


def test_what_is_kept_of_sources_is_bounded_and_shared() -> None:
    bench = Bench(sources_bytes_max=1 << 20)
    refused = [
        number
        for number in range(40)
        if reasons(bench.join(f"c{number}", wide_hello(number))) == ["sources_bytes_max"]
    ]
    assert 0 < len(refused) < 40
    assert bench.core.admission.kept_bytes <= 1 << 20
    # A thousand devices of one make have one schema.
    bench = Bench(sources_bytes_max=3 << 20)
    for number in range(1000):
        hello = wide_hello(0)
        said = bench.join(
            f"c{number}", m.Hello("main", f"d{number}", "", 1, True, 0, hello.streams)
        )
        assert reasons(said) == []


def test_schemas_of_a_source_that_left_come_again_with_its_next_hello() -> None:
    bench = Bench()
    bench.join("c", a_hello())
    bench.say("c", SYNC, a_data(0, 1))
    kept = bench.core.admission.kept_bytes
    bench.core.disconnected("c", 1)
    assert bench.core.admission.kept_bytes < kept
    assert bench.join("d", a_hello()) == [m.Welcome(0, (0,))]
    bench.say("d", a_data(1, 1), now=2)
    other = (m.HelloStream(m.StreamSchema("events", {"v": "str"}), 0, 0),)
    assert reasons(bench.join("x", a_hello("e", streams=other))) == ["attr_type"]
    bench.core.finish(3)
    assert [row for row in bench.log.rows("seq", "attrs.v") if row[0] is not None] == [
        (0, 100), (1, 101),
    ]  # fmt: skip


def test_half_a_message_must_come_to_its_end_in_time() -> None:
    bench = Bench(message_timeout_ns=30 * S)
    bench.join("c", a_hello())
    bench.say("c", SYNC)
    data = wire.encode(a_data(0, 100))
    bench.core.received("c", data[:9], 5 * S)
    bench.core.received("c", data[9:20], 30 * S)
    bench.core.wake(34 * S)
    assert reasons(bench.answers()) == []
    bench.core.wake(35 * S)
    assert reasons(bench.answers()) == ["message_timeout"]
    assert bench.core._half_bytes == 0
    # One that came whole in its time has no deadline any more.
    bench.join("d", a_hello())
    bench.core.received("d", data[:9], 40 * S)
    bench.core.received("d", data[9:], 41 * S)
    bench.core.wake(100 * S)
    assert reasons(bench.answers()) == []


def test_unfinished_messages_share_a_limit() -> None:
    bench = Bench(half_messages_max=5000)
    for number in range(3):
        bench.join(f"c{number}", a_hello(f"d{number}"))
        bench.core.received(f"c{number}", wire.encode(a_data(0, 1000))[:2000], 0)
    assert reasons(bench.answers()) == ["busy"]
    assert bench.core._half_bytes == 4000


def test_columns_of_one_message_do_not_widen_the_rows_of_another() -> None:
    """One row with 200 attributes, then 65,536 without any: 700 MB in one frame."""
    attrs = {f"a{number}": "int" for number in range(200)}
    streams = (m.HelloStream(m.StreamSchema("events", attrs), 0, 0),)
    bench = Bench()
    bench.join("c", a_hello(streams=streams))
    one = m.Data(0, 0, 1, bytes(8), None, None, None, (m.Values(bytes(8), None),) * 200)
    rows = m.ROWS_MAX - 1000
    empty = m.Data(0, 1, rows, bytes(8 * rows), None, None, None, (None,) * 200)
    bench.say("c", SYNC, one, empty)
    bench.core.finish(1)
    assert [frame.rows for frame in bench.log.frames] == [2, rows]
    assert max(frame.batch.nbytes for frame in bench.log.frames) < 4 << 20


def test_one_text_for_all_rows_is_not_a_column_for_every_attribute() -> None:
    attrs = {f"a{number}": "str" for number in range(200)}
    schema = m.StreamSchema("events", attrs)
    bench = Bench()
    bench.join("c", a_hello(streams=(m.HelloStream(schema, 0, 0),)))
    rows = m.ROWS_MAX
    texts = (m.Texts(["x"], None),) * 200
    bench.say("c", SYNC, m.Data(0, 0, rows, bytes(8 * rows), None, None, None, texts))
    assert bench.core.counts["main", "d", "cells"] == 1
    assert bench.core.counts["main", "d", "refused"] == rows
    fits = m.CELLS_MAX // 200
    bench.say("c", m.Data(0, rows, fits, bytes(8 * fits), None, None, None, texts))
    assert bench.core.counts["main", "d", "recorded"] == fits
    # The agent does not send what the gateway would refuse.
    codes = Codes(["x"], np.zeros(rows, np.int32))
    data = data_message(
        0, schema, ts=np.zeros(rows, np.int64), te=None, ids=None, types=None,
        attrs=dict.fromkeys(attrs, codes),
    )  # fmt: skip
    with pytest.raises(ValueError, match="65536 rows of 200 attributes at once; emit fewer rows"):
        encoded_data(data, 0, "events")


def test_one_wake_does_not_do_the_work_of_all_sites() -> None:
    bench = Bench(tick_every_ns=100 * MS, ticks_per_s_max=10**6)
    for number in range(300):
        bench.join(f"c{number}", m.Hello(f"site {number}", "d", "", 1, True, 0,
                                         (m.HelloStream(SCHEMA, 0, 0),)))  # fmt: skip
        bench.say(f"c{number}", SYNC)
    due = bench.core.next_wake()
    assert due == 100 * MS
    calls = 0
    while bench.core.next_wake() <= 200 * MS:
        before = len(bench.log.frames)
        bench.core.wake(200 * MS)
        assert len(bench.log.frames) - before <= TIMERS_PER_WAKE
        calls += 1
    assert calls == -(-300 // TIMERS_PER_WAKE)
    assert sum(frame.rows for frame in bench.log.frames) == 2 * 300


def test_all_sites_together_get_no_more_ticks_than_the_limit() -> None:
    bench = Bench(tick_every_ns=100 * MS, ticks_per_s_max=50)
    for number in range(20):
        bench.join(f"c{number}", m.Hello(f"site {number}", "d", "", 1, True, 0,
                                         (m.HelloStream(SCHEMA, 0, 0),)))  # fmt: skip
        bench.say(f"c{number}", SYNC)
    while (due := bench.core.next_wake()) < 10 * S:
        bench.core.wake(due)
    assert set(bench.log.rows("kind")) == {(Kind.SYNC,), (Kind.TICK,)}
    ticks = Counter(frame.site for frame in bench.log.frames)
    assert set(ticks.values()) <= {24, 25}
    assert len(ticks) == 20


def test_gaps_share_a_limit_too() -> None:
    bench = Bench(islands_total_max=10)
    for source in "de":
        bench.join(source, a_hello(source))
        said = bench.say(source, *[a_data(2 * number, 1) for number in range(1, 9)])
        assert reasons(said) == ([] if source == "d" else ["islands_max"])
    lanes = [each.lanes[0].received for each in bench.core.admission.sources.values()]
    assert sum(lane.islands for lane in lanes) == 10
    assert all(isinstance(lane, ReceivedSet) for lane in lanes)


def test_without_tokens_a_gateway_is_open_to_its_own_machine_only() -> None:
    for host in ("0.0.0.0", "::", "192.168.1.5", "gateway.local"):
        with pytest.raises(UserError, match="no tokens, so anyone could write"):
            GatewaySettings(listen=host)
        assert GatewaySettings(listen=host, without_tokens=True).admits(host)
        assert GatewaySettings(listen=host, tokens={}).admits(host)
    for host in ("127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "localhost"):
        assert GatewaySettings(listen=host).admits(host)
    # A server that binds something else than ``listen`` does not open it either.
    bench = Bench()
    bench.core.connected("c", 0, "192.168.1.5")
    assert reasons(bench.answers()) == ["no_tokens"]
    assert not bench.core._peers


def test_infinite_is_refused_and_nan_is_no_value() -> None:
    schema = m.StreamSchema("events", {"v": "float"})
    bench = Bench()
    bench.join("c", a_hello(streams=(m.HelloStream(schema, 0, 0),)))

    def floats(first: int, *values: float, valid: bytes | None = None) -> m.Data:
        column = m.Values(struct.pack(f"<{len(values)}d", *values), valid)
        stamps = bytes(8 * len(values))
        return m.Data(0, first, len(values), stamps, None, None, None, (column,))

    inf, nan = float("inf"), float("nan")
    bench.say(
        "c", SYNC, floats(0, 1.5, nan), floats(2, 2.5, inf), floats(4, -inf, 3.5, valid=b"\0\1")
    )
    bench.core.finish(1)
    rows = [row for row in bench.log.rows("seq", "attrs.v") if row[0] is not None]
    assert rows == [(0, 1.5), (1, None), (4, None), (5, 3.5)]
    assert bench.core.counts["main", "d", "infinite"] == 1
    assert bench.core.counts["main", "d", "refused"] == 2
    # The agent does not send it either: the program that emits it is reported.
    none = {"ts": np.zeros(2, np.int64), "te": None, "ids": None, "types": None}
    data_message(0, schema, **none, attrs={"v": np.array([1, nan])})
    data_message(
        0, schema, **none, attrs={"v": MaskedColumn(np.array([1, inf]), np.array([True, False]))}
    )
    for column in (np.array([1, -inf]), MaskedColumn(np.array([1, inf]), np.array([False, True]))):
        with pytest.raises(ValueError, match="v: an infinite value"):
            data_message(0, schema, **none, attrs={"v": column})


TOKENS = {("main", "d"): "right", ("main", "e"): "right"}


def bench_with(**limits: int) -> Any:
    return Bench(tokens=TOKENS, listen="0.0.0.0", **limits)


def come(bench: Any, key: str, host: str, token: str | None = "right", now: int = 0) -> str:
    """What becomes of a connection: the reason why it was closed, or "" (in)."""
    bench.core.connected(key, now, host)
    said = bench.answers()
    if not said and token is not None:
        said = bench.say(key, m.Hello("main", "d", token, 1, True, 0, a_hello().streams), now=now)
    reasons = [each.reason for each in said if isinstance(each, m.ErrorMessage)]
    assert len(reasons) <= 1
    return reasons[0] if reasons else ""


def test_an_address_has_so_many_connections() -> None:
    bench = bench_with(connections_per_address=3)
    for number in range(3):
        assert come(bench, f"a{number}", "10.0.0.7", None) == ""
    assert come(bench, "more", "10.0.0.7", None) == "connections_per_address"
    assert come(bench, "mapped", "::ffff:10.0.0.7", None) == "connections_per_address"
    assert come(bench, "other", "10.0.0.8") == ""
    bench.core.disconnected("a1", 1)
    assert come(bench, "again", "10.0.0.7", None) == ""
    assert bench.core.counts["", "", "connections_per_address"] == 2


def test_a_subnet_of_ipv6_is_one_address_and_this_machine_has_no_limit() -> None:
    bench = bench_with(connections_per_address=2, failed_logins_per_minute=2)
    reasons = [come(bench, f"s{n}", f"2001:db8:0:1::{n}", None) for n in range(3)]
    assert reasons == ["", "", "connections_per_address"]
    assert come(bench, "next", "2001:db8:0:2::1", None) == ""
    for number in range(9):
        assert come(bench, f"here{number}", "127.0.0.1", "wrong") == "token"
        assert come(bench, f"me{number}", "::1", None) == ""


def test_failed_logins_shut_an_address_out_until_they_have_drained() -> None:
    bench = bench_with(failed_logins_per_minute=6)
    tried = [come(bench, f"t{n}", "10.0.0.7", "wrong", n) for n in range(8)]
    assert tried == ["token"] * 6 + ["failed_logins_per_minute"] * 2
    assert come(bench, "right", "10.0.0.7", "right", S) == "failed_logins_per_minute"
    assert come(bench, "other", "10.0.0.8", "right", S) == ""
    assert come(bench, "one", "10.0.0.7", "wrong", 11 * S) == "token"
    assert come(bench, "two", "10.0.0.7", "wrong", 12 * S) == "failed_logins_per_minute"
    assert come(bench, "later", "10.0.0.7", "right", 90 * S) == ""
    counts = bench.core.counts
    assert (counts["", "", "token"], counts["", "", "failed_logins_per_minute"]) == (7, 4)


@pytest.mark.parametrize(
    ("said", "reason", "shut"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", "too_long", True),
        (wire.encode(a_data(0, 1)), "no_hello", True),
        (wire.encode(a_hello()).replace(bytes([m.PROTOCOL_VERSION]), b"\x63", 1), "version", False),
    ],
)
def test_nonsense_counts_as_a_failed_login_and_another_version_does_not(
    said: bytes, reason: str, *, shut: bool
) -> None:
    bench = bench_with(failed_logins_per_minute=2)
    for number in range(2):
        assert come(bench, f"v{number}", "10.0.0.7", None) == ""
        bench.core.received(f"v{number}", said, 0)
        assert bench.answers()[-1] == f"close v{number}: {reason}"
    expected = "failed_logins_per_minute" if shut else ""
    assert come(bench, "next", "10.0.0.7", "right") == expected


@given(
    st.lists(
        st.tuples(st.sampled_from("ofcx"), st.integers(0, 4), st.integers(0, 20 * S)), max_size=80
    )
)
def test_what_is_kept_goes_when_it_is_over(steps: list[tuple[str, int, int]]) -> None:
    """Against a model that remembers all failures of each address and lets them drain."""
    kept = Addresses(
        GatewaySettings(
            tokens={}, listen="0.0.0.0", connections_per_address=3, failed_logins_per_minute=4
        )
    )
    hosts = [f"10.0.0.{number}" for number in range(4)] + ["127.0.0.1"]
    opened: Counter[str] = Counter()
    level = dict.fromkeys(hosts, 0.0)
    now = 0
    for what, number, waited in steps:
        host, here = hosts[number], number == 4
        now += waited
        level = {each: max(0.0, left - waited * 4 / (60 * S)) for each, left in level.items()}
        refusal = kept.refusal(host, now)
        if abs(level[host] - 3) > 1e-6:
            full, shut = opened[host] >= 3, level[host] > 3
            assert (refusal is not None) is (not here and (full or shut))
        if what == "o" and refusal is None:
            kept.opened(host)
            opened[host] += 1
        elif what == "c" and opened[host]:
            kept.closed(host)
            opened[host] -= 1
        elif what == "f":
            kept.failed(host, "token", now)
            level[host] += not here
    for host in hosts:
        for _ in range(opened[host]):
            kept.closed(host)
        kept.refusal(host, now + 10**12)
    assert len(kept) == 0


def test_addresses_that_are_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "REMEMBERED_MAX", 10)
    kept = Addresses(GatewaySettings(tokens={}, listen="0.0.0.0", failed_logins_per_minute=1))
    for number in range(50):
        kept.failed(f"10.0.0.{number}", "token", number)
    assert len(kept) == 10
    assert kept.refusal("10.0.0.49", 50) is not None
    assert kept.refusal("10.0.0.1", 50) is None
