"""Queries that a server answers while events come: as ``slackwater query`` does over its log."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest

from engine.results.store.sole_use import sole_use
from tests.live.conftest import ENV, SLACKWATER, Field, Program, until

COUNTS = "SELECT count(*), sum(v) FROM events GROUP BY type WINDOW TUMBLING 100 ms"
PAIRS = "EVENT SEQ(A a, A b) WHERE b.v = a.v + 1 WITHIN 1 s"
RIVALS = "EVENT SEQ(A a, !A n, A b) WHERE b.v = a.v + 3 AND n.v = a.v + 1 AND n.v > 250 WITHIN 1 s"
QUERIES = {"q1": COUNTS, "q2": PAIRS}


def asked(queries: dict[str, str] = QUERIES, engine: str = "embedded", more: str = "") -> str:
    """Settings of a server that answers; frames are closed soon."""
    tables = "".join(f"[[query]]\nname = '{n}'\ntext = '''{q}'''\n" for n, q in queries.items())
    return (
        '[limits]\nframe_every = "10 ms"\n'
        f'[engine]\nkind = "{engine}"\nsave_every = "100 ms"\n{more}\n{tables}'
    )


def lines_of_query(field: Field, queries: dict[str, str] = QUERIES) -> dict[str, list[bytes]]:
    """What ``slackwater query`` says of the log, by query; they are named q1, q2 ... there."""
    said = subprocess.run(
        [*SLACKWATER, "query", *queries.values(), "--input", "site.log", "--quiet"],
        cwd=field.folder, env=ENV, check=True, capture_output=True,
    ).stdout  # fmt: skip
    found: dict[str, list[bytes]] = {name: [] for name in queries}
    for line in said.splitlines(keepends=True):
        found[json.loads(line)["query"]].append(line)
    return found


def answered(field: Field, name: str, ending: str = "") -> bytes:
    """A query's answers for site ``main``, so far."""
    path = field.folder / "site.log.answers" / name / f"main.jsonl{ending}"
    return path.read_bytes() if path.exists() else b""


def assert_all_answered(field: Field, queries: dict[str, str] = QUERIES) -> None:
    """After a stop in good order: the same bytes as a pass over the log."""
    for name, lines in lines_of_query(field, queries).items():
        assert lines
        assert answered(field, name) + answered(field, name, ".end") == b"".join(lines), name


def test_answers_come_with_the_events_and_are_those_of_a_query(field: Field) -> None:
    field.site(asked(more='formats = ["jsonl", "parquet"]'))
    gateway = field.serve()
    names = [
        field.agent_file(source, field.replay(f"{source}.jsonl", range(8000), pace=1))
        for source in ("door", "gate")
    ]
    agents = [field.start("agent", "--config", name) for name in names]
    early = until(lambda: answered(field, "q2"), "answers")
    assert all(agent.process.poll() is None for agent in agents), "only after the agents had ended"
    assert [agent.end(None) for agent in agents] == [0, 0]
    assert gateway.end() == 0
    assert_all_answered(field)
    assert answered(field, "q2").startswith(early)
    folder = field.folder / "site.log.answers" / "q2"
    tables = [pq.read_table(path) for path in sorted(folder.glob("*.parquet"))]
    told = [json.loads(line) for line in answered(field, "q2").splitlines()]
    rows = [row for table in tables for row in table.to_pylist()]
    assert [row["at"] for row in rows] == [line["at"] for line in told]
    assert [row["events"][0]["attrs"] for row in rows] == [
        line["events"][0]["attrs"] for line in told
    ]


def kill_engine(gateway: Program) -> None:
    """Kills the server's child, in which answers are made."""
    children = Path(f"/proc/{gateway.process.pid}/task/{gateway.process.pid}/children")
    for child in children.read_text().split():
        subprocess.run(["kill", "-9", child], check=False)


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "kills"), [(1, 4), pytest.param(2, 40, marks=pytest.mark.deep)])
def test_kills_lose_and_double_nothing(field: Field, seed: int, kills: int) -> None:
    """Server or engine are killed at random; every reader's view only ever grows."""
    random = Random(seed)
    field.site(asked(more='formats = ["jsonl", "parquet"]\nparquet_every = "300 ms"'))
    gateway = field.serve()
    name = field.agent_file("door", field.replay("d.jsonl", range(kills * 1000), pace=1))
    agent = field.start("agent", "--config", name)
    seen = dict.fromkeys(QUERIES, b"")
    for _ in range(kills):
        time.sleep(random.uniform(0.2, 1.5))
        if random.random() < 0.5:
            kill_engine(gateway)
        else:
            gateway.end(signal.SIGKILL)
            gateway = field.serve()
        for query, before in seen.items():
            now = answered(field, query)
            whole = before[: before.rfind(b"\n") + 1]
            assert now.startswith(whole)
            seen[query] = now
    assert agent.end(None) == 0, agent.text
    assert gateway.end() == 0
    assert_all_answered(field)
    for query in QUERIES:
        files = sorted((field.folder / "site.log.answers" / query).glob("main.rows-*.parquet"))
        ends = [int(path.stem.rpartition("-")[2]) for path in files]
        begins = [int(path.stem.split("-")[-2]) for path in files]
        assert begins == [0, *ends[:-1]]
        assert sum(pq.read_metadata(path).num_rows for path in files) == ends[-1]
        assert ends[-1] == answered(field, query).count(b"\n")


def run_through(field: Field, source: str, values: range) -> None:
    """An agent that sends these values and ends."""
    name = field.agent_file(source, field.replay(f"{source}.jsonl", values, pace=1))
    agent = field.start("agent", "--config", name)
    assert agent.end(None) == 0, agent.text


@pytest.mark.slow
def test_a_query_more_is_answered_from_the_beginning_and_another_is_refused(field: Field) -> None:
    field.site(asked({"q1": COUNTS}))
    gateway = field.serve()
    run_through(field, "door", range(500))
    assert gateway.end() == 0
    first = answered(field, "q1")
    field.site(asked({"q1": COUNTS, "q2": RIVALS}))
    gateway = field.serve()
    run_through(field, "gate", range(500))
    assert gateway.end() == 0
    assert answered(field, "q1").startswith(first)
    assert_all_answered(field, {"q1": COUNTS, "q2": RIVALS})
    field.site(asked({"q1": PAIRS}))
    refused = field.start("serve", "--config", "site.toml")
    assert refused.end(None) == 2
    assert "q1 has answers with another query: give the query another name" in refused.text
    field.site(asked({"q1": COUNTS}, engine="none"))
    gateway = field.serve()
    run_through(field, "porch", range(10))
    assert gateway.end() == 0
    assert answered(field, "q1").startswith(first)


@pytest.mark.slow
def test_a_full_disk_under_answers_keeps_no_event_out(field: Field) -> None:
    field.site(asked())
    path = field.folder / "site.log.answers" / "q2" / "main.jsonl"
    path.parent.mkdir(parents=True)
    path.symlink_to("/dev/full")
    gateway = field.serve()
    run_through(field, "door", range(500))
    gateway.says("wait: No space left on device; tried again each second")
    path.unlink()
    gateway.says("are written again")
    assert gateway.end() == 0
    assert_all_answered(field)


@pytest.mark.slow
def test_a_query_that_events_do_not_fit_stops_answers_and_no_event(field: Field) -> None:
    field.site(asked({"q1": "SELECT sum(w) FROM events WINDOW TUMBLING 1 s"}))
    gateway = field.serve()
    run_through(field, "door", range(50))
    gateway.says("warning: query q1: query line 1, column 12: no event has an attribute 'w'")
    checked = field.start("serve", "--config", "site.toml", "--check")
    assert checked.end(None) == 2
    assert "no event has an attribute 'w'\n" in checked.text
    assert gateway.end() == 0
    field.site(asked({"q2": "EVENT SEQ(A a, A b) WHERE a.v = 'x' WITHIN 1 s"}))
    gateway = field.serve()
    gateway.says("no more answers: query line 1")
    gateway.says("answers have stopped; events are still received")
    run_through(field, "gate", range(50))
    assert gateway.end() == 0
    assert field.values("gate") == list(range(50))


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize(
    "turns",
    ["embedded spark", "embedded spark! spark embedded! spark"],
)
def test_engines_take_turns(field: Field, turns: str) -> None:
    """Each goes on where the files are, whoever wrote them, also after kills of the server (!)."""
    for number, turn in enumerate(turns.split()):
        engine, killed = turn.removesuffix("!"), turn.endswith("!")
        more = 'master = "local[1]"\nformats = ["jsonl", "parquet"]'
        field.site(asked(engine=engine, more=more))
        gateway = field.serve()
        before = answered(field, "q2")
        run_through(field, f"door{number}", range(800))
        until(lambda b=before: len(answered(field, "q2")) > len(b) + 1000, "answers", 120)
        assert answered(field, "q2").startswith(before)
        assert gateway.end(signal.SIGKILL if killed else signal.SIGTERM) == (-9 if killed else 0)
    assert_all_answered(field)


@pytest.mark.slow
def test_a_stop_while_an_earlier_engine_still_runs_says_that_answers_are_missing(
    field: Field,
) -> None:
    """The engine of a server that was killed; the next start then answers the rest."""
    field.site(asked())
    field.serve().end(signal.SIGTERM)
    with sole_use(field.folder / "site.log.answers" / ".state"):
        gateway = field.serve()
        name = field.agent_file("door", field.replay("door.jsonl", range(300), pace=1))
        assert field.start("agent", "--config", name).end(None) == 0
        assert gateway.end() == 0
        assert "not all are written yet; the next start goes on" in gateway.text
        assert "no more answers" not in gateway.text
    gateway = field.serve()
    assert gateway.end() == 0
    assert "not all are written" not in gateway.text
    assert_all_answered(field)
