"""The slow twin of ``sequence`` + ``merge``: SPEC 2, 3.1, 3.2 in plain Python, lane by lane.

Nothing here is clever: buffers are dicts, what was given up or taken are sets of numbers, the next
deadline and the next head are found by looking at every lane. Integers are unbounded.
"""

from __future__ import annotations

from typing import Any

from slow_clock import Epoch, SlowClock
from slow_lane import (
    IN_ORDER,
    JUMP,
    LATE,
    LATE_DROPPED,
    NEVER,
    RESIDUAL,
    Event,
    Lane,
    Marker,
)
from slow_timeout import TIMEOUTS, Settings

LEARNS_FROM = 16
"""The event of a lane, the first being 1, from which on its timeout learns quantiles."""


class Twin:
    """Feed it records (dicts of a trace, in ns) in arrival order, then ``finish`` it.

    ``released``: (source, stream, incarnation, seq, ts, arrival, ref, unc, release, status);
    ``gaps``: (released before, source, stream, first, count, low, high); ``progress``: (released
    before, frontier, at); ``aside``: (source, seq, reason).
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.lanes: dict[tuple[str, str], Lane] = {}
        self.clocks: dict[str, SlowClock] = {}
        self.newest: dict[str, int] = {}
        self.now = NEVER
        self.frontier = NEVER
        self.blocker: Lane | None = None  # whom the merge waits for
        self.ready_since: int | None = None  # ... while something is ready
        self.released: list[tuple[Any, ...]] = []
        self.gaps: list[tuple[Any, ...]] = []
        self.progress: list[tuple[int, int, int]] = []
        self.aside: list[tuple[str, int, str]] = []

    # ---- records ----------------------------------------------------------------------------

    def process(self, record: dict[str, Any]) -> None:
        now, kind = record["arrival"], record.get("kind", "event")
        if kind == "event":
            self.refute(record)
        self.fire(now)
        self.now = now
        if kind == "sync":
            self.sync(record)
        elif kind == "event":
            self.event(record, now)
        elif kind == "eos" or (kind == "pog" and record.get("type") is None):
            self.marker(kind, record, now)

    def sync(self, record: dict[str, Any]) -> None:
        source = record["source"]
        inc, first = record.get("incarnation", 0), record.get("first_seq")
        if record.get("offset") is not None:
            name = record.get("clock") or source
            clock = self.clocks.setdefault(name, SlowClock())
            clock.learn(record, self.newest.get(name))
        if first is None:
            return
        lane = self.lane(source, record.get("stream", "events"))
        lane.announced = (inc, first)
        if not lane.started:
            lane.started, lane.inc, lane.expected = True, inc, first
            lane.last_arrival, lane.idle = record["arrival"], False
            if record.get("ts") is not None:
                unc = -(-(record.get("delay") or 0) // 2) + (record.get("precision") or 0)
                lane.last_low = record["ts"] + (record.get("offset") or 0) - unc

    def reference(self, clock: str, ts: int) -> tuple[int, int, Epoch | None]:
        if clock not in self.clocks:
            return ts, self.settings.default_uncertainty, None
        epoch = self.clocks[clock].find(ts)
        offset, unc = epoch.at(ts)
        return ts + offset, unc + epoch.refuted, epoch

    def refute(self, record: dict[str, Any]) -> None:
        """An event arrives after it happened, else its clock errs by more than was declared."""
        guard = self.settings.guard
        name = record.get("clock") or record["source"]
        if guard is None or name not in self.clocks:
            return
        ref, unc, epoch = self.reference(name, record["ts"])
        early = ref - unc - record["arrival"]
        if epoch is not None and 1_000 <= early <= guard:
            known = self.clocks[name].epochs
            epoch = next((each for each in known if each is epoch), known[0])
            epoch.refuted = 2 ** (epoch.refuted + early - 1).bit_length()

    def future(self, event: Event) -> bool:
        ref, unc, _ = self.reference(event.clock, event.ts)
        guard = self.settings.guard
        return guard is not None and ref - event.arrival > unc + guard

    def lane(self, source: str, stream: str) -> Lane:
        if (source, stream) not in self.lanes:
            timeout = TIMEOUTS[self.settings.timeout](self.settings)
            self.lanes[source, stream] = Lane(source, stream, timeout, idle=True)
        return self.lanes[source, stream]

    def event(self, record: dict[str, Any], now: int) -> None:
        source, stream = record["source"], record.get("stream", "events")
        clock = record.get("clock") or source
        if clock in self.clocks:
            self.clocks[clock].begin(record["ts"])
        lane = self.lane(source, stream)
        event = Event(
            source,
            stream,
            record.get("incarnation", 0),
            -1 if record["seq"] is None else record["seq"],
            record["ts"],
            now,
            clock,
        )
        before = lane.last_arrival
        lane.heard(now)
        lane.counts["arrived"] += 1
        refused = lane.counts["duplicate"] + lane.counts["quarantined_jump"]
        self.accept(lane, event, now)
        if (
            refused == lane.counts["duplicate"] + lane.counts["quarantined_jump"]
            and event.inc == lane.inc
            and event.seq >= 0
            and lane.counts["arrived"] >= LEARNS_FROM
        ):
            lane.timeout.arrived(event.seq, now, before)
        self.resume(lane, now)
        self.drain(now, passed=now - 1)

    def marker(self, kind: str, record: dict[str, Any], now: int) -> None:
        seq = record.get("seq")
        for lane in list(self.lanes.values()):
            if lane.source != record.get("source") or not lane.started:
                continue
            if seq is not None and lane.stream != record.get("stream", "events"):
                continue
            lane.heard(now)
            if seq is None:
                needs = max(lane.buffer, default=lane.expected - 1) + 1
            elif record.get("incarnation", 0) != lane.inc:
                continue  # of a life that is over, or not begun
            elif seq - lane.expected >= JUMP:
                self.aside.append((lane.source, seq, "marker"))
                continue
            else:
                needs = seq
            clock = record.get("clock") or lane.source
            mark = Marker(needs, now + lane.timeout.gap, record.get("ts") or 0, clock)
            if kind == "eos":
                if lane.end is None or lane.end.seq != needs:
                    lane.end = mark
            elif not lane.promises or needs <= lane.expected:
                lane.promises.insert(0, mark)
            elif (needs, clock) == (lane.promises[0].seq, lane.promises[0].clock):
                lane.promises[0].ts = max(lane.promises[0].ts, mark.ts)
            elif needs > lane.promises[0].seq:
                lane.promises[1:] = [mark]
            self.apply_markers(lane)
        self.drain(now, passed=now - 1)

    # ---- numbers (R19 Fig 4.2) --------------------------------------------------------------

    def accept(self, lane: Lane, event: Event, now: int) -> None:
        if event.seq < 0:  # goes by its time, once no number is waited for
            if lane.buffer:
                lane.held.append(event)
            elif self.correct(lane, event):
                self.by_ref(lane, event)
            return
        if not lane.started or (event.inc > lane.inc and not lane.buffer and not lane.held):
            self.begin(lane, event)
        elif event.inc > lane.inc:
            lane.held.append(event)
            return
        if event.inc < lane.inc or event.seq < lane.expected:
            self.late_or_duplicate(lane, event, now)
            return
        if event.seq - lane.expected >= JUMP:
            if lane.far is None or event.seq != lane.far + 1:
                lane.far = event.seq
                lane.counts["quarantined_jump"] += 1
                self.aside.append((lane.source, event.seq, "sequence jump"))
                return
            while lane.buffer:
                self.give_up(lane, now)
            lane.expected = event.seq
        if event.seq in lane.buffer:
            lane.counts["duplicate"] += 1
            self.aside.append((lane.source, event.seq, "duplicate"))
            return
        lane.taken.add((event.inc, event.seq))
        if event.seq > lane.expected:
            if not self.future(event):
                self.saw(event)
            event.deadline = now + lane.timeout.gap
            lane.buffer[event.seq] = event
            return
        lane.timeout.in_order(now, event.ts)
        lane.expected += 1
        self.to_merge(lane, event)
        self.release_run(lane, now, learn=True)

    def begin(self, lane: Lane, event: Event) -> None:
        lane.started, lane.inc = True, event.inc
        announced = lane.announced is not None and lane.announced[0] == event.inc
        lane.expected = lane.announced[1] if announced else event.seq
        lane.front = None
        if not announced and not self.future(event):
            lane.front = event.seq, sum(self.reference(event.clock, event.ts)[:2])
        lane.far, lane.end, lane.closed = None, None, False
        lane.promises.clear()
        lane.timeout.restarted()

    def late_or_duplicate(self, lane: Lane, event: Event, now: int) -> None:
        key = (event.inc, event.seq)
        if key in lane.taken:
            lane.counts["duplicate"] += 1
            self.aside.append((lane.source, event.seq, "duplicate"))
            return
        lane.taken.add(key)
        if event.inc == lane.inc:
            lane.timeout.late(event.seq, now)
        lane.counts["earlier_start"] += event.inc < lane.inc
        if key in lane.missing:
            lane.missing.remove(key)
            lane.counts["missing_filled"] += 1
        if not self.correct(lane, event):
            return
        if lane.front is not None and event.inc == lane.inc and event.seq < lane.front[0]:
            self.begun_earlier(lane, event, *lane.front)
        event.late = True
        if self.settings.late == "drop":
            lane.counts["late_dropped"] += 1
            self.release(event, now, LATE_DROPPED)
            return
        lane.counts["late_passed"] += 1
        if event.ref < self.frontier:
            self.release(event, now, LATE)
            return
        self.by_ref(lane, event)

    def begun_earlier(self, lane: Lane, event: Event, front: int, high: int) -> None:
        between = range(event.seq + 1, front)
        if len(between) >= JUMP:
            return
        if between:
            low = min(event.ref - event.unc, high)
            self.gaps.append(
                (len(self.released), lane.source, lane.stream, event.seq + 1, len(between),
                 low, high)
            )  # fmt: skip
            lane.counts["missing_total"] += len(between)
            lane.missing |= {(lane.inc, seq) for seq in between} - lane.taken
        lane.front = event.seq, event.ref + event.unc

    def by_ref(self, lane: Lane, event: Event) -> None:
        place = sum(1 for _ in self._not_after(lane.queue, event.ref))
        lane.queue.insert(place, event)

    @staticmethod
    def _not_after(queue: list[Event], ref: int) -> Any:
        for event in queue:
            if event.ref > ref:
                return
            yield event

    def correct(self, lane: Lane, event: Event) -> bool:
        event.ref, event.unc, event.epoch = self.reference(event.clock, event.ts)
        if self.future(event):
            lane.counts["quarantined_future"] += 1
            self.aside.append((lane.source, event.seq, "future"))
            return False
        self.saw(event)
        return True

    def saw(self, event: Event) -> None:
        self.newest[event.clock] = max(self.newest.get(event.clock, NEVER), event.ts)

    def to_merge(self, lane: Lane, event: Event) -> None:
        if self.correct(lane, event):
            lane.last_low = event.ref - event.unc
            lane.counts["backwards"] += event.ref < lane.top_ref
            back = max(lane.top_ref - event.ref, lane.counts["backwards_ns"])
            lane.counts["backwards_ns"] = back if lane.top_ref > NEVER else 0
            lane.top_ref = max(lane.top_ref, event.ref)
            lane.queue.append(event)

    def release_run(self, lane: Lane, now: int, *, learn: bool) -> None:
        while lane.expected in lane.buffer:
            event = lane.buffer.pop(lane.expected)
            lane.expected += 1
            if learn:
                lane.timeout.held(now - event.arrival)
            else:
                lane.timeout.timed_out(event.seq, event.arrival)
            self.to_merge(lane, event)
        self.apply_markers(lane)

    def apply_markers(self, lane: Lane) -> None:
        while lane.promises and lane.expected >= lane.promises[0].seq:
            promise = lane.promises.pop(0)
            bound, _, _ = self.reference(promise.clock, promise.ts)
            lane.bound = max(lane.bound, bound)
        if lane.end is not None and lane.expected >= lane.end.seq:
            lane.end, lane.closed = None, True

    def give_up(self, lane: Lane, now: int) -> None:
        ends = [min(lane.buffer)] if lane.buffer else []
        end = min(ends + [marker.seq for marker in lane.markers])
        first = lane.buffer.get(end)
        high = now
        if first is not None and not self.future(first):
            high = sum(self.reference(first.clock, first.ts)[:2])
        low = high if lane.last_low is None else min(lane.last_low, high)
        self.gaps.append(
            (len(self.released), lane.source, lane.stream, lane.expected, end - lane.expected,
             low, high)
        )  # fmt: skip
        lane.counts["missing_total"] += end - lane.expected
        lane.missing |= {(lane.inc, seq) for seq in range(lane.expected, end)}
        lane.expected = end
        self.release_run(lane, now, learn=False)

    def resume(self, lane: Lane, now: int) -> None:
        while lane.held and not lane.buffer:
            held, lane.held = lane.held, []
            for event in held:
                self.accept(lane, event, now)

    # ---- deadlines and the merge (R19 Fig 3.3) ----------------------------------------------

    def fire(self, before: int) -> None:
        while True:
            now = min((lane.deadline() for lane in self.lanes.values()), default=before)
            if now >= before:
                return
            for lane in self.lanes.values():
                while lane.deadline() <= now:
                    if lane.gap_deadline() <= now:
                        self.give_up(lane, now)
                        self.resume(lane, now)
                    else:
                        lane.idle = True
            self.drain(now, passed=now)

    def drain(self, now: int, passed: int) -> None:
        ranked = sorted(self.lanes)
        blocker = self.blocker
        while True:
            best: tuple[tuple[int, int, int], Lane] | None = None
            for place, (name, lane) in enumerate(self.lanes.items()):
                if lane.queue:
                    ref = lane.queue[0].ref
                    below = ref < self.frontier
                    key = (NEVER - 1, -2, place) if below else (ref, ranked.index(name), place)
                elif lane.closed or lane.idle:
                    continue
                elif lane.idle_deadline() <= passed:
                    lane.idle = True
                    continue
                else:
                    key = (lane.bound, -1, place)
                if best is None or key < best[0]:
                    best = (key, lane)
            if best is None:
                self.blocker = self.ready_since = None
                return
            (key, _, _), lane = best
            if not lane.queue:
                if key > self.frontier:
                    self.frontier = key
                    self.progress.append((len(self.released), key, now))
                self.blocker = lane
                if not any(lane.queue for lane in self.lanes.values()):
                    self.ready_since = None
                elif self.ready_since is None:
                    self.ready_since = now
                return
            in_its_place = lane.queue[0].ref >= self.frontier
            if lane is not blocker and in_its_place and self.ready_since is not None:
                assert blocker is not None
                blocker.counts["blocked_ns"] += now - self.ready_since
                self.ready_since = None
            self.pop(lane, now)

    def pop(self, lane: Lane, now: int) -> None:
        event = lane.queue.pop(0)
        below = event.ref < self.frontier
        self.frontier = max(self.frontier, event.ref)
        if event.late:
            self.release(event, now, LATE)
        elif not below:
            lane.counts["in_order"] += 1
            self.release(event, now, IN_ORDER)
        elif self.settings.residual == "drop":
            lane.counts["residual_dropped"] += 1
            self.release(event, now, LATE_DROPPED)
        else:
            lane.counts["residual"] += 1
            self.release(event, now, RESIDUAL)

    def release(self, event: Event, now: int, status: int) -> None:
        if event.clock in self.clocks:  # a step may have been found since then
            clock = self.clocks[event.clock]
            event.unc = clock.told_late(event.ts, event.ref, event.unc, event.epoch)
        self.released.append(
            (event.source, event.stream, event.inc, event.seq, event.ts, event.arrival,
             event.ref, event.unc, now, status)
        )  # fmt: skip

    def finish(self) -> None:
        self.fire(self.now)
        for lane in self.lanes.values():
            while lane.buffer or lane.held or lane.markers:
                if lane.buffer or not lane.held:
                    self.give_up(lane, self.now)
                else:
                    self.resume(lane, self.now)
        for lane in self.lanes.values():
            lane.idle = True
        self.drain(self.now, passed=self.now)
