"""Where the gateway does not answer, standard servers say the time, with their root distance."""

from __future__ import annotations

from typing import Final

from edge_agent import ntp
from edge_agent.clock import Now
from edge_agent.ntp_mac import NtpKey
from edge_agent.timesync import SyncReport, SyncSettings, SyncState, TimeSync

MS: Final = 10**6
S: Final = 10**9
NOW: Final = 1_700_000_000 * S
KEY = NtpKey("main", "door", "secret")
ROOT_DELAY, ROOT_DISPERSION = 20 * MS, 5 * MS
SERVER = ntp.ServerClock(
    stratum=2, precision_ns=1_000, root_delay_ns=ROOT_DELAY, root_dispersion_ns=ROOT_DISPERSION
)


class World:
    """Whoever is in ``answering`` answers at once, each leg ``leg_ns`` long, ``ahead`` of us."""

    def __init__(self, answering: dict[int, int], places: tuple[int, ...]) -> None:
        self.answering = answering
        self.sync = TimeSync(SyncSettings(attempts=10), lambda: 99, KEY, places)
        self.time = 0
        self.asked: list[tuple[int, int]] = []
        self.reports: list[SyncReport] = []

    def run(self, until: int, leg_ns: int = MS) -> None:
        if not self.time:
            self.sync.start(Now(NOW, 0))
        while True:
            place = self.sync.place
            for question in self.sync.requests():
                self.asked.append((self.time, place))
                if place in self.answering:
                    at = NOW + self.time + leg_ns + self.answering[place]
                    assert (len(question) == 68) == (place == 0)
                    answer = SERVER.answer(question[:48], at, at)
                    self.time += 2 * leg_ns
                    told = KEY.signed(answer) if place == 0 else answer
                    self.sync.received(told, Now(NOW + self.time, self.time))
            self.reports += self.sync.reports()
            due = self.sync.next_wake()
            assert due is not None
            if due > until:
                return
            self.time = max(self.time, due)
            self.sync.wake(Now(NOW + self.time, self.time))


def test_a_server_is_asked_when_the_gateway_is_silent() -> None:
    world = World({2: 3600 * S}, (0, 1, 2))
    world.run(30 * S)
    assert [place for _, place in world.asked] == [0] * 4 + [1] * 4 + [2] * 4
    gaps = {b - a for (a, place), (b, _) in zip(world.asked[8:], world.asked[9:], strict=False)}
    assert gaps == {2 * S + 2 * MS}  # others' servers are not asked in a hurry
    (report,) = world.reports
    assert report.offset_ns == 3600 * S
    assert report.delay_ns is not None
    assert 22 * MS <= report.delay_ns < 22 * MS + 20_000  # the root delay in units of 2^-16 s
    assert 5 * MS <= report.precision_ns < 5 * MS + 20_000
    assert report.bound_ns(0) >= MS + ROOT_DELAY // 2 + ROOT_DISPERSION
    assert world.sync.counts["from_servers"] == 1


def test_the_gateway_is_asked_first_in_every_round() -> None:
    world = World({1: 0}, (0, 1))
    world.run(60 * S)
    world.answering = {0: 5 * S, 1: 0}
    world.run(120 * S)
    assert [report.offset_ns for report in world.reports] == [0, 5 * S]
    assert world.reports[1].precision_ns < MS  # of the gateway nothing is added
    assert world.sync.counts["contradictions"] == 0  # two clocks, not one that was set


def test_never_synchronised_is_told_when_nobody_answers() -> None:
    world = World({}, (0, 1))
    world.run(9 * S)
    assert [report.offset_ns for report in world.reports] == [None]
    assert world.sync.state is SyncState.UNSYNCED
    assert world.sync.counts["failed_rounds"] == 1


def test_the_gateway_may_be_left_out() -> None:
    world = World({1: 7}, (1,))
    world.run(10 * S)
    assert {place for _, place in world.asked} == {1}
    assert world.reports[0].offset_ns == 7
