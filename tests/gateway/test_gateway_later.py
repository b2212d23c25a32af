"""A sink that writes later: acks follow what is durable, frames stay open, memory is bounded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.edge_agent import messages as m
from slackwater.engine.core.frame import Frame
from slackwater.engine.gateway.core import FLIGHTS_MAX
from slackwater.engine.gateway.outputs import LATER
from tests.gateway.conftest import SYNC, Bench, Log, a_data, a_hello
from tests.gateway.world import NumberedLog, World, world_of

MS = 10**6
S = 10**9


class LaterLog(Log):
    def flush(self) -> object:  # type: ignore[override]
        return LATER


def test_an_ack_follows_the_flush_it_belongs_to() -> None:
    bench = Bench(LaterLog(), frame_rows=5)
    bench.join("c", a_hello())
    assert bench.say("c", SYNC, a_data(0, 5)) == []
    assert bench.say("c", a_data(5, 5)) == []
    assert len(bench.log.frames) == 2
    bench.core.flushed(1, MS)
    assert bench.answers() == [m.Ack(1, (5,))]
    bench.core.flushed(2, MS)
    assert bench.answers() == [m.Ack(1, (10,))]
    assert bench.core._commits.waiting_bytes == 0


def test_while_the_sink_is_behind_frames_stay_open_and_become_larger() -> None:
    bench = Bench(LaterLog(), frame_rows=5)
    bench.join("c", a_hello())
    for number in range(FLIGHTS_MAX + 40):
        bench.say("c", a_data(5 * number, 5), now=number)
    assert len(bench.log.frames) == FLIGHTS_MAX
    bench.core.flushed(FLIGHTS_MAX, S)
    assert bench.core.next_wake() == S
    bench.core.wake(S)
    assert bench.log.frames[-1].rows == 200
    bench.core.flushed(FLIGHTS_MAX + 1, S)
    assert bench.answers()[-1].next_seqs == (5 * (FLIGHTS_MAX + 40),)


def test_behind_means_congested_and_failed_means_busy() -> None:
    bench = Bench(LaterLog(), frame_rows=10, waiting_bytes_max=20_000)
    bench.join("c", a_hello())
    first = 0
    while not bench.core.congested:
        assert bench.say("c", a_data(first, 10)) == []
        first += 10
    assert 10_000 < bench.core._commits.waiting_bytes < 12_000
    bench.core.flush_failed(OSError(28, "No space left on device"))
    assert not bench.core.congested
    assert bench.core.sink_error is not None
    said: list[Any] = []
    while not said:
        said = bench.say("c", a_data(first, 10))
        first += 10
    assert said[0].reason == "busy"
    bench.core.flushed(len(bench.log.frames), S)
    assert bench.core.sink_error is None
    bench.core.wake(S)
    bench.core.flushed(len(bench.log.frames), S)
    assert not bench.core.congested
    assert bench.core._commits.waiting_bytes == 0


def test_a_peer_is_not_too_slow_while_nothing_is_read() -> None:
    bench = Bench(LaterLog(), frame_rows=10, waiting_bytes_max=10_000, hello_timeout_ns=S)
    bench.join("c", a_hello())
    bench.core.connected("waits", 0, "127.0.0.1")
    bench.say("c", *(a_data(10 * n, 10) for n in range(9)))
    assert bench.core.congested
    bench.core.wake(S)
    assert bench.answers() == []
    bench.core.flushed(1, S)
    bench.core.wake(2 * S)
    assert [said.reason for said in bench.answers() if isinstance(said, m.ErrorMessage)] == [
        "hello_timeout"
    ]


def test_a_held_site_whose_source_left_is_looked_after() -> None:
    """The frame of a source that came, said nothing that counts and left: nothing goes wrong."""
    bench = Bench(LaterLog(), frame_rows=1)
    bench.join("c", a_hello())
    for number in range(FLIGHTS_MAX):
        bench.say("c", a_data(number, 1))
    bench.join("d", replace(a_hello(), site="other"), now=MS)
    bench.say("d", a_data(0, 1), now=MS)
    bench.core.disconnected("d", MS)
    bench.core.wake(S)
    bench.core.flushed(FLIGHTS_MAX, S)
    bench.core.wake(S)
    assert bench.log.frames[-1].site == "other"


class SlowDisk(NumberedLog):
    """Flushes land one after another, each after a while; those of a crashed gateway never."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self.world = world
        self.life = self.done = 0
        self.in_flight: list[list[Frame]] = []

    def append(self, frame: Frame) -> None:
        self.waiting.append(frame)

    def flush(self) -> object:  # type: ignore[override]
        self.in_flight.append(self.waiting)
        self.waiting = []
        if len(self.in_flight) == 1:
            self._soon()
        return LATER

    def _soon(self) -> None:
        self.world.later(-2, True, self._land, self.life)

    def _land(self, life: int) -> None:
        if life != self.life:
            return
        if self.fails:
            self.world.gateway.flush_failed(OSError("disk full"))
            self._soon()
            return
        count = self.world.rng.randint(1, len(self.in_flight))
        for frames in self.in_flight[:count]:
            for frame in frames:
                self._keep(frame)
        del self.in_flight[:count]
        self.done += count
        if self.in_flight:
            self._soon()
        self.world.gateway.flushed(self.done, self.world.engine_now())

    def crash(self) -> None:
        """What had not landed is gone."""
        self.life += 1
        self.done = 0
        self.in_flight = []
        self.waiting = []


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("emit"), st.integers(1, 60)),
        st.tuples(st.just("run"), st.integers(1, 200)),
        st.tuples(st.just("cut"), st.integers(0, 2)),
        st.tuples(st.just("boot"), st.none()),
        st.tuples(st.just("gateway"), st.just(0)),
        st.tuples(st.just("disk"), st.booleans()),
    ),
    max_size=25,
)


@settings(max_examples=30)
@given(
    seed=st.integers(0, 2**32),
    steps=STEPS,
    delay_ns_max=st.sampled_from([MS, 60 * MS]),
    frame_rows=st.sampled_from([3, 8192]),
)
def test_with_a_slow_disk_nothing_acked_is_lost_and_nothing_is_twice(
    seed: int, steps: list[tuple[str, int]], delay_ns_max: int,
    frame_rows: int,
) -> None:  # fmt: skip
    world = world_of(seed, {"delay_ns_max": delay_ns_max, "breaks": 3})
    disk = SlowDisk(world)
    world.log = disk
    world.start_gateway(frame_rows=frame_rows)
    world.gateway_starts = 1
    for step, size in steps:
        match step:
            case "gateway":
                disk.crash()
                world.start_gateway(frame_rows=frame_rows)
            case "disk":
                disk.fails = {"flush"} if size else set()
            case _:
                world.take(step, size)
    disk.fails = set()
    world.settle()
    world.run(S)
    assert disk.in_flight == []
    world.check()
