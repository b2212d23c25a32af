"""Queries that a server answers while events come: as ``slackwater query`` does over its log."""

from __future__ import annotations

import json
import signal
import subprocess
import urllib.error
import urllib.request

import pyarrow.parquet as pq
import pytest

from slackwater.engine.output.ordered_stream import SIDE_OUTPUT
from slackwater.engine.output.part_store import sole_use
from tests.live.conftest import ENV, SLACKWATER, Field, free_port, until

COUNTS = "SELECT count(*), sum(v) FROM events GROUP BY type WINDOW TUMBLING 100 ms"
PAIRS = "EVENT SEQ(A a, A b) WHERE b.v = a.v + 1 WITHIN 1 s"
RIVALS = "EVENT SEQ(A a, !A n, A b) WHERE b.v = a.v + 3 AND n.v = a.v + 1 AND n.v > 250 WITHIN 1 s"
FLAPS = f"{PAIRS} CHECK flaps (past_count(1 d) < 50)"
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
    """The way from agents over the gateway and its log to the engine's answers."""
    tokens = '[tokens]\n"main/door" = "one"\n"main/gate" = "two"\n'
    field.site(tokens + asked(more='formats = ["jsonl", "parquet"]'))
    gateway = field.serve()
    door = field.replay("door.jsonl", range(500), pace=1)
    first = field.agent(field.agent_file("door", door, token="one"))
    second = field.fed(field.agent_file("gate", '[[input]]\nkind = "stdin"', token="two"))
    second.feed(*(json.dumps({"type": "A", "v": v}) for v in range(200)))
    early = until(lambda: answered(field, "q2"), "answers")
    assert second.process.poll() is None, "only after the agents had ended"
    second.finish()
    assert first.end(None) == 0, first.text
    assert "done: 500 events acked" in first.text
    assert gateway.end() == 0
    assert (field.values("door"), field.values("gate")) == (list(range(500)), list(range(200)))
    assert_all_answered(field)
    for path in field.folder.glob("site.log*/**/*"):
        assert path.stat().st_mode & 0o027 == 0, path
    assert (field.folder / "site.log.refused.jsonl").stat().st_mode & 0o777 == 0o640
    assert answered(field, "q2").startswith(early)
    folder = field.folder / "site.log.answers" / "q2"
    rows = [
        row for path in sorted(folder.glob("*.parquet")) for row in pq.read_table(path).to_pylist()
    ]
    reported = [json.loads(line) for line in answered(field, "q2").splitlines()]
    assert [(row["at"], row["events"][0]["attrs"]) for row in rows] == [
        (line["at"], line["events"][0]["attrs"]) for line in reported
    ]


@pytest.mark.slow
def test_a_query_more_is_answered_from_the_beginning_and_another_is_refused(field: Field) -> None:
    field.site(asked({"q1": COUNTS}))
    gateway = field.serve()
    field.run_through("door", range(500))
    assert gateway.end() == 0
    first = answered(field, "q1")
    field.site(asked({"q1": COUNTS, "q2": RIVALS}))
    gateway = field.serve()
    field.run_through("gate", range(500))
    assert gateway.end() == 0
    assert answered(field, "q1").startswith(first)
    assert_all_answered(field, {"q1": COUNTS, "q2": RIVALS})
    field.site(asked({"q1": PAIRS}))
    refused = field.start("serve", "--config", "site.toml")
    assert refused.end(None) == 2
    assert "q1 has answers with another query: give the query another name" in refused.text
    field.site(asked({"q1": COUNTS}, engine="none"))
    gateway = field.serve()
    field.run_through("porch", range(10))
    assert gateway.end() == 0
    assert answered(field, "q1").startswith(first)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["embedded", pytest.param("spark", marks=pytest.mark.spark)])
def test_what_was_appended_to_answers_is_cut_at_a_start_without_events(
    field: Field, engine: str
) -> None:
    field.site(asked({"q1": COUNTS}, engine, 'master = "local[1]"'))
    gateway = field.serve()
    field.run_through("door", range(200))
    until(lambda: answered(field, "q1"), "answers", 120)
    assert gateway.end() == 0, gateway.text
    before = answered(field, "q1")
    with (field.folder / "site.log.answers" / "q1" / "main.jsonl").open("ab") as file:
        file.write(b"nonsense\n")
    gateway = field.serve()
    gateway.says(
        f"main.jsonl: had more than the log gives: from byte {len(before)} on; what was there is "
        "in main.jsonl.cut"
    )
    assert gateway.end() == 0, gateway.text
    assert answered(field, "q1") == before
    assert answered(field, "q1", ".cut") == b"nonsense\n"


@pytest.mark.slow
def test_a_full_disk_under_answers_keeps_no_event_out(field: Field) -> None:
    """Nor is the gateway ready meanwhile, though it receives."""
    port = free_port()
    field.site(asked(more=f"[page]\nport = {port}\n"))

    def ready() -> int:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=10) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    path = field.folder / "site.log.answers" / "q2" / "main.jsonl"
    path.parent.mkdir(parents=True)
    path.symlink_to("/dev/full")
    gateway = field.serve()
    field.run_through("door", range(500))
    gateway.says("wait: No space left on device; tried again each second")
    until(lambda: ready() == 503, "503")
    path.unlink()
    gateway.says("are written again")
    until(lambda: ready() == 200, "200")
    assert gateway.end() == 0
    assert_all_answered(field)


@pytest.mark.slow
def test_an_attribute_that_no_event_has_had_is_reported(field: Field) -> None:
    field.site(asked({"q1": "SELECT sum(w) FROM events WINDOW TUMBLING 1 s"}))
    gateway = field.serve()
    field.run_through("door", range(50))
    gateway.says("warning: query q1: query line 1, column 12: no event has an attribute 'w'")
    checked = field.start("serve", "--config", "site.toml", "--check")
    assert checked.end(None) == 2
    assert "no event has an attribute 'w'\n" in checked.text
    assert gateway.end() == 0


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["embedded", pytest.param("spark", marks=pytest.mark.spark)])
def test_attack_03_a_query_that_events_do_not_fit_stops_no_other(field: Field, engine: str) -> None:
    text = "EVENT SEQ(A a, A b) WHERE a.v = 'x' WITHIN 1 s"
    field.site(asked({"q2": text, "q3": COUNTS}, engine, 'master = "local[1]"'))
    gateway = field.serve()
    field.run_through("door", range(50))
    gateway.says("query q2 has failed at site 'main' and is set aside there: query line 1")
    field.run_through("gate", range(50))
    assert gateway.end() == 0
    assert field.values("gate") == list(range(50))
    assert len(answered(field, "q3").splitlines()) > 0
    assert (field.folder / "site.log.answers" / "q2" / "main.failed.json").exists()


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize(
    "turns",
    [
        "spark! embedded",
        pytest.param("embedded spark! spark embedded! spark", marks=pytest.mark.deep),
    ],
)
def test_engines_take_turns(field: Field, turns: str) -> None:
    """Each goes on where the files are, whose they are, also after kills of the server (!)."""
    for number, turn in enumerate(turns.split()):
        engine, killed = turn.removesuffix("!"), turn.endswith("!")
        more = 'master = "local[1]"\nformats = ["jsonl", "parquet"]'
        field.site(asked(engine=engine, more=more))
        gateway = field.serve()
        before = answered(field, "q2")
        field.run_through(f"door{number}", range(800))
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
        field.run_through("door", range(300))
        assert gateway.end() == 0
        assert "not all are written yet; the next start goes on" in gateway.text
    gateway = field.serve()
    assert gateway.end() == 0
    assert "not all are written" not in gateway.text
    assert_all_answered(field)


@pytest.mark.slow
@pytest.mark.parametrize(
    "engine", ["embedded", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.deep])]
)
def test_a_server_with_spill_and_late_events_answers_as_a_query(field: Field, engine: str) -> None:
    more = (
        'spill = "state,hot=500ms,chunk=500ms,parts=1,pending=50,wait=1s"\nlate = true\n'
        'order = "none"\nguard = "1 h"\nmaster = "local[1]"'
    )
    field.site(asked({"q1": PAIRS}, engine, more))
    for source in ("door", "gate"):
        gateway = field.serve()
        field.run_through(source, range(600))
        assert gateway.end() == 0, gateway.text
    while "not all are written yet" in gateway.text:
        gateway = field.serve()
        before = answered(field, "q1")
        until(lambda b=before: answered(field, "q1") != b, "more answers", 240)
        assert gateway.end() == 0, gateway.text
    said = subprocess.run(
        [
            *SLACKWATER, "query", PAIRS, "--input", "site.log", "--quiet", "--order", "none",
            "--late", "late.jsonl", "--guard", "1h", "--spill",
            "chunks,hot=500ms,chunk=500ms,parts=1,pending=50,wait=1s", "--in-process",
        ],
        cwd=field.folder, env=ENV, check=True, capture_output=True,
    ).stdout  # fmt: skip

    assert said
    assert answered(field, "q1") + answered(field, "q1", ".end") == said
    aside = b"".join(answered(field, kind) for kind in SIDE_OUTPUT.folders)
    assert aside == (field.folder / "late.jsonl").read_bytes()


@pytest.mark.slow
def test_a_server_keeps_what_checks_know_through_a_kill(field: Field) -> None:
    field.site(asked({"q1": FLAPS}))
    gateway = field.serve()
    field.run_through("door", range(40))
    until(lambda: answered(field, "q1"), "answers")
    gateway.end(signal.SIGKILL)
    gateway = field.serve()
    field.run_through("gate", range(40))
    assert gateway.end() == 0, gateway.text
    said = subprocess.run(
        [*SLACKWATER, "query", FLAPS, "--input", "site.log", "--quiet"],
        cwd=field.folder, env=ENV, check=True, capture_output=True,
    ).stdout  # fmt: skip
    assert answered(field, "q1") + answered(field, "q1", ".end") == said
    doubtful = ["doubtful" in json.loads(line) for line in said.splitlines()]
    assert not any(doubtful[:50])
    assert all(doubtful[50:])
    assert len(doubtful) > 60
