"""Numbers of events and incarnations: what has come, is given up, or is refused."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_agent import messages as m
from edge_agent import session as s
from edge_agent import wire
from edge_agent.records import Kind
from edge_agent.sequence import SEQ_MAX, Numbers
from engine.gateway.core import Recalled
from engine.gateway.received import ReceivedSet
from tests.gateway.conftest import SYNC, Bench, a_data, a_hello
from tests.gateway.world import world_of


class Twin:
    def __init__(self, first: int) -> None:
        self.have = set(range(first))

    @property
    def next(self) -> int:
        return next(n for n in itertools.count() if n not in self.have)

    @property
    def islands(self) -> int:
        beyond = {n for n in self.have if n > self.next}
        return sum(n - 1 not in beyond for n in beyond)

    @property
    def missing(self) -> int:
        return len(set(range(max(self.have, default=0))) - self.have)

    def new(self, first: int, end: int) -> list[int]:
        return [n for n in range(first, end) if n not in self.have]


def compare(first: int, runs: list[tuple[int, int]]) -> None:
    real, twin = ReceivedSet(first), Twin(first)
    for start, end in runs:
        parts = real.new_parts(start, end)
        assert [n for a, b in parts for n in range(a, b)] == twin.new(start, end)
        assert all(a < b for a, b in parts)
        before = real.islands
        grows = real.makes_island(start, end)
        real.add(start, end)
        twin.have |= set(range(start, end))
        assert (real.next, real.islands) == (twin.next, twin.islands)
        assert real.missing == twin.missing
        assert grows == (real.islands > before)


def test_every_order_of_five_messages() -> None:
    runs = [(0, 2), (2, 3), (3, 6), (6, 7), (7, 9)]
    for order in itertools.permutations(runs):
        compare(0, list(order))


RUNS = st.tuples(st.integers(0, 30), st.integers(1, 8)).map(lambda t: (t[0], t[0] + t[1]))


@given(st.integers(0, 5), st.lists(RUNS, max_size=25))
def test_any_runs(first: int, runs: list[tuple[int, int]]) -> None:
    compare(first, runs)


def test_giving_up_the_first_gap() -> None:
    numbers = ReceivedSet(2)
    numbers.add(5, 7)
    numbers.add(9, 10)
    assert numbers.give_up_first_gap() == 3
    assert (numbers.next, numbers.islands) == (7, 1)
    assert numbers.new_parts(0, 12) == [(7, 9), (10, 12)]


MS = 10**6

S = 10**9


def test_numbers_below_what_a_hello_says_are_given_up() -> None:
    """What came beyond them is acked as soon as it is durable, though nothing else comes."""
    bench = Bench()
    bench.join("c", a_hello())
    bench.say("c", SYNC, a_data(0, 2), a_data(5, 3))
    bench.core.wake(bench.core.next_wake())
    assert bench.answers()[-1].next_seqs == (2,)
    assert bench.join("d", a_hello(acked=5), now=S) == [m.Welcome(1, (5,))]
    assert bench.core.counts["main", "d", "given_up"] == 3
    bench.core.wake(bench.core.next_wake())
    assert [said.next_seqs for said in bench.answers()] == [(8,)]
    assert bench.log.rows("seq") == [(None,), *((n,) for n in (0, 1, 5, 6, 7))]


def test_a_hello_that_says_nothing_new_changes_nothing() -> None:
    bench = Bench()
    bench.join("c", a_hello())
    bench.say("c", SYNC, a_data(0, 2))
    bench.core.wake(bench.core.next_wake())
    bench.answers()
    assert bench.join("d", a_hello(acked=2, control_acked=1), now=S) == [m.Welcome(1, (2,))]
    assert bench.core.counts["main", "d", "given_up"] == 0
    assert bench.core.next_wake() is None


def test_promises_that_waited_for_lost_numbers_are_recorded() -> None:
    bench = Bench()
    bench.join("c", a_hello())
    bench.say("c", SYNC, a_data(0, 2), m.Promise(1, 500, None, ((0, 4),)))
    bench.join("d", a_hello(acked=4), now=S)
    bench.core.wake(bench.core.next_wake())
    assert (1, 500) in bench.log.rows("kind", "ts")


def refusal(said: list[Any]) -> tuple[str, bool, int | None]:
    (error,) = [each for each in said if isinstance(each, m.ErrorMessage)]
    return error.reason, error.retry, error.above


@pytest.mark.parametrize("incarnation", [0, 4, 5])
def test_a_restart_with_a_smaller_or_equal_incarnation_is_told_which_one_to_exceed(
    incarnation: int,
) -> None:
    bench = Bench()
    bench.join("c", a_hello(incarnation=5, start=1))
    bench.say("c", SYNC, a_data(0, 3))
    bench.core.disconnected("c", 1)
    said = bench.join("x", a_hello(incarnation=incarnation, start=2), now=2)
    assert refusal(said) == ("stale_incarnation", True, 5)
    assert bench.join("y", a_hello(incarnation=6, start=2), now=3) == [m.Welcome(0, (0,))]


def test_a_lost_connection_is_no_new_start() -> None:
    bench = Bench()
    bench.join("c", a_hello(incarnation=5, start=1))
    bench.say("c", SYNC, a_data(0, 3))
    bench.core.finish(1)
    bench.answers()
    bench.core.disconnected("c", 1)
    assert bench.join("x", a_hello(incarnation=5, start=1), now=2) == [m.Welcome(1, (3,))]


def test_a_restarted_gateway_knows_incarnations_numbers_and_types_from_its_log() -> None:
    bench = Bench()
    bench.join("c", a_hello(incarnation=5, start=1))
    bench.say("c", SYNC, a_data(0, 3), a_data(6, 2), now=50)
    bench.core.finish(60)
    again = Bench(recalled=Recalled(bench.log.frames))
    assert refusal(again.join("x", a_hello(incarnation=4), now=1)) == ("stale_incarnation", True, 5)
    text = (m.HelloStream(m.StreamSchema("events", {"v": "str"}), 0, 0),)
    said = again.join("y", a_hello("other", streams=text), now=1)
    assert refusal(said) == ("attr_type", False, None)
    assert again.join("z", a_hello(incarnation=5, start=1), now=1) == [m.Welcome(0, (3,))]
    # Nothing twice, and no arrival before the last one: the log goes on.
    again.say("z", a_data(0, 9), now=2)
    again.core.finish(3)
    assert again.log.rows("seq", "arrival", "kind") == [
        (3, 50, None), (4, 50, None), (5, 50, None), (8, 50, None),
    ]  # fmt: skip
    assert again.core.counts["main", "d", "duplicate"] == 5


def test_an_agent_takes_the_next_incarnation_and_loses_nothing() -> None:
    world = world_of(1, {})
    world.boot(7)
    world.run(S)
    world.emit("events", 5)
    world.run(S)
    world.boot(3)
    world.emit("events", 4)
    world.settle()
    world.check()
    assert world.agent.incarnation == 8
    assert world.agent.counts["incarnation_raised"] == 1
    assert {key: len(have) for key, have in world.log.numbers.items()} == {
        (7, "events"): 5,
        (8, "events"): 4,
    }


def test_an_agent_whose_incarnation_only_the_log_knows_takes_another() -> None:
    """The WELCOME has numbers that it never sent."""
    world = world_of(2, {})
    world.boot(7)
    world.run(S)
    world.emit("events", 5)
    world.run(S)
    world.start_gateway()
    world.boot(7)
    world.emit("events", 4)
    world.settle()
    world.check()
    assert world.agent.incarnation == 8
    assert [len(have) for have in world.log.numbers.values()] == [5, 4]


def test_an_agent_that_was_welcomed_does_not_take_its_name_back() -> None:
    """Two devices of one name must not throw out each other for ever: the older one ends."""
    world = world_of(3, {})
    world.run(S)
    former = world.agent
    hello = m.ErrorMessage("stale_incarnation", "", True, above=former.incarnation)
    number = next(iter(world.keys))
    former.received(number, wire.encode(hello), world.now())
    assert former.state is s.SessionState.FAILED
    assert former.failure == hello


def test_there_may_be_no_larger_incarnation() -> None:
    numbers = Numbers(1, 3)
    assert numbers.exceed(SEQ_MAX - 2)
    assert numbers.incarnation == SEQ_MAX - 1
    assert not Numbers(1, 3).exceed(SEQ_MAX - 1)
    world = world_of(4, {})
    world.boot(SEQ_MAX - 1)
    world.run(S)
    world.boot(0)
    world.run(S)
    assert world.agent.state is s.SessionState.FAILED


@pytest.mark.parametrize("recalled", [False, True])
def test_a_start_that_said_nothing_does_not_make_the_gateway_forget(recalled: bool) -> None:
    bench = Bench()
    bench.join("c", a_hello(incarnation=5, start=1))
    bench.say("c", SYNC, a_data(0, 3))
    bench.core.finish(1)
    bench.core.disconnected("c", 1)
    if recalled:
        bench = Bench(recalled=Recalled(bench.log.frames))
    bench.answers()
    assert bench.join("x", a_hello(incarnation=9, start=2), now=2) == [m.Welcome(0, (0,))]
    bench.core.disconnected("x", 3)
    for incarnation in (3, 4) if recalled else (3, 4, 5):
        said = bench.join(f"y{incarnation}", a_hello(incarnation=incarnation, start=3), now=4)
        assert refusal(said) == ("stale_incarnation", True, 5)
    assert bench.join("z", a_hello(incarnation=6, start=3), now=5) == [m.Welcome(0, (0,))]
    bench.say("z", SYNC)
    bench.core.disconnected("z", 6)
    said = bench.join("w", a_hello(incarnation=6, start=4), now=7)
    assert refusal(said) == ("stale_incarnation", True, 6)


def test_a_start_that_said_nothing_does_not_end_its_site() -> None:
    """What the start before it sent is written, and the site's time goes on."""
    bench = Bench(tick_every_ns=100 * MS, tick_limit_ns=S)
    bench.join("c", a_hello(incarnation=1, start=1))
    bench.say("c", SYNC, a_data(0, 3), now=MS)
    bench.core.disconnected("c", 2 * MS)
    bench.join("x", a_hello(incarnation=2, start=2), now=3 * MS)
    bench.core.disconnected("x", 4 * MS)
    while (due := bench.core.next_wake()) is not None:
        bench.core.wake(due)
    rows = bench.log.rows("kind", "seq", "arrival")
    assert rows[1:4] == [(Kind.EVENT, seq, MS) for seq in range(3)]
    assert rows[-1] == (Kind.TICK, None, 1101 * MS)
    assert not bench.core._sites
