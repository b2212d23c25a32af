"""Answers on their way to a receiver: all of them, in order, with the same keys after any kill."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from slackwater.engine.log.whole_file import load
from slackwater.engine.output.answer_retention import closed_files
from slackwater.engine.sinks.base import RefusedError, RetryError, SinkItem, identity_of
from slackwater.engine.sinks.forwarding import CHUNK, delivered_by
from tests.sinks.receivers import RESULT, Answers, KeptReceiver, flaky, run_through


@pytest.fixture(name="answers")
def _answers(tmp_path: Path) -> Answers:
    return Answers(tmp_path / "answers")


def values(receiver: KeptReceiver) -> list[int]:
    return [item.result["n"] for item in receiver.items]


def test_all_is_delivered_in_order_and_not_again(answers: Answers) -> None:
    receiver = KeptReceiver()
    answers.write(*({"n": n} for n in range(250)))
    answers.write({"n": 7}, site="ward%203%2Fbed")
    run_through(answers.forwarder(receiver))
    main = [item for item in receiver.items if item.site == "main"]
    assert [item.result["n"] for item in main] == [*range(250)]
    assert [item.number for item in main] == [*range(250)]
    run = main[0].run
    assert len(run) == 8
    assert main[-1].key == f"q1@{run}/main/249"
    assert f"q1@{run}/ward%203%2Fbed/0" in {item.key for item in receiver.items}
    answers.write({"n": 250})
    run_through(answers.forwarder(receiver))
    assert len(receiver.items) == 252
    assert receiver.items[-1].key == f"q1@{run}/main/250"
    assert receiver.closed


@pytest.mark.parametrize("error", [RetryError, RefusedError])
def test_a_receiver_writes_no_line_of_its_own(answers: Answers, error: type[Exception]) -> None:
    class Spiteful(KeptReceiver):
        def deliver(self, items: Sequence[SinkItem]) -> None:
            if not said:
                raise error("no\r\nsink other: delivers again\n")
            super().deliver(items)

    said = list[str]()
    answers.write({"n": 1})
    run_through(answers.forwarder(Spiteful(), tell=said.append))
    assert said
    assert all(line.startswith("sink ") and len(line.splitlines()) == 1 for line in said)
    assert said[0].endswith("no sink other: delivers again")


def test_an_item_has_key_identity_and_the_line_as_it_is() -> None:
    line = b'{"op": "-", "query": "q", "v": 1.10, "name": "\xc3\xa4"}'
    item = SinkItem("q", "0a", "s", 3, "ff", line, json.loads(line))
    assert item.json() == (b'{"key": "q@0a/s/3", "id": "ff", "result": ' + line + b"}")
    assert json.loads(item.json())["result"]["v"] == 1.1


def test_a_retraction_has_the_identity_of_what_it_retracts() -> None:
    insertion = {"op": "+", **RESULT, "value": {"count": 3, "name": "ä"}}
    retraction = {**insertion, "op": "-", "at": 99}
    assert identity_of(insertion) == identity_of(retraction)
    assert identity_of(insertion) == identity_of(dict(reversed(insertion.items())))
    for other in (
        {"value": {"count": 4, "name": "ä"}},
        {"site": "b"},
        {"known_at": 3},
        {"x": None},
    ):
        assert identity_of({**insertion, **other}) != identity_of(insertion)


def test_only_whole_lines_go(answers: Answers) -> None:
    receiver = KeptReceiver()
    answers.write({"n": 0})
    path = answers.folder / "q1" / "main.jsonl"
    whole = path.read_bytes()
    for end in range(len(whole)):
        path.write_bytes(whole + whole[:end])
        run_through(answers.forwarder(receiver))
        assert len(receiver.items) == 1
    path.write_bytes(whole + whole)
    run_through(answers.forwarder(receiver))
    assert [item.number for item in receiver.items] == [0, 1]


def test_lines_of_any_length(answers: Answers) -> None:
    receiver = KeptReceiver()
    sizes = [CHUNK - 1, 3, 3 * CHUNK, CHUNK, 0, 2 * CHUNK + 7]
    answers.write(*({"n": n, "text": "x" * size} for n, size in enumerate(sizes)))
    run_through(answers.forwarder(receiver, batch=2))
    assert values(receiver) == [*range(6)]


def test_queries_are_those_of_the_settings(answers: Answers) -> None:
    for name in ("q1", "q2", "other"):
        answers.write({"n": 1}, query=name)
    receiver = KeptReceiver()
    run_through(answers.forwarder(receiver, ("q1", "q2", "q3")))
    assert {item.query for item in receiver.items} == {"q1", "q2"}
    receiver = KeptReceiver()
    (answers.folder / ".sinks" / "s.state").unlink()
    run_through(answers.forwarder(receiver, ("q1", "q2"), queries=("q2",)))
    assert {item.query for item in receiver.items} == {"q2"}


@pytest.mark.parametrize("seed", range(3))
def test_what_fails_for_now_comes_again_in_order(answers: Answers, seed: int) -> None:
    said: list[str] = []
    receiver = KeptReceiver(answer=flaky(seed))
    for site in ("a", "b"):
        answers.write(*({"n": n} for n in range(30)), site=site)
    forwarder = answers.forwarder(receiver, tell=said.append, batch=3)
    run_through(forwarder)
    for site in ("a", "b"):
        assert [item.number for item in receiver.items if item.site == site] == [*range(30)]
    assert forwarder.figures.delivered == 60
    assert forwarder.figures.retries > 0
    assert said[0] == "sink s: waits, and tries again: not now"
    assert said[1] == "sink s: delivers again"


def test_what_is_refused_is_kept_with_its_reason_and_alone(answers: Answers) -> None:
    def answer(items: Sequence[SinkItem]) -> None:
        if any(item.result["n"] in (3, 17, 18) for item in items):
            raise RefusedError("no such n")

    said: list[str] = []
    receiver = KeptReceiver(answer=answer)
    answers.write(*({"n": n} for n in range(40)))
    forwarder = answers.forwarder(receiver, tell=said.append, batch=25)
    run_through(forwarder)
    assert values(receiver) == [n for n in range(40) if n not in (3, 17, 18)]
    dead = (answers.folder / ".sinks" / "s.dead.jsonl").read_text().splitlines()
    found = [json.loads(line) for line in dead]
    assert [each["result"]["n"] for each in found] == [3, 17, 18]
    assert {each["reason"] for each in found} == {"no such n"}
    assert found[0]["key"].endswith("/main/3")
    assert (forwarder.figures.dead, forwarder.figures.delivered) == (3, 37)
    assert len(said) == 2, said
    assert said[0].startswith("sink s: 1 results refused, kept in")


def test_answers_to_something_else_under_a_name_have_other_keys(answers: Answers) -> None:
    receiver = KeptReceiver()
    said: list[str] = []
    answers.write({"n": 0}, {"n": 1})
    run_through(answers.forwarder(receiver))
    (answers.folder / "q1" / "main.jsonl").unlink()
    answers.query("q1", "another")
    answers.write({"n": 2})
    run_through(answers.forwarder(receiver, tell=said.append))
    assert values(receiver) == [0, 1, 2]
    assert len({item.key for item in receiver.items}) == 3
    assert "has answers to something else now" in said[0]


def test_answers_that_are_made_again_are_not_sent_again(answers: Answers) -> None:
    receiver = KeptReceiver()
    answers.write(*({"n": n} for n in range(5)))
    forwarder = answers.forwarder(receiver)
    run_through(forwarder)
    path = answers.folder / "q1" / "main.jsonl"
    whole = path.read_bytes()
    for size in (0, 10, len(whole) // 2):
        path.write_bytes(whole[:size])
        run_through(forwarder)
        run_through(answers.forwarder(receiver))
    path.unlink()
    run_through(forwarder)
    path.write_bytes(whole)
    answers.write({"n": 5})
    run_through(forwarder)
    assert values(receiver) == [*range(6)]


def test_a_position_within_a_line_is_found_again_by_its_number(answers: Answers) -> None:
    """Damage that is repaired with the same lines, of which one had another length meanwhile."""
    receiver, said = KeptReceiver(), list[str]()
    answers.write(*({"n": n} for n in range(5)))
    path = answers.folder / "q1" / "main.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"n": 1', b'"n": 11111'))
    run_through(answers.forwarder(receiver))
    path.write_bytes(path.read_bytes().replace(b'"n": 11111', b'"n": 1'))
    answers.write({"n": 5})
    run_through(answers.forwarder(receiver, tell=said.append))
    assert values(receiver) == [0, 11111, 2, 3, 4, 5]
    assert "was repaired" in said[0]


def test_a_damaged_line_waits_for_its_repair(answers: Answers) -> None:
    receiver, said = KeptReceiver(), list[str]()
    answers.write(*({"n": n} for n in range(5)))
    path = answers.folder / "q1" / "main.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b'"n": 2}', b'"n": 2]'))
    forwarder = answers.forwarder(receiver, tell=said.append)
    run_through(forwarder)
    assert values(receiver) == [0, 1]
    assert len(said) == 1
    assert "line 3 is damaged" in said[0]
    path.write_bytes(whole)
    run_through(forwarder)
    assert values(receiver) == [*range(5)]


def test_a_damaged_state_sends_all_again_with_the_same_keys(answers: Answers) -> None:
    receiver, said = KeptReceiver(), list[str]()
    answers.write({"n": 0}, {"n": 1})
    run_through(answers.forwarder(receiver))
    state = answers.folder / ".sinks" / "s.state"
    state.write_bytes(state.read_bytes()[:-1])
    run_through(answers.forwarder(receiver, tell=said.append))
    keys = [item.key for item in receiver.items]
    assert keys[:2] == keys[2:]
    assert "is damaged: all answers are sent again" in said[0]
    assert load(state) is not None


def test_how_far_behind_it_is_is_known_while_the_receiver_is_away(answers: Answers) -> None:
    """The page said "1,026 B, 0 s" of a sink whose receiver had been away for a minute."""
    stopping, said, now = threading.Event(), list[str](), [0.0]
    seen: list[tuple[int, float, bool]] = []

    def answer(_items: Sequence[SinkItem]) -> None:
        figures = forwarder.figures
        seen.append((figures.behind_bytes, figures.behind_s, figures.is_far_behind))
        if len(seen) == 3:
            stopping.set()
        now[0] += 5.0
        answers.write(*({"n": n} for n in range(40)))
        raise RetryError("away")

    answers.write({"n": 0})
    size = (answers.folder / "q1" / "main.jsonl").stat().st_size
    forwarder = answers.forwarder(
        KeptReceiver(answer=answer), tell=said.append, clock=lambda: now[0], behind_max=1000
    )
    forwarder.run(stopping)
    assert seen[0] == (size, 0.0, False)
    assert seen[1][0] > 40 * size * 0.9
    assert [each[1:] for each in seen[1:]] == [(5.0, True), (10.0, True)]
    assert len([line for line in said if "behind_max" in line]) == 1


def test_how_far_behind_it_is_is_known_and_said_once(answers: Answers) -> None:
    said: list[str] = []
    receiver = KeptReceiver()
    answers.write(*({"n": n} for n in range(100)))
    now = [0.0]
    forwarder = answers.forwarder(
        receiver, tell=said.append, clock=lambda: now[0], batch=10, behind_max=1000
    )
    assert len(forwarder.take()) == 10
    now[0] = 3.5
    forwarder.take()
    size = (answers.folder / "q1" / "main.jsonl").stat().st_size
    figures = forwarder.figures
    assert (figures.behind_bytes, figures.behind_s, figures.is_far_behind) == (size, 3.5, True)
    assert [line for line in said if "behind_max" in line] == said
    assert len(said) == 1
    forwarder = answers.forwarder(receiver, tell=said.append, behind_max=1000)
    run_through(forwarder)
    assert forwarder.figures.behind_bytes == 0
    assert not forwarder.figures.is_far_behind


@pytest.mark.parametrize(
    ("result", "goes"),
    [
        ({"certainty": "confirmed"}, True),
        ({"certainty": "uncertain"}, False),
        ({"certainty": "unknown"}, False),
        ({"certainty": "uncertain", "op": "-"}, False),
        ({"certainty": None, "ambiguous": 0}, False),
    ],
)
def test_confirmed_only_goes_by_certainty(answers: Answers, result: dict, goes: bool) -> None:
    receiver = KeptReceiver()
    answers.write({**result, "n": 1}, {"n": 2})
    run_through(answers.forwarder(receiver, confirmed_only=True))
    assert values(receiver) == ([1, 2] if goes else [2])


def test_confirmed_only_takes_windows_without_ambiguous_events(answers: Answers) -> None:
    receiver = KeptReceiver()
    answers.query("q1")
    with (answers.folder / "q1" / "main.jsonl").open("w") as stream:
        for n, more in enumerate(({"ambiguous": 0}, {"ambiguous": 2}, {})):
            stream.write(json.dumps({"op": "+", "query": "q1", "n": n, **more}) + "\n")
    run_through(answers.forwarder(receiver, confirmed_only=True))
    assert values(receiver) == [0, 2]
    assert [item.number for item in receiver.items] == [0, 2]


@pytest.mark.parametrize("settle_s", [0.0, 0.5])
@pytest.mark.parametrize("seed", range(6))
def test_closed_files_are_read_through_and_numbers_go_on(
    answers: Answers, seed: int, settle_s: float
) -> None:
    """Over restarts and failures of the receiver; files go that all is delivered of."""
    random, count, now = Random(seed), 0, [0.0]
    receiver = KeptReceiver(answer=flaky(seed, 0.3))
    forwarder = None
    for _ in range(60):
        some = random.randint(1, 5)
        answers.write(*({"n": n} for n in range(count, count + some)))
        count += some
        if forwarder is None or random.random() < 0.3:
            forwarder = answers.forwarder(
                receiver, batch=random.randint(1, 9), settle_s=settle_s, clock=lambda: now[0]
            )
        if random.random() < 0.5:
            run_through(forwarder)
        if random.random() < 0.4:
            answers.close()
        now[0] += 0.2
        done = delivered_by(answers.folder, {"s": ("q1",)})("q1", "main.jsonl")
        for closed in closed_files(answers.folder / "q1").get("main.jsonl", [])[:-1]:
            if closed.end <= done and random.random() < 0.5:
                closed.path.unlink()
    forwarder = answers.forwarder(receiver, settle_s=settle_s, clock=lambda: now[0])
    for _ in range(100):  # a batch is of what has settled when it is taken
        run_through(forwarder)
        now[0] += 1
    assert forwarder.figures.behind_bytes == 0
    assert all(item.result["n"] == item.number for item in receiver.items)
    assert list(dict.fromkeys(item.number for item in receiver.items)) == [*range(count)]


def test_what_was_removed_before_it_was_sent_is_said_and_numbers_go_on(answers: Answers) -> None:
    receiver, said = KeptReceiver(), list[str]()
    for n in range(0, 12, 3):
        answers.write(*({"n": n + more} for more in range(3)))
        answers.close()
    for path in sorted(answers.folder.glob("q1/*-*"))[:2]:
        path.unlink()
    answers.write({"n": 12})
    run_through(answers.forwarder(receiver, tell=said.append))
    assert values(receiver) == [item.number for item in receiver.items] == [*range(6, 13)]
    assert len(said) == 1
    assert "its answers 0 to 5 were removed, as [answers] says, before they were sent" in said[0]
    path = answers.close()
    path.write_bytes(b"")
    answers.write({"n": 13})
    run_through(answers.forwarder(receiver, tell=said.append))
    assert values(receiver)[7:] == [13]
    assert len(said) == 1


def test_a_repair_behind_closed_files_is_found_by_number(answers: Answers) -> None:
    receiver, said = KeptReceiver(), list[str]()
    answers.write({"n": 0}, {"n": 1})
    answers.close()
    answers.write({"n": 2}, {"n": 3})
    path = answers.folder / "q1" / "main.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"n": 2', b'"n": 22222'))
    run_through(answers.forwarder(receiver))
    path.write_bytes(path.read_bytes().replace(b'"n": 22222', b'"n": 2'))
    answers.write({"n": 4})
    run_through(answers.forwarder(receiver, tell=said.append))
    assert values(receiver) == [0, 1, 22222, 3, 4]
    assert "was repaired" in said[0]


def test_how_far_sinks_are_is_that_of_the_slowest_and_of_these_answers(answers: Answers) -> None:
    answers.write({"n": 0}, {"n": 1})
    size = (answers.folder / "q1" / "main.jsonl").stat().st_size
    sinks = {"s": ("q1",)}
    assert delivered_by(answers.folder, sinks)("q1", "main.jsonl") == 0
    run_through(answers.forwarder(KeptReceiver()))
    assert delivered_by(answers.folder, sinks)("q1", "main.jsonl") == size
    assert delivered_by(answers.folder, sinks | {"t": ("q1",)})("q1", "main.jsonl") == 0
    assert delivered_by(answers.folder, sinks)("q2", "main.jsonl") == float("inf")
    answers.query("q1", "another")
    assert delivered_by(answers.folder, sinks)("q1", "main.jsonl") == 0


def test_a_new_sink_begins_where_it_is_to(answers: Answers) -> None:
    """Now is when it first runs: a restart goes on, and files that come later are sent whole."""
    answers.write({"n": 0}, {"n": 1})
    answers.close()
    answers.write({"n": 2})
    path = answers.folder / "q1" / "main.jsonl"
    line = path.read_bytes()
    path.write_bytes(line + line[:7])  # a line that is being written
    receiver = KeptReceiver()
    run_through(answers.forwarder(receiver, begins_now=True))
    assert receiver.items == []
    path.write_bytes(line + line.replace(b'"n": 2', b'"n": 3'))
    answers.write({"n": 4}, site="new")
    answers.write({"n": 5}, query="q2")
    for _ in range(2):
        run_through(answers.forwarder(receiver, ("q1", "q2"), begins_now=True))
    found = {(item.query, item.site, item.number, item.result["n"]) for item in receiver.items}
    assert found == {("q1", "main", 3, 3), ("q1", "new", 0, 4), ("q2", "main", 0, 5)}
    assert len(receiver.items) == 3


def test_a_new_sink_that_begins_now_without_answers_gets_the_first(answers: Answers) -> None:
    """Also if it is stopped before they come."""
    receiver = KeptReceiver()
    run_through(answers.forwarder(receiver, begins_now=True))
    answers.write({"n": 0})
    run_through(answers.forwarder(receiver, begins_now=True))
    assert values(receiver) == [0]


def test_a_sink_that_was_there_goes_on_whatever_begin_says(answers: Answers) -> None:
    receiver = KeptReceiver()
    answers.write({"n": 0})
    run_through(answers.forwarder(receiver))
    answers.write({"n": 1})
    run_through(answers.forwarder(receiver, begins_now=True))
    assert values(receiver) == [0, 1]
    state = answers.folder / ".sinks" / "s.state"
    state.write_bytes(state.read_bytes()[:-1])
    run_through(answers.forwarder(receiver, begins_now=True))
    assert values(receiver) == [0, 1, 0, 1]
