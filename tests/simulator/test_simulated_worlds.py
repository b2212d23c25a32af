"""Whole worlds: exact stories of small ones, sums and truth of unruly ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slackwater.edge_agent import wire
from slackwater.edge_agent.messages import Ack, Data, StreamSchema
from slackwater.edge_agent.packing import Codes, MaskedColumn
from slackwater.edge_agent.pull_back import BatchSlice
from slackwater.simulator.network import Connection, rows_in
from slackwater.simulator.run import SimulationOutcome
from slackwater.simulator.seeds import Seeds
from slackwater.simulator.workload import Batch, Span

START_NS = 1_767_225_600 * 10**9
MS = 10**6
SECOND = 10**9
Rows = list[dict[str, Any]]
World = Callable[..., tuple[SimulationOutcome, Rows]]
EVENT, POG, SYNC, TICK, EOS = 0, 1, 3, 4, 5


def source(name: str = "s0", **given_: Any) -> dict[str, Any]:
    workload = {"model": "periodic", "period": "10 ms"}
    return {"name": name, "workload": workload, "poll_phase": 0, **given_}


def constant(delay: str) -> dict[str, Any]:
    return {"delay": {"model": "constant", "delay": delay}}


def of_kind(rows: Rows, kind: int = EVENT) -> Rows:
    return [row for row in rows if row["kind"] == kind]


# --- exact stories


def test_a_perfect_world_is_in_order_and_arrives_at_once(world: World) -> None:
    done, rows = world(source("s0", poll=0), source("s1", poll=0), duration="50 ms")
    first = START_NS + 2 * SECOND
    assert [(row["source"], row["seq"], row["ts"], row["arrival"]) for row in of_kind(rows)] == [
        (name, n, first + n * 10 * MS, first + n * 10 * MS)
        for n in range(5)
        for name in ("s0", "s1")
    ]
    arrivals = [row["arrival"] for row in rows]
    assert arrivals == sorted(arrivals)
    assert done.manifest["events"]["missing"] == 0


def test_a_slow_source_over_a_constant_link(world: World) -> None:
    slow = source(
        clock={"offset": "5 ms"}, up=constant("3 ms"), down=constant("1 ms"), poll="20 ms"
    )
    _, rows = world(slow, duration="60 ms")
    begin = START_NS + 2 * SECOND
    times = [((row["ts"] - begin) // MS, (row["arrival"] - begin) // MS) for row in of_kind(rows)]
    # Stamped 5 ms late; polled at 0, 20, 40 and 60 ms; 3 ms under way.
    assert times == [(-5, 3), (5, 23), (15, 23), (25, 43), (35, 43), (45, 63)]
    sync = of_kind(rows, SYNC)[0]
    assert (sync["delay"], sync["offset"]) == (4 * MS, 6 * MS), "off by (3 - 1) / 2 ms"
    assert [row["seq"] for row in of_kind(rows, EOS)] == [6]


def test_agents_send_no_event_before_their_clock_was_reported(world: World) -> None:
    _, rows = world(source(up=constant("3 ms"), down=constant("1 ms")), warm_up=0)
    kinds = [row["kind"] for row in rows]
    assert kinds.index(SYNC) < kinds.index(EVENT)
    assert [row["seq"] for row in of_kind(rows)] == list(range(100))


def test_a_restart_is_a_new_incarnation_and_what_was_not_sent_is_gone(world: World) -> None:
    done, rows = world(source(restarts=["2505 ms"]), duration="2 s", drain="30 s")
    numbers = [(row.get("incarnation", 0), row["seq"]) for row in of_kind(rows)]
    assert numbers == [(0, n) for n in range(51)] + [(1, n) for n in range(len(numbers) - 51)]
    account = done.manifest["events"]
    assert account["forgotten"] == 0, "the poll at 2500 ms took all"
    assert account["logged"] == 200
    assert done.manifest["sources"]["main/s0"]["incarnations"] == 2


def test_a_device_that_forgot_its_starts_is_given_larger_incarnations(world: World) -> None:
    done, rows = world(
        source(restarts=["2305 ms", "4305 ms"], counts_boots=False), duration="4 s", drain="30 s",
        gateway={"restarts": ["3450 ms"]},
    )  # fmt: skip
    logged = [(row.get("incarnation", 0), row["seq"]) for row in of_kind(rows)]
    assert len(logged) == 400
    assert [incarnation for incarnation, seq in logged if seq == 0] == [0, 1, 2]
    assert logged == sorted(logged)
    true = [(row["incarnation"], row["seq"]) for row in done.events.to_pylist()]
    assert true == logged
    assert done.manifest["sources"]["main/s0"]["session"]["incarnation_raised"] == 1


def test_an_outage_delays_a_reliable_link_and_loses_nothing(world: World) -> None:
    cut = {**constant("1 ms"), "reliable": True, "outages": [{"start": "2200 ms", "length": "1 s"}]}
    done, rows = world(source(up=cut), duration="2 s")
    waits = [row["arrival"] - row["ts"] for row in of_kind(rows)]
    assert len(waits) == 200
    assert SECOND < max(waits) < 2 * SECOND
    assert done.manifest["events"]["link_events"]["cut"] == 0


def test_a_loss_that_nobody_sends_again_is_a_gap(world: World) -> None:
    lossy = {**constant("1 ms"), "loss": 0.2}
    done, rows = world(source(up=lossy, resend=False, poll=0), duration="10 s")
    account = done.manifest["events"]
    assert account["missing"] == account["link_events"]["lost"]
    assert 150 < account["missing"] < 250
    assert [row["seq"] for row in of_kind(rows, EOS)] == [1000], "EOS tells of all numbers"
    kept = {row["seq"] for row in of_kind(rows)}
    assert len(kept) == 1000 - account["missing"]


def test_what_the_network_loses_is_sent_again_on_request(world: World) -> None:
    lossy = {**constant("1 ms"), "loss": 0.05}
    done, rows = world(source(up=lossy, connections=2), duration="2 s", drain="600 s")
    account = done.manifest["events"]
    assert account["missing"] == 0
    assert account["link_events"]["lost"] > 0
    assert sorted(row["seq"] for row in of_kind(rows)) == list(range(200))


def test_the_end_of_the_drain_leaves_the_rest_under_way(world: World) -> None:
    done, _ = world(source(up=constant("900 ms")), duration="100 ms", warm_up="20 s", drain="1 ms")
    account = done.manifest["events"]
    assert account["under_way"] == account["missing"] == 10


# --- promises


JITTER = {"delay": {"model": "uniform", "low": 0, "high": "100 ms"}}


def promising(name: str = "s0", **given_: Any) -> dict[str, Any]:
    workload = {"model": "poisson", "mean": "5 ms", "type": f"T-{name}"}
    return {"name": name, "workload": workload, "heartbeat": 0, "poll": 0, **given_}


@pytest.mark.parametrize("share", [0.1, 0.3, 1.0])
def test_promises_are_a_share_of_the_events(world: World, share: float) -> None:
    _, rows = world(promising(promise_share=share))
    counts = [sum(row["kind"] == kind for row in rows) for kind in (EVENT, POG)]
    assert counts[0] > 100
    assert abs(counts[1] - share * counts[0]) <= 1


def test_promises_hold_over_connections_that_overtake_each_other(world: World) -> None:
    sources = [
        promising(f"s{n}", promise_share=0.5, promise_by_type=True, connections=4, up=JITTER,
               poll="5 ms", clock={"offset": "7 ms", "skew_ppb": 1000})
        for n in range(3)
    ]  # fmt: skip
    _, rows = world(*sources)
    promised: dict[str, int] = {}
    overtaken = 0
    for row in rows:
        if row["kind"] == POG:
            assert row["type"] == f"T-{row['source']}"
            promised[row["source"]] = max(promised.get(row["source"], 0), row["ts"])
        elif row["kind"] == EVENT:
            assert row["ts"] >= promised.get(row["source"], 0)
            overtaken += 1
    assert set(promised) == {"s0", "s1", "s2"}
    assert overtaken > 300


def test_the_seed_decides_where_promises_fall(world: World) -> None:
    first, rows = world(promising(promise_share=0.3))
    again, _ = world(promising(promise_share=0.3))
    assert first.digest == again.digest
    other, _ = world(promising(promise_share=0.3), seed=2)
    assert other.digest != first.digest
    without, plain = world(promising())
    assert without.digest != first.digest
    events = [[row["ts"] for row in each if row["kind"] == EVENT] for each in (rows, plain)]
    assert events[0] == events[1], "promises change nothing of what happens"


def test_types_are_promised_before_their_first_event(world: World) -> None:
    late = promising("late", promise_first=["T-late", "other"], restarts=["2500 ms"])
    _, rows = world(late, duration="3 s", warm_up="1 s")
    pogs = [row for row in rows if row["kind"] == POG]
    times = [(row.get("incarnation", 0), row["type"], row["seq"]) for row in pogs]
    assert times == [(at, name, 0) for at in (0, 1) for name in ("T-late", "other")]
    first = next(row for row in rows if row["kind"] == EVENT)
    assert all(row["ts"] < first["ts"] for row in rows[: rows.index(first)] if row["kind"] == POG)


# --- the workload's columns


class Mixed:
    """Two streams: points with every type of attribute, and intervals with ids."""

    def streams(self) -> Sequence[StreamSchema]:
        kinds = {"n": "int", "x": "float", "ok": "bool", "who": "str", "maybe": "int"}
        return (StreamSchema("points", kinds), StreamSchema("spans"))

    def batches(self, span: Span, seeds: Seeds, source: str) -> Iterator[Batch]:
        del seeds, source
        times = span.start_ns + np.array([0, 10, 20], np.int64) * MS
        yield Batch(
            "points",
            times,
            types=Codes(["A", "B"], np.array([0, 1, 0], np.int32)),
            attrs={
                "n": np.array([1, 2, 3]),
                "x": np.array([0.5, 1.5, 2.5]),
                "ok": np.array([True, False, True]),
                "who": Codes(["ann", "bob"], np.array([1, -1, 0], np.int32)),
                "maybe": MaskedColumn(np.array([7, 8, 9]), np.array([1, 0, 1], np.uint8)),
            },
            truth={"shop": np.array([4, 5, 6])},
        )
        yield Batch(
            "spans", times[:2], types="S", end_ns=times[1:] + 5 * MS, ids=np.array([70, 71])
        )


def test_all_columns_pass_through_the_very_agent_and_gateway(world: World) -> None:
    done, rows = world(source(workload=Mixed(), clock={"offset": "1 ms"}), duration="1 s")
    begin = START_NS + 2 * SECOND - MS
    points = [row for row in of_kind(rows) if row["stream"] == "points"]
    names = ("type", "attrs.n", "attrs.x", "attrs.ok", "attrs.who", "attrs.maybe")
    assert [(row["ts"] - begin, *(row[name] for name in names)) for row in points] == [
        (0, "A", 1, 0.5, True, "bob", 7),
        (10 * MS, "B", 2, 1.5, False, None, None),
        (20 * MS, "A", 3, 2.5, True, "ann", 9),
    ]
    spans = [row for row in of_kind(rows) if row["stream"] == "spans"]
    assert [(row["ts"] - begin, row["te"] - begin, row["id"]) for row in spans] == [
        (0, 15 * MS, 70),
        (10 * MS, 25 * MS, 71),
    ]
    truth = done.events.to_pylist()
    assert [row["truth.shop"] for row in truth] == [4, 5, 6, None, None]
    assert [row["true_te"] for row in truth[3:]] == [row["te"] + MS for row in truth[3:]]


# --- unruly worlds: sums and truth


BURSTS = {"model": "gilbert_elliott", "p_good_to_bad": 0.1, "p_bad_to_good": 0.4}


@st.composite
def unruly(draw: st.DrawFn) -> dict[str, Any]:
    mean = st.sampled_from(["2 ms", "80 ms"])
    up = {
        "delay": {"model": "exponential", "min": "1 ms", "mean": draw(mean)},
        "loss": draw(st.sampled_from([0, 0.1, BURSTS])),
        "duplicate": draw(st.sampled_from([0, 0.2])),
        "reliable": draw(st.booleans()),
        "fifo": draw(st.booleans()),
        "rate_bytes_per_s": draw(st.sampled_from([None, 20_000])),
        "queue_bytes": 2000,
        "outages": draw(st.sampled_from([[], [{"start": "2300 ms", "length": "400 ms"}]])),
    }  # fmt: skip
    return source(
        up=up,
        down={"delay": {"model": "uniform", "low": 0, "high": "30 ms"}},
        connections=draw(st.integers(1, 3)),
        resend=draw(st.booleans()),
        restarts=draw(st.sampled_from([[], ["2400 ms"], ["2400 ms", "2700 ms"]])),
        counts_boots=draw(st.booleans()),
        clock={"offset": "-7 ms", "skew_ppb": 50_000, "wander_ppb": 100},
        unacked_bytes_max=draw(st.sampled_from([3000, 1 << 20])),
    )


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    unruly(),
    st.integers(0, 1000),
    st.sampled_from([[], ["2500 ms"], ["1 s", "2600 ms", "2800 ms"]]),
)
def test_sums_balance_and_the_log_tells_the_truth(
    world: World, first: dict[str, Any], seed: int, restarts: list[str]
) -> None:
    gateway = {"restarts": restarts}
    done, rows = world(first, source("s1"), seed=seed, gateway=gateway)  # an imbalance would raise
    logged = [
        (row["source"], row.get("incarnation", 0), row["seq"], row["ts"]) for row in of_kind(rows)
    ]
    true = {
        (row["source"], row["incarnation"], row["seq"], row["ts"]): row["true_ts"]
        for row in done.events.to_pylist()
        if row["seq"] is not None
    }
    assert len(set(logged)) == len(logged), "each number is logged once"
    assert set(logged) <= set(true)
    account = done.manifest["events"]
    assert account["generated"] == 200
    assert account["missing"] == len(true) - len(logged)
    assert all(row["arrival"] >= true[key] for row, key in zip(of_kind(rows), logged, strict=True))


@settings(max_examples=5, deadline=None, suppress_health_check=list(HealthCheck))
@given(unruly(), st.integers(0, 1000), st.sampled_from([[], ["2500 ms"]]))
def test_carried_messages_do_what_their_bytes_do(
    world: World, first: dict[str, Any], seed: int, restarts: list[str]
) -> None:
    """The same run with every message packed by the agent and unpacked by the gateway."""
    gateway = {"restarts": restarts}
    carried, rows = world(first, source("s1"), seed=seed, gateway=gateway)
    send_up, packed = Connection.send_up, []

    def by_bytes(connection: Connection, data: bytes | BatchSlice, size_bytes: int) -> None:
        packed.append(isinstance(data, BatchSlice))
        assert len(bytes(data)) == size_bytes
        send_up(connection, bytes(data), size_bytes)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Connection, "send_up", by_bytes)
        done, again = world(first, source("s1"), seed=seed, gateway=gateway)
    assert any(packed)
    assert (done.manifest, again) == (carried.manifest, rows)
    assert done.events == carried.events


# --- borders


@given(
    st.integers(0, 63), st.integers(0, 2**62 - 70_000), st.integers(1, 65_536)
)  # fmt: skip
def test_rows_in_reads_what_the_wire_writes(stream: int, first_seq: int, rows: int) -> None:
    message = wire.encode(Data(stream, first_seq, rows, bytes(8), None, None, None, ()))
    assert rows_in(message) == rows
    assert rows_in(wire.encode(Ack(first_seq, (rows,)))) == 0
