"""SIGHUP: queries come and go while the gateway and the other queries go on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from slackwater.engine.core.frame import Frame
from slackwater.engine.gateway.recall import Recalled
from slackwater.engine.hosts.live.program import Task
from slackwater.engine.hosts.live.questions import Questions, query_groups
from slackwater.engine.log.arrival_log import LogReader, LogWriter
from slackwater.engine.log.log_folder import numbered_files
from slackwater.engine.log.retention import retire
from slackwater.engine.sinks.base import SinkItem
from tests.live.conftest import ENV, Field, Program, until
from tests.live.test_answers import COUNTS, PAIRS, answered, asked, assert_all_answered
from tests.sinks.receivers import Answers, KeptReceiver, run_through

CHECKS = "EVENT SEQ(A a, A b) WHERE b.v = a.v + 7 WITHIN 1 s"


class Served:
    """A gateway whose queries change."""

    def __init__(self, field: Field, queries: dict[str, str], more: str = "") -> None:
        self.field = field
        self._more = more
        self._settings(queries)
        self.program: Program = field.serve()

    def _settings(self, queries: dict[str, str], after: str = "") -> None:
        head = '[limits]\nframe_every = "10 ms"\n'
        text = asked(queries).replace(head, head + self._more) if queries else head + self._more
        self.field.site(text + after)

    def reload(
        self, queries: dict[str, str], says: str = "settings are reloaded: ", after: str = ""
    ) -> str:
        said = len(self.program.said)
        self._settings(queries, after)
        self.program.process.send_signal(signal.SIGHUP)

        def line() -> str | None:
            return next((each for each in self.program.said[said:] if says in each), None)

        return str(until(line, f"{says!r} of\n{self.program.text}"))


def test_a_query_that_is_added_answers_the_whole_log_and_one_that_is_removed_nothing_more(
    field: Field,
) -> None:
    served = Served(field, {"q2": COUNTS})
    field.run_through("door", range(200))
    until(lambda: answered(field, "q2"), "answers")
    assert "2 queries; new: q1" in served.reload({"q2": COUNTS, "q1": PAIRS})
    field.run_through("gate", range(200))
    until(lambda: answered(field, "q1"), "answers of the new query")
    assert "gone: q2" in served.reload({"q1": PAIRS})
    at_removal = answered(field, "q2")
    field.run_through("porch", range(200))
    assert served.program.end() == 0
    assert at_removal
    assert answered(field, "q2") == at_removal
    assert_all_answered(field, {"q1": PAIRS})


@pytest.mark.slow
def test_a_query_removed_beside_another_and_added_again_has_all_its_answers(field: Field) -> None:
    both = {"q1": COUNTS, "q2": PAIRS}
    served = Served(field, both)
    field.run_through("door", range(200))
    until(lambda: answered(field, "q1") and answered(field, "q2"), "answers")
    served.reload({"q1": COUNTS})
    at_removal = answered(field, "q2")
    field.run_through("gate", range(200))
    served.reload(both)
    field.run_through("porch", range(200))
    assert served.program.end() == 0
    assert answered(field, "q2").startswith(at_removal)
    assert_all_answered(field, both)
    served = Served(field, both)  # the same groups go on after a start
    field.run_through("yard", range(100))
    assert served.program.end() == 0
    assert "from scratch" not in served.program.text
    assert_all_answered(field, both)


@pytest.mark.slow
def test_one_that_begins_now_answers_nothing_of_before(field: Field) -> None:
    served = Served(field, {"q1": COUNTS})
    field.run_through("door", range(200))
    until(lambda: answered(field, "q1"), "answers")
    new = f"[[query]]\nname = 'q2'\ntext = '''{PAIRS}'''\nbegin = 'now'\n"
    assert "new: q2" in served.reload({"q1": COUNTS}, after=new)
    field.run_through("gate", range(200))
    assert served.program.end() == 0
    lines = (answered(field, "q2") + answered(field, "q2", ".end")).splitlines()
    sources = {event["source"] for line in lines for event in json.loads(line)["events"]}
    assert sources == {"gate"}
    assert_all_answered(field, {"q1": COUNTS})


@pytest.mark.slow
def test_one_that_comes_before_the_gateway_listens_waits_and_ends_nothing(field: Field) -> None:
    field.site(asked({"q1": COUNTS}))

    def early() -> None:  # the program has begun and is far from listening
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
        os.kill(os.getpid(), signal.SIGHUP)

    program = field.serve(early)
    until(lambda: "settings are reloaded: no query" in program.text, "the settings")
    field.run_through("door", range(200))
    assert program.end() == 0
    assert_all_answered(field, {"q1": COUNTS})


def test_serve_keeps_it_from_its_settings_on(field: Field) -> None:
    field.site()
    late = field.folder / "late.toml"
    os.mkfifo(late)  # the gateway reads its settings, and waits for them
    program = field.start("serve", "--config", "late.toml")
    with late.open("w") as settings:
        program.process.send_signal(signal.SIGHUP)
        settings.write((field.folder / "site.toml").read_text())
        (field.folder / "site.toml").replace(late)
    program.says("listening")
    until(lambda: "settings are reloaded: no query" in program.text, "the settings")
    assert program.end() == 0


@pytest.mark.slow
def test_a_mistake_changes_nothing(field: Field) -> None:
    served = Served(field, {"q1": COUNTS})
    line = served.reload({"q1": "SELECT"}, "not reloaded")
    assert "site.toml" in line
    assert "no query and no sink" in served.reload({"q1": COUNTS})
    field.run_through("door", range(200))
    assert served.program.end() == 0
    assert_all_answered(field, {"q1": COUNTS})


@pytest.mark.slow
def test_other_text_under_a_name_with_answers_is_refused(field: Field) -> None:
    served = Served(field, {"q1": COUNTS})
    field.run_through("door", range(200))
    until(lambda: answered(field, "q1"), "answers")
    line = served.reload({"q1": PAIRS}, "not reloaded")
    assert "answers with another query: give the query another name" in line
    assert served.program.end() == 0
    assert_all_answered(field, {"q1": COUNTS})


@pytest.mark.slow
def test_the_first_query_comes_and_the_last_one_goes(field: Field) -> None:
    served = Served(field, {})
    field.run_through("door", range(200))
    assert "1 queries; new: q1" in served.reload({"q1": COUNTS})
    until(lambda: answered(field, "q1"), "answers")
    assert "gone: q1" in served.reload({})
    field.run_through("gate", range(20))
    assert served.program.end() == 0


@pytest.mark.slow
def test_the_gateways_own_settings_wait_for_the_next_start(field: Field) -> None:
    served = Served(field, {"q1": COUNTS})
    after = "[tokens]\n'main/door' = 'x'\n"
    assert "count now" in served.reload({"q1": COUNTS}, "of the settings", after=after)
    field.run_through("door", range(20))
    assert served.program.end() == 0


def questions(**queries: str) -> Questions:
    return Questions(queries=tuple(queries.items()), order="none")


def test_groups(tmp_path: Path) -> None:
    def groups(done: int, *now: str, **queries: str) -> list[tuple[object, ...]]:
        found = query_groups(tmp_path, "embedded", questions(**queries), now, done)
        return [(g.state, g.begin, [n for n, _ in g.queries], list(g.silent)) for g in found]

    assert groups(0, "a", a=COUNTS) == [("embedded", 0, ["a"], [])]
    two = [("embedded", 0, ["a"], []), ("embedded-2", 0, ["b"], [])]
    assert groups(5, a=COUNTS, b=PAIRS) == two
    three = [*two, ("embedded-3", 7, ["c"], [])]
    assert groups(7, "c", a=COUNTS, b=PAIRS, c=CHECKS) == three
    (tmp_path / "embedded-2").write_text("state")
    assert groups(8, a=COUNTS, c=CHECKS) == [two[0], three[2]]
    assert not (tmp_path / "embedded-2").exists()
    again = [two[0], three[2], ("embedded-2", 0, ["b", "d"], [])]
    assert groups(9, a=COUNTS, c=CHECKS, b=PAIRS, d=PAIRS) == again
    again[2] = ("embedded-2", 0, ["b", "d"], ["b"])
    assert groups(9, a=COUNTS, c=CHECKS, d=PAIRS) == again
    assert groups(9, a=PAIRS, c=CHECKS, d=PAIRS)[-1] == ("embedded", 0, ["a"], [])


def test_one_that_refers_to_a_query_of_before_has_that_without_output(tmp_path: Path) -> None:
    pairs = f"CREATE STREAM pairs AS {PAIRS}"
    count = "SELECT count(*) FROM pairs WINDOW TUMBLING 1 s"
    query_groups(tmp_path, "embedded", questions(a=pairs), (), 3)
    second = query_groups(tmp_path, "embedded", questions(a=pairs, b=count), (), 4)[1]
    assert (second.silent, dict(second.answered)) == (("a",), {"b": count})
    assert second.silent_statements == {"pairs"}


def made_log(folder: Path) -> Path:
    """Six files, of 20 events 10 ms apart each."""
    log = folder / "site.log"
    with LogWriter(log) as writer:
        for file in range(6):
            at = np.arange(20 * file, 20 * file + 20) * 10**7
            source, seq = pa.array(["door"] * 20).dictionary_encode(), pa.array(at // 10**7)
            columns = {"source": source, "seq": seq, "ts": at, "arrival": at, "attrs.v": seq}
            kind = pa.array(["A"] * 20).dictionary_encode()
            writer.append(Frame("main", pa.RecordBatch.from_pydict(columns | {"type": kind})))
            writer.flush()
    return log


def one_life(log: Path, *from_now: str, durable: int = 6, **queries: str) -> str:
    """The engine's process over the log as it is; gives what it says."""
    task = Task(
        kind="embedded", log=str(log), answers=f"{log}.answers", questions=questions(**queries),
        save_every_s=10, parquet_every_s=0, master="", from_now=from_now, durable=durable,
    )  # fmt: skip
    engine = subprocess.run(
        [sys.executable, "-m", "slackwater.engine.hosts.live.program"], env=ENV,
        input=task.as_line() + b"6\n", capture_output=True, check=True, timeout=120,
    )  # fmt: skip
    return engine.stdout.decode(errors="replace")


def firsts(log: Path, name: str) -> list[int]:
    """``v`` of the first event of each match."""
    path = Path(f"{log}.answers") / name / "main.jsonl"
    return [json.loads(line)["events"][0]["attrs"]["v"] for line in path.read_text().splitlines()]


@pytest.mark.slow
def test_where_the_first_files_are_gone_the_others_go_on_and_a_new_one_begins_behind_them(
    tmp_path: Path,
) -> None:
    log = made_log(tmp_path)
    one_life(log, a=PAIRS)
    before = firsts(log, "a")
    assert before == list(range(len(before)))
    retire(log, numbered_files(log)[:3], Recalled(LogReader(log)).saved(), None)
    said = one_life(log, a=PAIRS, b=PAIRS)
    assert "from scratch" not in said
    assert firsts(log, "a") == before
    assert firsts(log, "b") == [v for v in before if v >= 60]
    said = one_life(log, "c", a=PAIRS, b=PAIRS, c=PAIRS, durable=5)
    assert "from scratch" not in said
    assert firsts(log, "c") == [v for v in before if v >= 100]
    one_life(log, "c", b=PAIRS, c=PAIRS)
    assert [firsts(log, name) for name in "abc"] == [
        before, [v for v in before if v >= 60], [v for v in before if v >= 100]
    ]  # fmt: skip


@pytest.mark.slow
def test_attack_58_answers_that_begin_elsewhere_have_other_keys_and_are_all_sent(
    tmp_path: Path,
) -> None:
    """The folder is moved away as the messages say; receivers drop a key that they have."""
    log, receiver = made_log(tmp_path), KeptReceiver()
    answers = Path(f"{log}.answers")

    def sent() -> list[SinkItem]:
        receiver.items.clear()
        run_through(Answers(answers).forwarder(receiver, ("a",)))
        return list(receiver.items)

    one_life(log, a=PAIRS)
    first = sent()
    (answers / "a").rename(tmp_path / "gone")
    one_life(log, a=PAIRS)
    assert sent() == []  # they are the same, with the same keys
    known = {item.key: item.line for item in first}
    for number in (2, 4):
        retire(log, numbered_files(log)[:2], Recalled(LogReader(log)).saved(), None)
        (answers / "a").rename(tmp_path / f"gone {number}")
        one_life(log, a=PAIRS)
        again = sent()
        assert len(again) == len(firsts(log, "a")) > 0
        assert not known.keys() & {item.key for item in again}
        known |= {item.key: item.line for item in again}
