"""The slow twin of ``engine.order.sequence.timeouts``: lists, and sums over them."""

from __future__ import annotations

from bisect import bisect_right
from math import sqrt

UNITS = 64
EDGES = [*range(16), *((16 + part) << octave for octave in range(16) for part in range(16)), 2**20]
"""Where bins begin, in resolutions; the last one has no end that matters."""
ENDS = [*EDGES[1:], 17 << 16]
Counts = list[int]


def resolution(latency: int) -> int:
    """What times are counted in."""
    return int(2 ** max(0, latency.bit_length() - 20))


class Highs:
    """Every first arrival of a highest number; which of them the kernels have kept is computed."""

    def __init__(self) -> None:
        self.records: list[tuple[int, int]] = []

    def wait(self, seq: int, now: int) -> int:
        """How long ``seq``, arrived ``now``, had been behind a larger number."""
        if not self.records or seq > self.records[-1][0]:
            if self.records and self.records[-1][1] == now:
                self.records.pop()
            self.records.append((seq, now))
            return 0
        for level in range(5):
            step = 4**level
            # Every step-th record once a newer one has come; the newest itself on level 0 only.
            kept = self.records[step - 1 : len(self.records) if level == 0 else -1 : step]
            known = kept[-32:]
            if known[0][0] <= seq or len(kept) <= 32 or level == 4:
                return now - self._since(seq, known, step)
        raise AssertionError

    @staticmethod
    def _since(seq: int, known: list[tuple[int, int]], step: int) -> int:
        place = next(i for i, (high, _) in enumerate(known) if high > seq)
        high, at = known[place]
        if step == 1 or place == 0:
            return at
        below, then = known[place - 1]
        share = (seq - below) / (high - below) + 0.5 / step
        return then + min(int(share * (at - then)), at - then)


class WaitTimes:
    """SPEC 3.1 ``quantile``: the waiting time that the share ``tail`` of the events exceeds."""

    def __init__(self, latency: int, tail_ppm: int) -> None:
        self.tail = tail_ppm
        self.resolution = resolution(latency)
        self.window = min(max(4096, 256_000_000 // tail_ppm), 2**20)
        self.memory: Counts = [0] * len(EDGES)
        self.shape: Counts = []
        self.block: Counts = []  # bins of its events
        self.instants = 0
        self.doubt: Counts = []
        self.changed = 0  # 1: in the last block; 2: in the one before

    def add(self, wait: int, *, is_new_instant: bool) -> bool:
        """True when a block was full."""
        self.block.append(bisect_right(EDGES, wait // self.resolution) - 1)
        self.instants += is_new_instant
        n = len(self.block)
        wanted = min(128, max(16, -(-sum(self.memory) // UNITS)))
        if n < wanted or (n >= 128 and n < 8192 and self.instants < 32):
            return False
        self.take(self.block, self.instants)
        self.block, self.instants = [], 0
        return True

    def take(self, block: Counts, instants: int) -> None:
        if self.changed == 1:
            self.join(block)
            self.doubt, self.changed = block, 2
            return
        if self.changed == 2:
            self.memory = [0] * len(EDGES)
            self.join(self.doubt)
            self.doubt, self.changed = [], 0
        enough = len(block) >= 128 and sum(self.memory) >= 128 * UNITS
        if enough and self.contradicts(block, instants):
            if not self.doubt:
                self.doubt = block
                return
            if not self.shape or sum(self.memory) * 256 >= self.window * UNITS * 64:
                self.shape = self.memory
            self.memory, self.changed = [0] * len(EDGES), 1
        else:
            self.join(self.doubt)
        self.doubt = []
        self.join(block)
        if sum(self.memory) >= self.window * UNITS:
            self.memory = [n // 2 for n in self.memory]

    def join(self, block: Counts) -> None:
        for place in block:
            self.memory[place] += UNITS

    def contradicts(self, block: Counts, instants: int) -> bool:
        """More than four standard deviations, and two observations, at some waiting time."""
        n, known = float(len(block)), sum(self.memory) / UNITS
        alike = n / max(1, instants)
        for place in sorted({1, *block, *(place + 1 for place in block)} - {0}):
            longer = sum(each >= place for each in block)
            found = sum(self.memory[place:]) / UNITS
            share = (longer + found) / (n + known)
            off = abs(longer - n * found / known) - 2.0 * alike
            spread = 4.0 * 4.0 * alike * n * (1.0 + n / known)
            if off > 0.0 and off * off > spread * share * (1.0 - share):
                return True
        return False

    @staticmethod
    def exceeded_by(counts: Counts, units: int) -> int:
        """The time, in 1/1024 of the resolution, that ``units`` of the counts exceed."""
        for place in reversed(range(1, len(EDGES))):
            above = sum(counts[place + 1 :])
            if above + counts[place] > units:
                density = [n / (to - at) for n, at, to in zip(counts, EDGES, ENDS, strict=True)]
                after = density[place] + (*density, 0.0)[place + 1]
                before = density[place] + density[max(place - 1, 1)]
                share = (units - above) / counts[place] * (before + after)
                # Of a density that goes from ``before`` to ``after``, the part from here on.
                back = share / (after + sqrt(after * after + (before - after) * share))
                return ENDS[place] * 1024 - int((ENDS[place] - EDGES[place]) * 1024 * back)
        return 0

    def needed(self) -> int | None:
        """In ns; None when unknown."""
        n = sum(self.memory)
        late = self.tail * (n + UNITS) // 10**6
        value = self.stretched(n, late) if late < 64 * UNITS and self.shape else None
        if value is None:
            if n * self.tail < UNITS * 10**6:
                return None
            value = self.exceeded_by(self.memory, late)
        value = min(value, 2**30 - 1)
        return -(-value * self.resolution // 1024) - 1 if value else self.resolution - 1

    def stretched(self, n: int, late: int) -> int | None:
        known = sum(self.shape)
        waiting = min(n - self.memory[0], n * (known - self.shape[0]) // known)
        near = min(64 * UNITS, waiting // 2)
        far = min(4 * near, waiting)
        if near <= late or near < 4 * UNITS:
            return None
        mine = self.exceeded_by(self.memory, near)
        theirs = self.exceeded_by(self.shape, near * known // n)
        apart = theirs - self.exceeded_by(self.shape, far * known // n)
        if apart <= 0:
            return None
        scale = mine - self.exceeded_by(self.memory, far)
        further = self.exceeded_by(self.shape, self.tail * known // 10**6) - theirs
        sure = late + UNITS * (3 + int(3 * sqrt(late / UNITS)))
        return max(mine + scale * further // apart, self.exceeded_by(self.memory, sure))
