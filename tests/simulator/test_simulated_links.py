"""Links and losses: what comes out, when, and that every count balances."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slackwater.simulator.delays import Constant, Exponential, Uniform
from slackwater.simulator.links import Bottleneck, Link, LinkSettings, Outage, Place, Tally
from slackwater.simulator.losses import Bernoulli, GilbertElliott
from slackwater.simulator.seeds import Seeds

MS = 10**6
SECOND = 10**9


def link(settings: LinkSettings, seed: int = 1, name: str = "l", origin_ns: int = 0) -> Link:
    return Link(settings, Seeds(seed), name, Place(origin_ns, Path("/nowhere")))


def test_fifo_never_overtakes_and_its_absence_does() -> None:
    times = range(0, 1000 * MS, MS)
    spread = Uniform(0, 50 * MS)
    made = link(LinkSettings(delay=spread))
    ordered = [made.transmit(t, 1, 1)[0] for t in times]
    assert ordered == sorted(ordered)
    free = link(LinkSettings(delay=spread, fifo=False))
    loose = [free.transmit(t, 1, 1)[0] for t in times]
    assert loose != sorted(loose)
    # Same draws: fifo is the running maximum of the free arrivals.
    assert ordered == list(itertools.accumulate(loose, max))


def test_a_rate_spaces_messages_and_a_full_queue_drops_the_tail() -> None:
    settings = LinkSettings(delay=Constant(0), rate_bytes_per_s=1000, queue_bytes=250)
    made = link(settings)
    # 100 bytes take 100 ms; of what has not yet passed, at most 250 bytes may wait.
    assert [made.transmit(0, 100, 3) for _ in range(4)] == [
        (100 * MS,),
        (200 * MS,),
        (),
        (),
    ]
    assert made.transmit(50 * MS, 100, 3) == (300 * MS,)
    assert made.counts.queue_dropped == Tally(2, 6)
    assert made.transmit(10 * SECOND, 400, 3) == (10 * SECOND + 400 * MS,), "empty: any size"


def test_a_reliable_link_waits_for_the_queue() -> None:
    settings = LinkSettings(
        delay=Constant(0), rate_bytes_per_s=1000, queue_bytes=100, reliable=True
    )
    made = link(settings)
    assert [made.transmit(0, 100, 1) for _ in range(3)] == [(100 * MS,), (200 * MS,), (300 * MS,)]
    assert made.counts.queue_waited == Tally(2, 2)


def test_connections_of_one_direction_share_the_bottleneck() -> None:
    settings = LinkSettings(delay=Constant(0), rate_bytes_per_s=1000)
    shared, seeds = Bottleneck(settings), Seeds(1)
    place = Place(0, Path("/nowhere"))
    pool = [Link(settings, seeds, f"l/{n}", place, shared) for n in range(3)]
    assert [each.transmit(0, 100, 1) for each in pool] == [(100 * MS,), (200 * MS,), (300 * MS,)]


def test_an_outage_cuts_and_comes_again() -> None:
    settings = LinkSettings(
        delay=Constant(1), outages=(Outage(10, 5), Outage(100, 10, every_ns=50))
    )
    made = link(settings, origin_ns=1000)
    passed = [t for t in range(300) if made.transmit(1000 + t, 1, 2)]
    cut = [*range(10, 15), *range(100, 110), *range(150, 160), *range(200, 210), *range(250, 260)]
    assert passed == [t for t in range(300) if t not in cut]
    assert made.counts.cut == Tally(len(cut), 2 * len(cut))


def test_a_reliable_link_sends_again_after_a_doubling_timeout() -> None:
    settings = LinkSettings(
        delay=Constant(1),
        reliable=True,
        retransmit_timeout_ns=100,
        outages=(Outage(10, 500),),
    )
    made = link(settings)
    # At 20: lost; again at 120, 320 (lost), 720 (through). The next one waits behind it.
    assert [made.transmit(t, 1, 1) for t in (20, 600)] == [(721,), (721,)]
    assert made.counts.retransmitted == Tally(3, 3)
    assert made.counts.balance() == (0, 0)


def test_a_connection_that_never_gets_through_breaks() -> None:
    made = link(LinkSettings(reliable=True, loss=Bernoulli(1.0)))
    assert made.transmit(0, 1, 5) == ()
    assert made.counts.lost == Tally(1, 5)
    assert made.counts.balance() == (0, 0)


def test_a_message_that_may_not_fail_passes_as_on_a_reliable_link() -> None:
    made = link(LinkSettings(loss=Bernoulli(0.9), duplicate=1.0, retransmit_timeout_ns=1))
    arrivals = [made.transmit(t, 1, 0, may_fail=False) for t in range(100)]
    assert all(len(each) == 1 for each in arrivals)
    assert made.counts.retransmitted.messages > 500
    assert made.counts.balance() == (0, 0)


def test_duplicates_have_their_own_delay() -> None:
    made = link(LinkSettings(delay=Uniform(0, MS), duplicate=0.3, fifo=False))
    arrivals = [made.transmit(t, 1, 1) for t in range(20_000)]
    twice = [each for each in arrivals if len(each) == 2]
    assert abs(len(twice) / 20_000 - 0.3) < 0.02
    assert all(a != b for a, b in twice)
    assert made.counts.copied == Tally(len(twice), len(twice))


def test_bernoulli_loses_its_share_independently() -> None:
    process = Bernoulli(0.2).build(Seeds(2).generator("loss"))
    lost = np.array([process.lost() for _ in range(100_000)])
    assert abs(lost.mean() - 0.2) < 0.006
    assert abs(np.corrcoef(lost[:-1], lost[1:])[0, 1]) < 0.02


@pytest.mark.parametrize(
    ("settings", "mean"),
    [
        # The mean is written out by hand: r of loss_good and p of loss_bad, over both.
        (GilbertElliott(0.01, 0.1), 0.01 / 0.11),
        (GilbertElliott(0.02, 0.2, loss_good=0.01, loss_bad=0.7), (0.2 * 0.01 + 0.02 * 0.7) / 0.22),
        (GilbertElliott(0.5, 0.5, loss_good=0.0, loss_bad=0.4), 0.2),
    ],
)
def test_gilbert_elliott_reaches_its_stationary_loss(settings: GilbertElliott, mean: float) -> None:
    process = settings.build(Seeds(2).generator("loss"))
    lost = np.array([process.lost() for _ in range(400_000)])
    assert settings.mean == pytest.approx(mean)
    assert lost.mean() == pytest.approx(mean, rel=0.05)


def test_gilbert_elliott_bursts_are_as_long_as_asked() -> None:
    process = GilbertElliott(0.01, 0.1).build(Seeds(2).generator("loss"))
    lost = [process.lost() for _ in range(400_000)]
    bursts = [sum(1 for _ in run) for state, run in itertools.groupby(lost) if state]
    assert np.mean(bursts) == pytest.approx(1 / 0.1, rel=0.05)


@given(
    reliable=st.booleans(),
    fifo=st.booleans(),
    loss=st.sampled_from([0.0, 0.3, 0.9]),
    duplicate=st.sampled_from([0.0, 0.4]),
    rate=st.sampled_from([None, 500]),
    outage=st.booleans(),
    events=st.lists(st.integers(0, 9), min_size=1, max_size=60),
)
def test_the_counts_of_every_link_balance(
    reliable: bool,
    fifo: bool,
    loss: float,
    duplicate: float,
    rate: int | None,
    outage: bool,
    events: list[int],
) -> None:
    settings = LinkSettings(
        delay=Exponential(MS, 20 * MS),
        reliable=reliable,
        fifo=fifo,
        loss=Bernoulli(loss),
        duplicate=duplicate,
        rate_bytes_per_s=rate,
        queue_bytes=300,
        outages=(Outage(20 * MS, 50 * MS),) if outage else (),
    )
    made = link(settings)
    arrivals = [made.transmit(t * 5 * MS, 100, n) for t, n in enumerate(events)]
    assert made.counts.balance() == (0, 0)
    assert made.counts.entered == Tally(len(events), sum(events))
    assert made.counts.left.messages == sum(len(each) for each in arrivals)
    carried = [n * len(each) for n, each in zip(events, arrivals, strict=True)]
    assert made.counts.left.events == sum(carried)
    assert not reliable or max(map(len, arrivals)) <= 1
    flat = [at for each in arrivals for at in each]
    assert all(at >= t * 5 * MS for t, each in enumerate(arrivals) for at in each)
    assert not fifo or flat == sorted(flat)
    assert made.close(10**12) >= max(flat, default=0)
