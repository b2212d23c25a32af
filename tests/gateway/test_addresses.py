"""No address takes all connections, or tries tokens without end; others notice nothing of it."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_agent import messages as m
from edge_agent import wire
from engine.gateway import addresses
from engine.gateway.addresses import Addresses, place_of
from engine.gateway.settings import GatewaySettings
from tests.gateway.conftest import Bench, a_data, a_hello

S = 10**9
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


def test_what_has_no_form_of_an_address_is_one_by_itself() -> None:
    assert place_of("somewhere") == "somewhere"
    assert place_of("::1") == place_of("localhost") == ""
