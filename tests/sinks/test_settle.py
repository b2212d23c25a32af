"""``settle`` beside a slow twin, and over kills at any instant."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from threading import Event
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slackwater.engine.sinks.base import RetryError, SinkItem
from slackwater.engine.sinks.forwarding import Forwarder
from tests.sinks.receivers import Answers, KeptReceiver

Change = tuple[int, str, bool]
"""What result, its op, and whether it is confirmed."""


def changes(random: Random, count: int) -> list[Change]:
    """A log of changes, of which each ``-`` has a ``+`` before; equal results stand together."""
    found: list[Change] = []
    there: list[tuple[int, bool]] = []
    for _ in range(count):
        if there and random.random() < 0.45:
            which, confirmed = there.pop(random.randrange(len(there)))
            found.append((which, "-", confirmed))
        else:
            one = random.randrange(5), random.random() < 0.6
            there.append(one)
            found.append((one[0], "+", one[1]))
    return found


def result(change: Change, at: int) -> dict[str, Any]:
    which, op, confirmed = change
    certainty = "confirmed" if confirmed else "uncertain"
    return {"op": op, "at": at, "n": which, "certainty": certainty}


def twin(
    log: Sequence[tuple[float, Change]], settle: float, *, confirmed_only: bool
) -> list[tuple[float, int]]:
    """(when, number of the line) of what is delivered if nothing is killed, one by one.

    Args:
        log: when each line is read.
        settle: how long it waits.
        confirmed_only: as in the settings.
    """
    gone: set[int] = set()
    for number, (at, (which, op, confirmed)) in enumerate(log):
        if op == "+":
            continue
        for other, (then, (what, sign, sure)) in enumerate(log[:number]):
            is_same = (what, sure) == (which, confirmed)
            is_meanwhile = settle > 0 and at <= then + settle
            if sign == "+" and is_same and other not in gone and is_meanwhile:
                gone |= {other, number}
                break
    return [
        (at + settle, number)
        for number, (at, (_, _, confirmed)) in enumerate(log)
        if number not in gone and (confirmed or not confirmed_only)
    ]


class Driven:
    """A sink whose clock stands until it is moved, and which can be killed."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.answers = Answers(folder)
        self.receiver = KeptReceiver()
        self.now = 0.0
        self.settings = settings
        self.times: list[tuple[float, int]] = []
        self.start()

    def start(self) -> None:
        """Again, from what is on disk: what the one before has not saved is lost."""
        self.forwarder: Forwarder = self.answers.forwarder(
            self.receiver, clock=lambda: self.now, tell=lambda _: None, **self.settings
        )

    def deliver(self, *, killed_after: int | None = None) -> None:
        """What is due. ``killed_after``: that many steps; each is a batch or a save."""
        stopping = Event()
        steps = 0
        while batch := self.forwarder.take():
            before = len(self.receiver.items)
            if killed_after is not None and steps >= killed_after:
                self.receiver.answer = _raises
                stopping.set()
                self.forwarder._deliver(batch, stopping)  # it has saved what it will deliver
                self.receiver.answer = lambda _: None
                return
            assert self.forwarder._deliver(batch, stopping)
            self.times += [(self.now, item.number) for item in self.receiver.items[before:]]
            steps += 1

    def save(self) -> None:
        assert self.forwarder._save(Event())


def _raises(_: Sequence[SinkItem]) -> None:
    raise RetryError("killed")


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([0.0, 1.0, 3.0, 10.0]), st.booleans())
def test_what_settles_is_that_of_the_twin(
    tmp_path_factory: pytest.TempPathFactory, seed: int, settle: float, confirmed_only: bool
) -> None:
    random = Random(seed)
    log: list[tuple[float, Change]] = []
    driven = Driven(
        tmp_path_factory.mktemp("answers"), settle_s=settle, confirmed_only=confirmed_only,
        batch=random.choice([1, 3, 100]),
    )  # fmt: skip
    left = changes(random, 40)
    while left:
        some = [left.pop(0) for _ in range(min(random.randrange(6), len(left)))]
        for change in some:
            driven.answers.write(result(change, len(log)))
            log.append((driven.now, change))
        driven.deliver()
        driven.now += 0.5
    for _ in range(30):
        driven.deliver()
        driven.now += 0.5
    assert driven.times == twin(log, settle, confirmed_only=confirmed_only)
    shutil.rmtree(driven.answers.folder)


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([0.0, 1.0, 3.0]), st.booleans())
def test_kills_leave_no_change_without_its_partner(
    tmp_path_factory: pytest.TempPathFactory, seed: int, settle: float, confirmed_only: bool
) -> None:
    """What a receiver has that drops copies by their key: never a ``-`` before its ``+``, in the
    order of the file, and in the end the results that the file leaves.
    """
    random = Random(seed)
    driven = Driven(
        tmp_path_factory.mktemp("answers"), settle_s=settle, confirmed_only=confirmed_only,
        batch=random.choice([1, 3, 100]),
    )  # fmt: skip
    left = changes(random, 60)
    log = list(left)
    written = 0
    while left:
        for _ in range(min(random.randrange(6), len(left))):
            driven.answers.write(result(left.pop(0), written))
            written += 1
        kind = random.random()
        driven.deliver(killed_after=random.randrange(3) if kind < 0.3 else None)
        if kind > 0.6:
            driven.save()
        if kind < 0.4:
            driven.start()
        driven.now += random.choice([0.0, 0.2, 1.0])
    for _ in range(30):
        driven.deliver()
        driven.now += 0.5
    numbers = list(dict.fromkeys(item.number for item in driven.receiver.items))
    assert numbers == sorted(numbers)
    standing: Counter[tuple[int, bool]] = Counter()
    for number in numbers:
        which, op, confirmed = log[number]
        assert confirmed or not confirmed_only
        standing[which, confirmed] += 1 if op == "+" else -1
        assert standing[which, confirmed] >= 0, "a - without its +"
    final: Counter[tuple[int, bool]] = Counter()
    for which, op, confirmed in log:
        if confirmed or not confirmed_only:
            final[which, confirmed] += 1 if op == "+" else -1
    assert +standing == +final
    if not settle:
        wanted = [n for n, change in enumerate(log) if change[2] or not confirmed_only]
        assert numbers == wanted
    copies = {item.key: item for item in driven.receiver.items}
    assert all(copies[item.key] == item for item in driven.receiver.items)
    shutil.rmtree(driven.answers.folder)


def test_a_damaged_state_cancels_nothing_that_may_have_been_sent(tmp_path: Path) -> None:
    driven = Driven(tmp_path / "answers", settle_s=5.0)
    driven.answers.write(result((1, "+", True), 0))
    driven.deliver()
    driven.now = 6.0
    driven.deliver()
    driven.save()
    state = tmp_path / "answers" / ".sinks" / "s.state"
    state.write_bytes(b"damaged")
    driven.answers.write(result((1, "-", True), 1))
    driven.start()
    driven.deliver()
    driven.deliver()
    assert [item.result["op"] for item in driven.receiver.items] == ["+", "+", "-"]


def test_settle_that_is_new_cancels_nothing_that_may_have_been_sent(tmp_path: Path) -> None:
    """A kill may come before the position of what was sent is saved."""
    driven = Driven(tmp_path / "answers")
    driven.answers.write(result((0, "+", True), 0))
    driven.deliver()
    driven.save()
    driven.answers.write(result((1, "+", True), 1))
    driven.deliver()
    driven.answers.write(result((1, "-", True), 2))
    driven.settings = {"settle_s": 5.0}
    driven.start()
    driven.deliver()
    driven.answers.write(result((2, "+", True), 3), result((2, "-", True), 4))
    driven.deliver()
    assert [item.number for item in driven.receiver.items] == [0, 1, 1, 2]
