"""Options of a live engine beside the query: spilled events, late ones; what cannot be."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from random import Random

import pytest

from slackwater.engine.core.errors import UserError
from slackwater.engine.hosts.chain import ChainSettings
from slackwater.engine.hosts.live.program import Task
from slackwater.engine.hosts.live.questions import Questions, check_claim, claim
from slackwater.engine.log.arrival_log import LogWriter
from slackwater.engine.log.input.trace import TraceRead
from slackwater.engine.order.base import Guards
from slackwater.engine.order.registry import parse_order
from slackwater.engine.query.analysis.cascade import read_statements
from slackwater.engine.server.site_file import read_site
from tests.live.engine_life import KilledError, Life, grown, passed
from tests.live.test_answers import PAIRS
from tests.spark.test_growing_log import SETTINGS, SPILLED, Growing, trace

LATE = dataclasses.replace(SETTINGS, ordered="no")


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))]
)
@pytest.mark.parametrize("settings", [LATE, SPILLED], ids=["late", "spill"])
def test_kills_change_nothing_of_what_is_spilled_or_late(
    settings: ChainSettings, seed: int, tmp_path: Path
) -> None:
    random = Random(seed)
    growing = Growing(trace(random.randrange, 150), tmp_path, 7)
    while growing.left:
        life = Life(tmp_path, settings, random.choice([3, 10, float("inf")]))
        try:
            life.follow(growing, random, saves=0.5)
            if random.random() < 0.5:
                life.engine.close()  # and goes on afterwards
        except KilledError:
            pass
        assert not any("again" in line for line in life.said)
    life = Life(tmp_path, settings)
    life.end_at(growing.there)
    whole = passed(tmp_path, settings)
    assert life.written() == whole
    wanted = "late" if settings is LATE else "p"
    assert len(whole[wanted, "n"]) > 100
    chunks = list((tmp_path / "answers").rglob("*.arrow"))
    assert bool(chunks) is (settings is SPILLED)


def test_chunks_that_are_gone_are_reported_and_all_is_made_again(tmp_path: Path) -> None:
    files = grown(tmp_path)
    life = Life(tmp_path, SPILLED)
    life.end_at(files)
    before = life.written()
    min((tmp_path / "answers").rglob("*.arrow")).unlink()
    again = Life(tmp_path, SPILLED)
    assert "chunks of spilled events are gone: answers are to be made again" in again.said[0]
    again.end_at(files)
    assert again.written() == before
    assert not any("repaired" in line for line in again.said)
    assert Life(tmp_path, SPILLED).said == []


@pytest.mark.parametrize(
    ("options", "query", "reported"),
    [
        ('spill = "chunks,hot=1 min"', PAIRS, 'so name no folder: write "state", as in'),
        ('spill = "hot=1 min"', PAIRS, "a server keeps chunks with its engine's state"),
        ('spill = "state,cold=1"', PAIRS, "spill setting 'cold=1' is unknown"),
        ('spill = "state"\npurge = "promises"', PAIRS, "purge late"),
        ('spill = "state"', "SELECT count(*) FROM events WINDOW TUMBLING 1 s", "is for patterns"),
        ('spill = "state"', "EVENT SEQ(A a, B+ b[]) WITHIN 1 s LIMIT 2", "SKIP and LIMIT"),
        ('intervals = "fast"', PAIRS, "fast"),
        ('joins = "middle"', PAIRS, "middle"),
        ('late = "late.jsonl"', PAIRS, "late"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, options: str, query: str, reported: str) -> None:
    text = f"[gateway]\nlog = 'l'\n[engine]\n{options}\n[[query]]\ntext = '''{query}'''\n"
    (tmp_path / "site.toml").write_text(text)
    with pytest.raises(UserError) as refused:
        read_site(tmp_path / "site.toml")
    assert reported in str(refused.value)
    assert "site.toml" in str(refused.value)


def test_late_events_have_names_that_no_query_may_have() -> None:
    asked_ = Questions(queries=(("late", PAIRS),), late=True)
    with pytest.raises(UserError, match="query late: with late = true that is the folder"):
        asked_.chain_settings()
    dataclasses.replace(asked_, late=False).chain_settings()
    assert dataclasses.replace(asked_, late=False).of_each().keys() == {"late"}
    other = Questions(queries=(("q", PAIRS),), late=True, joins="left", intervals="naive")
    assert other.folders == ("q", "late", "quarantined")
    assert other.of_each().keys() == set(other.folders)
    assert other.of_each()["q"] == Questions(queries=(("q", PAIRS),)).of_each()["q"]


@pytest.mark.parametrize("second", ["SELECT count(*) FROM m", "SELECT sum(x) AS t FROM m"])
def test_statements_over_results_wait_for_attributes_that_nothing_has_had(
    second: str, tmp_path: Path
) -> None:
    """The engine died where it began with a log whose events had not had them yet."""
    text = f"CREATE STREAM m AS EVENT SEQ(A a, B b) WITHIN 9 RETURN a.v AS x; {second}"
    plans, _ = read_statements([f"{text} WINDOW TUMBLING 5"])
    chosen = ChainSettings(parse_order("none"), plans, guards=Guards(None))
    lines = [{"site": "n", "type": "AB"[n % 2], "ts": n, "arrival": n} for n in range(12)]
    more = [line | {"ts": 12 + n, "arrival": 12 + n, "v": n} for n, line in enumerate(lines)]
    with LogWriter(tmp_path / "log", 12) as writer:
        for name, some in {"first": lines, "then": more}.items():
            (tmp_path / name).write_text("".join(json.dumps(line) + "\n" for line in some))
            for frame in TraceRead(tmp_path / name):
                writer.append(frame)
    life = Life(tmp_path, chosen)
    life.engine.upto(1)
    assert sum("no event has an attribute 'v'" in line for line in life.said) == len(plans)
    life.end_at(2)
    assert life.written() == passed(tmp_path, chosen)
    assert life.written()[plans[-1].name, "n"]


def test_a_site_s_tables_are_read_at_its_start_and_belong_to_its_answers(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text(
        "[gateway]\nlog = 'l'\n[engine]\nkind = 'embedded'\n"
        "[[query]]\ntext = 'EVENT A a LOOKUP tags ON a.tag = tags.tag'\n"
        "[[query]]\ntext = 'EVENT B b'\n"
        "[[table]]\nname = 'tags'\npath = 'tags.csv'\n"
    )
    with pytest.raises(UserError, match=r"site.toml:11: .*tags.csv: cannot be read: No such file"):
        read_site(tmp_path / "site.toml")

    def task(rows: str) -> Task:
        (tmp_path / "tags.csv").write_text(f"tag,room\n{rows}\n")
        engine = read_site(tmp_path / "site.toml").engine
        assert engine is not None
        return engine

    first = task("1,icu")
    there = Task.of_line(first.as_line())
    assert there == first
    assert there.questions.plans() == first.questions.plans()
    assert len(there.questions.chain_settings().lookups) == 1
    grown(tmp_path)
    claim(tmp_path / "answers", tmp_path / "log", first.questions.of_each(), {})
    check_claim(tmp_path / "answers", tmp_path / "log", task("1,icu").questions.of_each())
    other = task("1,er").questions.of_each()
    assert other["q2"] == first.questions.of_each()["q2"]
    with pytest.raises(UserError, match=r"query q1: .* has answers with another table: give"):
        check_claim(tmp_path / "answers", tmp_path / "log", other)


@pytest.mark.parametrize(
    ("tables", "reported"),
    [
        ("[[table]]\nname = 'a b'\npath = 'x.csv'\n", "'a b' is to be a name"),
        ("[[table]]\nname = 'a'\n", "path: must be given"),
        (2 * "[[table]]\nname = 'a'\npath = 'x.csv'\n", "'a' is there twice"),
    ],
)
def test_a_mistake_in_a_table_is_reported(tables: str, reported: str, tmp_path: Path) -> None:
    query = "[[query]]\ntext = 'EVENT A a'\n"
    (tmp_path / "site.toml").write_text(f"[gateway]\nlog = 'l'\n{query}{tables}")
    with pytest.raises(UserError) as refused:
        read_site(tmp_path / "site.toml")
    assert reported in str(refused.value)
