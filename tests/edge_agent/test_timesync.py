"""SPEC 2: rounds of exchanges, minimum filter, resync; servers that do not answer, and others."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import pytest

from slackwater.edge_agent import messages as m
from slackwater.edge_agent import ntp, wire
from slackwater.edge_agent.clock import Now
from slackwater.edge_agent.clock_reports import ClockReports
from slackwater.edge_agent.device_clock import DeviceClockBound
from slackwater.edge_agent.errors import SettingsError
from slackwater.edge_agent.ntp import NtpKey
from slackwater.edge_agent.session import SyncReports
from slackwater.edge_agent.timesync import (
    ClockStatus,
    SyncReport,
    SyncSettings,
    SyncState,
    TimeSync,
)
from slackwater.edge_agent.unacked import UnackedMessages

MS = 10**6

S = 10**9

START = 1_700_000_000 * S

Legs = tuple[int, int] | None
"""One-way delays out and back; None: the question is lost."""


class Line:
    """A source whose clock is slow by ``offset``, asking a server over a line with given legs."""

    def __init__(self, offset: int, legs: Iterator[Legs], settings: SyncSettings) -> None:
        cookies = iter(range(1, 10**6))
        self.offset, self.legs, self.time = offset, legs, 0
        self.sync = TimeSync(settings, lambda: next(cookies))
        self.reports: list[SyncReport] = []
        self.arrivals: list[tuple[int, bytes]] = []

    def now(self) -> Now:
        return Now(START + self.time - self.offset, self.time)

    def carry(self) -> None:
        self.reports += self.sync.reports()
        for question in self.sync.requests():
            legs = next(self.legs)
            if legs is not None:
                at = START + self.time + legs[0]
                answer = ntp.ServerClock(precision_ns=1).answer(question, at, at)
                self.arrivals.append((self.time + sum(legs), answer))
        self.arrivals.sort()

    def run(self, until: int) -> None:
        while True:
            self.carry()
            due = self.sync.next_wake()
            waits = [] if due is None else [due]
            waits += [at for at, _ in self.arrivals[:1]]
            if not waits or min(waits) > until:
                self.time = until
                return
            self.time = max(self.time, min(waits))
            if self.arrivals and self.arrivals[0][0] <= self.time:
                self.sync.received(self.arrivals.pop(0)[1], self.now())
            else:
                self.sync.wake(self.now())


def always(*legs: Legs) -> Iterator[Legs]:
    while True:
        yield from legs


def line(offset: int, legs: Iterator[Legs], **settings: int) -> Line:
    made = Line(offset, legs, SyncSettings(precision_ns=1, **settings))
    made.sync.start(made.now())
    return made


def test_r19_minimum_filter_keeps_the_exchange_of_least_delay() -> None:
    legs = [(20 * MS, 2 * MS), (5 * MS, 5 * MS), *[(9 * MS, 6 * MS)] * 8]
    source = line(7 * S, iter(legs))
    source.run(2 * S)
    assert len(source.reports) == 1
    report = source.reports[0]
    assert (report.offset_ns, report.delay_ns) == (7 * S, 10 * MS)
    # Second question: 22 ms for the first and 50 ms of spacing; measured half way.
    assert report.measured_at_ns == START - 7 * S + 22 * MS + 50 * MS + 5 * MS
    assert report.precision_ns == 1 + 2
    assert report.skew_error_ppb == 50_000
    assert source.sync.state is SyncState.SYNCED
    assert source.sync.counts == {"rounds": 1, "asked": 10, "answered": 10}


def test_a_round_is_repeated_after_resync_and_forgets_old_samples() -> None:
    legs = [*[(1 * MS, 1 * MS)] * 10, *[(8 * MS, 8 * MS)] * 10]
    source = line(S, iter(legs), resync_ns=60 * S)
    source.run(62 * S)
    assert [report.delay_ns for report in source.reports] == [2 * MS, 16 * MS]


def test_lost_exchanges_are_repeated_within_bounds() -> None:
    source = line(S, always((MS, MS), None), attempts=4, retries_max=2, timeout_ns=S)
    source.run(30 * S)
    assert len(source.reports) == 1
    # asked, lost, asked, lost, asked, lost: 4 attempts + 2 retries are used up with 3 answers.
    assert source.sync.counts == {"rounds": 1, "asked": 6, "answered": 3, "timeout": 3}


def test_a_server_that_never_answers_is_reported_once_and_asked_again() -> None:
    source = line(S, always(None), silent_max=4, timeout_ns=S, retry_ns=10 * S)
    source.run(3 * S)
    assert source.reports == []
    assert source.sync.state is SyncState.ACQUIRING
    source.run(4 * S)
    assert source.reports == [SyncReport(None, None, START + 3 * S, 1, 50_000)]
    assert source.sync.state is SyncState.UNSYNCED
    source.run(40 * S)
    assert len(source.reports) == 1
    source.legs = always((MS, MS))
    source.run(60 * S)
    assert source.reports[1].offset_ns == S
    assert source.sync.state is SyncState.SYNCED


def test_a_failed_round_after_a_good_one_leaves_the_old_offset_alone() -> None:
    source = line(S, iter([*[(MS, MS)] * 10, *[None] * 4, *[(2 * MS, 2 * MS)] * 10]))
    source.run(80 * S)
    assert [report.delay_ns for report in source.reports] == [2 * MS, 4 * MS]
    assert source.sync.counts["failed_rounds"] == 1


def test_a_negative_delay_is_refused_and_counted() -> None:
    sync = TimeSync(SyncSettings(precision_ns=1), lambda: 9)
    sync.start(Now(START, 0))
    question = sync.requests()[0]
    # The server says it kept the question for 5 ms, but only 1 ms went by.
    sync.received(ntp.ServerClock().answer(question, START, START + 5 * MS), Now(START + MS, MS))
    assert sync.counts["refused_negative_delay"] == 1
    assert sync.counts["answered"] == 0


def test_a_delay_below_what_the_clocks_can_read_counts_as_zero() -> None:
    sync = TimeSync(SyncSettings(attempts=1, precision_ns=10 * MS), lambda: 9)
    sync.start(Now(START, 0))
    answer = ntp.ServerClock().answer(sync.requests()[0], START, START + 5 * MS)
    sync.received(answer, Now(START, MS))
    assert [report.delay_ns for report in sync.reports()] == [0]


def test_answers_to_nothing_are_refused() -> None:
    source = line(S, always((MS, MS)), attempts=1)
    answer = ntp.ServerClock().answer(ntp.request(4711), START, START)
    source.sync.received(answer, source.now())
    assert source.sync.counts["refused_origin"] == 1
    source.run(S)
    source.sync.received(answer, source.now())
    assert source.sync.counts["refused_unasked"] == 1
    assert len(source.reports) == 1


def test_an_answer_that_comes_after_its_timeout_is_not_taken_for_the_next_question() -> None:
    source = line(S, iter([(MS, 1500 * MS), *[(MS, MS)] * 20]), attempts=2, timeout_ns=S)
    source.run(5 * S)
    # It came while nothing was pending, after the second question was answered.
    assert source.sync.counts["timeout"] == 1
    assert source.reports[0].delay_ns == 2 * MS


def test_a_clock_has_a_status() -> None:
    legs = iter([(MS, MS)] * 10 + [None] * 4 + [(MS, MS)] * 100)
    one = line(0, legs, retry_ns=200 * S)
    assert one.sync.status(one.now()) is ClockStatus.UNKNOWN
    one.run(119 * S)
    assert one.sync.status(one.now()) is ClockStatus.SYNCHRONIZED
    one.run(130 * S)
    assert one.sync.status(one.now()) is ClockStatus.FREE_RUNNING
    one.run(300 * S)
    assert one.sync.status(one.now()) is ClockStatus.SYNCHRONIZED
    one.offset += S
    one.sync.wake(Now(one.now().wall_ns + S, one.time + S))
    assert one.sync.status(one.now()) is ClockStatus.DISRUPTED
    one.run(310 * S)
    assert one.sync.status(one.now()) is ClockStatus.SYNCHRONIZED


def test_what_is_known_of_an_agents_and_its_devices_clocks() -> None:
    own = SyncReport(5 * S, 2 * MS, START, 1000, 50_000)
    reports = ClockReports(UnackedMessages([m.CONTROL], 1 << 20))
    now = Now(START, 0)
    slow = 20 * S
    device = DeviceClockBound("monitor#7", slow - START, slow - START + MS, START - slow, 0, 50_000)
    unknown = {"offset": None, "bound": None, "status": "unknown"}
    reports.put(device, 0)
    assert reports.states(ClockStatus.UNKNOWN, now) == [
        {"clock": "", **unknown}, {"clock": "monitor", **unknown}
    ]  # fmt: skip
    reports.put_agent(own, now, 1)
    reports.put(device._replace(clock="input/arrival.3"), 2)
    agents, monitors = reports.states(ClockStatus.SYNCHRONIZED, now)
    assert agents == {"clock": "", "offset": 5 * S, "bound": MS + 1000, "status": "synchronized"}
    assert (monitors["clock"], monitors["status"]) == ("monitor", "synchronized")
    assert monitors["offset"] == 25 * S + MS // 2
    assert 1.5 * MS <= monitors["bound"] < 1.6 * MS
    later = Now(START + 601 * S, 601 * S)
    found = reports.states(ClockStatus.FREE_RUNNING, later)
    assert [each["status"] for each in found] == ["free-running", "free-running"]
    assert found[1]["bound"] > monitors["bound"] + 60 * MS
    reports.put(device._replace(clock="monitor#7.3"), 3)
    assert reports.states(ClockStatus.SYNCHRONIZED, now)[1]["status"] == "disrupted"


def test_what_refutes_a_bound_takes_no_place_of_it() -> None:
    """An agent that is off line keeps both: alone, either is wrong for some events."""
    unacked = UnackedMessages([m.CONTROL], 1 << 20)
    reports = ClockReports(unacked)
    device = DeviceClockBound("monitor#7", 0, MS, START, 0, 50_000)
    assert reports.put(device, 0) == 1
    assert reports.put(device._replace(high=MS - 1), 1) == 1  # in the place of what was not sent
    refuting = device._replace(low=-2 * S, high=-S, refutes=True)
    assert reports.put(refuting, 1) == 2
    assert reports.put_agent(SyncReport(0, 0, START, 1000, 50_000), Now(START, 0), 2) == 2
    assert (
        reports.states(ClockStatus.SYNCHRONIZED, Now(START, 0))[1]["offset"] == START + MS // 2 - 1
    )


def test_a_clock_that_is_set_is_measured_at_once() -> None:
    source = line(S, always((MS, MS)))
    source.run(10 * S)
    source.offset += 200 * MS
    source.run(12 * S)
    assert [report.offset_ns for report in source.reports] == [S, S + 200 * MS]
    counts = source.sync.counts
    assert (counts["rounds"], counts["clock_set"], counts["contradictions"]) == (2, 1, 1)
    source.run(70 * S)
    assert counts["rounds"] == 2  # the next one is due a whole ``resync_ns`` after that
    source.run(73 * S)
    assert [report.offset_ns for report in source.reports[2:]] == [S + 200 * MS]


@pytest.mark.parametrize("jump", [5 * S, -5 * S])
def test_a_set_clock_that_nobody_measures_is_reported_by_the_monotonic_clock(jump: int) -> None:
    source = line(S, chain([(MS, MS)] * 10, always(None)))
    source.run(10 * S)
    source.offset += jump
    source.run(20 * S)
    source.offset -= 2 * jump  # between rounds, and after one that failed
    source.run(40 * S)
    source.run(300 * S)
    measured, *derived = source.reports
    assert [report.offset_ns for report in derived] == [S + jump, S - jump]
    for report in derived:
        happened = report.measured_at_ns + (report.offset_ns or 0) - START
        assert report.bound_ns(0) >= measured.bound_ns(happened - S)
        assert report.contradicts(measured)
    assert source.sync.status(source.now()) is ClockStatus.DISRUPTED


def test_a_set_clock_is_reported_before_the_end() -> None:
    source = line(S, chain([(MS, MS)] * 10, always(None)))
    source.run(10 * S)
    source.sync.report_jump(source.now())
    source.offset += S
    source.sync.report_jump(source.now())
    source.carry()
    assert [report.offset_ns for report in source.reports] == [S, 2 * S]


def test_reports_that_wait_stay_where_the_clock_was_set_in_between() -> None:
    unacked = UnackedMessages([m.CONTROL], 2000)
    reports, made = SyncReports(unacked), 1
    offsets = [0, 0, 5 * S, 5 * S, 0, *[S, 0] * 10]
    for offset in offsets:
        report = SyncReport(offset, 2 * MS, START, 1, 50_000)
        made = reports.put(report, made, ended=False)
    said = [wire.decode(each.data[wire.PREFIX_BYTES :]) for each in unacked.of_lane(m.CONTROL)]
    found = [sync.offset for sync in said if isinstance(sync, m.Sync)]
    assert found[:4] == [0, 5 * S, 0, S]
    assert len(found) == made < len(offsets) // 2  # they wait in bounded memory
    assert unacked.bytes <= 2000
    assert found[-1] == offsets[-1]


def test_without_a_watch_a_step_is_found_by_the_next_round() -> None:
    source = line(S, always((MS, MS)), watch_ns=0)
    source.run(10 * S)
    source.offset -= 200 * MS
    source.run(62 * S)
    assert [report.offset_ns for report in source.reports] == [S, S - 200 * MS]
    assert source.sync.counts["clock_set"] == 0
    assert source.sync.counts["contradictions"] == 1


def test_a_clock_set_within_a_round_is_not_reported_as_it_was() -> None:
    # The four exchanges before the step have the least delay: the minimum filter would take them.
    source = line(S, iter([*[(MS, MS)] * 4, *[(3 * MS, 3 * MS)] * 20]))
    source.run(200 * MS)
    assert source.sync.counts["answered"] == 4
    source.offset += 50 * MS
    source.run(2 * S)
    assert [(report.offset_ns, report.delay_ns) for report in source.reports] == [
        (S + 50 * MS, 6 * MS)
    ]
    # All ten attempts were made again, the one that showed it included.
    assert source.sync.counts["asked"] == 14
    assert source.sync.counts["contradictions"] == 1


def test_a_round_ends_though_the_clock_is_set_all_the_time() -> None:
    source = line(S, always((MS, MS)), attempts=4, retries_max=2)
    for _ in range(40):
        source.run(source.time + 50 * MS)
        source.offset += S
        if source.reports:
            break
    assert source.sync.counts["asked"] <= 2 * (4 + 2)
    assert source.reports[0].offset_ns is not None
    # Of the clock as the last exchange found it, not of some time before.
    assert source.reports[0].offset_ns > 3 * S


@pytest.mark.parametrize("jump", [3 * MS // 4, -3 * MS // 4])
def test_a_jump_within_the_bound_starts_nothing(jump: int) -> None:
    source = line(S, always((MS, MS)))
    source.run(10 * S)
    source.offset += jump
    source.run(59 * S)
    assert source.sync.counts["rounds"] == 1
    source.run(62 * S)
    assert [report.offset_ns for report in source.reports] == [S, S + jump]
    assert source.sync.counts["contradictions"] == 0


@pytest.mark.parametrize("skew_ppb", [50_000, -50_000])
def test_a_skew_as_stated_is_no_step(skew_ppb: int) -> None:
    source = line(S, always((MS // 4, MS // 4)))
    for second in range(600):
        source.offset = S + second * skew_ppb
        source.run(second * S)
    counts = source.sync.counts
    assert counts["rounds"] == 10
    assert (counts["clock_set"], counts["contradictions"]) == (0, 0)


@pytest.mark.parametrize("name", ["attempts", "timeout_ns", "resync_ns", "precision_ns"])
def test_settings_out_of_range_name_themselves(name: str) -> None:
    with pytest.raises(SettingsError, match=rf"sync\.{name} must be above 0"):
        SyncSettings(**{name: 0})
    with pytest.raises(SettingsError, match=r"sync\.spacing_ns must not be negative"):
        SyncSettings(spacing_ns=-1)


KEY = NtpKey("main", "door", "secret")

ROOT_DELAY, ROOT_DISPERSION = 20 * MS, 5 * MS

SERVER = ntp.ServerClock(
    stratum=2, precision_ns=1_000, root_delay_ns=ROOT_DELAY, root_dispersion_ns=ROOT_DISPERSION
)


class Servers:
    """Servers in ``answering`` answer at once, each leg ``leg_ns`` long, ``ahead`` of us."""

    def __init__(self, answering: dict[int, int], places: tuple[int, ...]) -> None:
        self.answering = answering
        self.sync = TimeSync(SyncSettings(attempts=10), lambda: 99, KEY, places)
        self.time = 0
        self.asked: list[tuple[int, int]] = []
        self.reports: list[SyncReport] = []

    def run(self, until: int, leg_ns: int = MS) -> None:
        if not self.time:
            self.sync.start(Now(START, 0))
        while True:
            place = self.sync.place
            for question in self.sync.requests():
                self.asked.append((self.time, place))
                if place in self.answering:
                    at = START + self.time + leg_ns + self.answering[place]
                    assert (len(question) == 68) == (place == 0)
                    answer = SERVER.answer(question[:48], at, at)
                    self.time += 2 * leg_ns
                    packet = KEY.signed(answer) if place == 0 else answer
                    self.sync.received(packet, Now(START + self.time, self.time))
            self.reports += self.sync.reports()
            due = self.sync.next_wake()
            assert due is not None
            if due > until:
                return
            self.time = max(self.time, due)
            self.sync.wake(Now(START + self.time, self.time))


def test_a_server_is_asked_when_the_gateway_is_silent() -> None:
    servers = Servers({2: 3600 * S}, (0, 1, 2))
    servers.run(30 * S)
    assert [place for _, place in servers.asked] == [0] * 4 + [1] * 4 + [2] * 4
    gaps = {b - a for (a, place), (b, _) in zip(servers.asked[8:], servers.asked[9:], strict=False)}
    assert gaps == {2 * S + 2 * MS}  # others' servers are not asked in a hurry
    (report,) = servers.reports
    assert report.offset_ns == 3600 * S
    assert report.delay_ns is not None
    assert 22 * MS <= report.delay_ns < 22 * MS + 20_000  # the root delay in units of 2^-16 s
    assert 5 * MS <= report.precision_ns < 5 * MS + 20_000
    assert report.bound_ns(0) >= MS + ROOT_DELAY // 2 + ROOT_DISPERSION
    assert servers.sync.counts["from_servers"] == 1


def test_the_gateway_is_asked_first_in_every_round() -> None:
    servers = Servers({1: 0}, (0, 1))
    servers.run(60 * S)
    servers.answering = {0: 5 * S, 1: 0}
    servers.run(120 * S)
    assert [report.offset_ns for report in servers.reports] == [0, 5 * S]
    assert servers.reports[1].precision_ns < MS  # of the gateway nothing is added
    assert servers.sync.counts["contradictions"] == 0  # two clocks, not one that was set


def test_never_synchronised_is_reported_when_nobody_answers() -> None:
    servers = Servers({}, (0, 1))
    servers.run(9 * S)
    assert [report.offset_ns for report in servers.reports] == [None]
    assert servers.sync.state is SyncState.UNSYNCED
    assert servers.sync.counts["failed_rounds"] == 1


def test_the_gateway_may_be_left_out() -> None:
    servers = Servers({1: 7}, (1,))
    servers.run(10 * S)
    assert {place for _, place in servers.asked} == {1}
    assert servers.reports[0].offset_ns == 7
