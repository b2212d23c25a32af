"""Numbers that an agent's disk has lost: its next HELLO says so, and nobody waits for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from edge_agent import messages as m
from tests.gateway.device_messages import SYNC, a_data, a_hello

MS = 10**6
S = 10**9
BenchOf = Callable[..., Any]


def test_numbers_below_what_a_hello_says_are_given_up(bench_of: BenchOf) -> None:
    """What came beyond them is acked as soon as it is durable, though nothing else comes."""
    bench = bench_of()
    bench.join("c", a_hello())
    bench.say("c", SYNC, a_data(0, 2), a_data(5, 3))
    bench.core.wake(bench.core.next_wake())
    assert bench.answers()[-1].next_seqs == (2,)
    assert bench.join("d", a_hello(acked=5), now=S) == [m.Welcome(1, (5,))]
    assert bench.core.counts["main", "d", "given_up"] == 3
    bench.core.wake(bench.core.next_wake())
    assert [said.next_seqs for said in bench.answers()] == [(8,)]
    assert bench.log.rows("seq") == [(None,), *((n,) for n in (0, 1, 5, 6, 7))]


def test_a_hello_that_says_nothing_new_changes_nothing(bench_of: BenchOf) -> None:
    bench = bench_of()
    bench.join("c", a_hello())
    bench.say("c", SYNC, a_data(0, 2))
    bench.core.wake(bench.core.next_wake())
    bench.answers()
    assert bench.join("d", a_hello(acked=2, control_acked=1), now=S) == [m.Welcome(1, (2,))]
    assert bench.core.counts["main", "d", "given_up"] == 0
    assert bench.core.next_wake() is None


def test_promises_that_waited_for_lost_numbers_are_recorded(bench_of: BenchOf) -> None:
    bench = bench_of()
    bench.join("c", a_hello())
    bench.say("c", SYNC, a_data(0, 2), m.Promise(1, 500, None, ((0, 4),)))
    bench.join("d", a_hello(acked=4), now=S)
    bench.core.wake(bench.core.next_wake())
    assert (1, 500) in bench.log.rows("kind", "ts")
