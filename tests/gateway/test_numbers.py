"""Numbers, incarnations and promises: what has come, is given up, refused or proven."""

from __future__ import annotations

import itertools
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.edge_agent import messages as m
from slackwater.edge_agent import session as s
from slackwater.edge_agent import wire
from slackwater.edge_agent.records import Kind
from slackwater.edge_agent.sequence import SEQ_MAX, Numbers
from slackwater.edge_agent.settings import PromiseSettings
from slackwater.engine.gateway.core import Recalled
from slackwater.engine.gateway.peers import AHEAD_MAX, KEYS_MAX, GatewayPromise, WaitingPromises
from slackwater.engine.gateway.recall import PastSource, ReceivedSet
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
NOW = 1_767_225_600 * 10**9
"""2026, at least."""


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
def test_a_restart_with_a_smaller_or_equal_incarnation_learns_which_one_to_exceed(
    incarnation: int,
) -> None:
    bench = Bench()
    bench.join("c", a_hello(incarnation=5, start=1))
    bench.say("c", SYNC, a_data(0, 3))
    bench.core.disconnected("c", 1)
    said = bench.join("x", a_hello(incarnation=incarnation, start=2), now=2)
    assert refusal(said) == ("stale_incarnation", True, 5)
    assert bench.join("y", a_hello(incarnation=6, start=2), now=3) == [m.Welcome(0, (0,))]


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


@pytest.mark.parametrize(
    "first",
    [
        SEQ_MAX - 1,
        *(
            pytest.param(first, marks=pytest.mark.slow)
            for first in (NOW + AHEAD_MAX + 10**18, 0, NOW, 10**9)
        ),
    ],
)
def test_attack_08_the_largest_incarnation_keeps_no_later_start_out(first: int) -> None:
    """Of a device whose clock is wrong, or of somebody with its token: agents find their way in."""
    world = world_of(4, {})
    for incarnation in (first, 0, NOW, SEQ_MAX - 1, 1, NOW + 5):
        world.boot(incarnation)
        world.emit("events", 4)
        world.run(20 * S)
        assert world.agent.state is s.SessionState.RUNNING
        assert world.agent.incarnation <= max(first, NOW) + AHEAD_MAX
    world.settle()
    world.check()
    starts = {incarnation: have for (incarnation, _), have in world.log.numbers.items()}
    assert list(starts) == sorted(starts)
    assert len(starts) == 6
    assert all(have == {0, 1, 2, 3} for have in starts.values())


def test_attack_08_an_incarnation_may_be_ahead_by_so_much() -> None:
    """Of the clock, of one that is not set, and of the start before."""
    bench = Bench()
    for now, base in ((0, NOW), (NOW, NOW), (3 * NOW // 2, 3 * NOW // 2)):
        key = f"{now}"
        said = bench.join(key, a_hello(key, incarnation=base + AHEAD_MAX + 1), now=now)
        assert refusal(said) == ("incarnation_ahead", True, base)
        assert bench.join(f"{key}+", a_hello(key, incarnation=base + AHEAD_MAX), now=now) == [
            m.Welcome(0, (0,))
        ]
    # Of a log that has the largest there is: the same start goes on, and the next one hears so.
    past = {("main", "d"): PastSource(SEQ_MAX - 9)}
    recalled = Recalled()
    recalled.sources.update(past)
    bench = Bench(recalled=recalled)
    assert refusal(bench.join("e", a_hello(incarnation=7)))[0] == "stale_incarnation"
    assert bench.join("f", a_hello(incarnation=SEQ_MAX - 8)) == [m.Welcome(0, (0,))]


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


def a_promise(number: int, ts: int, next_seq: int, type_: str | None = None) -> m.Promise:
    return m.Promise(number, ts, type_, ((0, next_seq),))


def said(bench: Any, *messages: m.Message) -> list[tuple[Any, ...]]:
    """Events and POGs in the log after ``messages``, one an ms."""
    for at, message in enumerate(messages, 2):
        assert bench.say("c", message, now=at * MS) == []
    bench.core.finish(1000 * MS)
    rows = bench.log.rows("kind", "seq", "ts", "type", "arrival")
    return [(Kind(row[0]).name, *row[1:]) for row in rows if row[0] in (Kind.EVENT, Kind.POG)]


def joined(*, resend: bool = True) -> Any:
    bench = Bench()
    bench.join("c", a_hello("d", 0, resend=resend), now=0)
    bench.say("c", SYNC, now=MS)
    return bench


def test_a_promise_whose_numbers_have_come_is_written_at_once() -> None:
    rows = said(joined(), a_data(0, 1), a_promise(1, 99, 1, "A"))
    assert rows == [("EVENT", 0, 100, None, 2 * MS), ("POG", 1, 99, "A", 3 * MS)]


def test_a_promise_that_overtook_its_numbers_waits_for_them() -> None:
    bench = joined()
    rows = said(bench, a_promise(1, 102, 3, "A"), a_data(2, 1), a_data(0, 1), a_data(1, 1))
    assert [row[:2] for row in rows] == [("EVENT", 2), ("EVENT", 0), ("EVENT", 1), ("POG", 3)]
    assert rows[-1] == ("POG", 3, 102, "A", 5 * MS), "it arrives when it is proven"
    assert bench.core.counts["main", "d", "promise_waited"] == 1


def test_a_promise_of_a_source_that_does_not_resend_is_the_engines_to_judge() -> None:
    rows = said(joined(resend=False), a_promise(1, 102, 3), a_data(2, 1))
    assert [row[:2] for row in rows] == [("POG", 3), ("EVENT", 2)]


def test_the_first_and_the_newest_that_wait_are_kept() -> None:
    promises = [a_promise(n, 100 + n, n) for n in (1, 2, 3)]
    rows = said(joined(), *promises, a_data(0, 1), a_data(1, 1), a_data(2, 1))
    assert [row[:3] for row in rows if row[0] == "POG"] == [("POG", 1, 101), ("POG", 3, 103)]


def test_a_repeated_promise_is_written_once() -> None:
    bench = joined()
    early = a_promise(1, 101, 1)
    bench.say("c", early, now=2 * MS)
    bench.say("c", early, now=3 * MS)
    rows = said(bench, a_data(0, 1))
    assert [row[:2] for row in rows] == [("EVENT", 0), ("POG", 1)]


def test_refused_events_prove_a_promise_too() -> None:
    # The engine will never see them: nothing below the promise can come any more.
    wrong = m.Data(0, 0, 1, struct.pack("<q", 100), None, None, None, ())
    rows = said(joined(), a_promise(1, 101, 1), wrong)
    assert [row[:3] for row in rows] == [("POG", 1, 101)]


def test_promises_without_end_take_no_memory_without_end() -> None:
    waiting = WaitingPromises()
    kept = [waiting.wait(0, GatewayPromise(f"T{n}", 5, 1)) for n in range(KEYS_MAX + 3)]
    assert kept == [True] * KEYS_MAX + [False] * 3
    assert len(waiting.proven(0, 5)) == KEYS_MAX
    assert waiting.wait(0, GatewayPromise("T", 6, 1))


@settings(max_examples=30)
@given(
    promises=st.lists(st.tuples(st.sampled_from(["A", "B", None]), st.integers(1, 9))),
    order=st.permutations(range(1, 10)),
)
def test_waiting_promises_against_looking_at_all(
    promises: list[tuple[str | None, int]], order: list[int]
) -> None:
    waiting = WaitingPromises()
    for name, number in promises:
        assert waiting.wait(0, GatewayPromise(name, number, 10 * number))
    next_seq = 0
    for at in order:
        next_seq = max(next_seq, at)
        reported = waiting.proven(0, next_seq)
        assert all(each.next_seq <= next_seq for each in reported), "never too early"
    assert waiting.proven(0, 9) == []
    best = {name: max(n for of, n in promises if of == name) for name, _ in promises}
    # What is still sent at the end says as much as all that was promised.
    rerun = WaitingPromises()
    for name, number in promises:
        rerun.wait(0, GatewayPromise(name, number, 10 * number))
    assert {each.type: each.next_seq for each in rerun.proven(0, 9)} == best


@pytest.mark.parametrize("by_type", [False, True])
@pytest.mark.parametrize("network", [{"whole": False}, {"breaks": 5, "delay_ns_max": 30 * MS}])
def test_every_punctuation_in_the_log_holds_where_it_stands(
    network: dict[str, Any], by_type: bool
) -> None:
    for seed in range(5):
        promises = PromiseSettings(share=0.3, by_type=by_type)
        world = world_of(seed, network, connections=3, promises=promises, heartbeat_lag_ns=0)
        for _ in range(30):
            world.run(4 * MS)
            world.emit("events", 3)
        world.settle()
        world.check()
        rows = [row for row in world.log.rows if row["stream"] == "events"]
        reported = [at for at, row in enumerate(rows) if row["kind"] == Kind.POG]
        assert len(reported) > 5
        assert {rows[at]["type"] for at in reported} >= ({"start 0"} if by_type else {None})
        for at in reported:
            later = [row for row in rows[at:] if row["kind"] == Kind.EVENT]
            assert all(row["ts"] >= rows[at]["ts"] for row in later)
            assert all(row["seq"] >= rows[at]["seq"] for row in later)
