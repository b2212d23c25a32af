"""Options of a live engine beside the query: spilled events, late ones; what cannot be."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from engine.chain import ChainSettings
from engine.errors import UserError
from engine.live.embedded import EmbeddedEngine, Place
from engine.live.questions import Questions
from engine.log.arrival_log import LogWriter
from engine.log.input.trace import TraceRead
from engine.order.base import Guards
from engine.order.registry import parse_order
from engine.passes.inprocess import run_in_process
from engine.pattern.spill.chunk_store import FileChunks
from engine.query.analysis.cascade import read_statements
from engine.results.answer_lines import AnswerLines
from engine.results.export import export_jsonl
from engine.results.live_answers import LiveAnswers
from engine.results.ordered import export_ordered_jsonl
from engine.results.side_output import SIDE_OUTPUT
from engine.server.site_file import read_site
from tests.live.conftest import ENV, SLACKWATER, Field, until
from tests.live.test_answers import PAIRS, answered, asked, run_through
from tests.live.test_live_engine import KilledError
from tests.spark.test_growing_log import SETTINGS, SPILLED, Growing, trace

LATE = dataclasses.replace(SETTINGS, ordered="no")
Answered = dict[tuple[str, str], bytes]


class Life:
    """One life of an engine with ``settings``, which dies at its ``last`` writing."""

    def __init__(self, folder: Path, settings: ChainSettings, last: float = float("inf")) -> None:
        self.said: list[str] = []
        self._left = last
        self._answers = folder / "answers"
        self._names = [plan.name for plan in settings.plans] + list(SIDE_OUTPUT.folders)
        place = Place(folder / "log", self._answers / ".state" / "embedded", 1e9)
        self.engine = EmbeddedEngine(place, settings, self._opened, self.said.append)

    def _opened(self, known: dict[str, Any]) -> LiveAnswers:
        known = known.get("lines", {})
        lines = AnswerLines(self._answers, self._names, known, self.said.append)
        return LiveAnswers(lines, None, 1, {}, lambda _: None, self._patient)

    def _patient(self, what: Callable[[], Any]) -> Any:
        self._left -= 1
        if self._left < 0:
            raise KilledError
        return what()

    def written(self) -> Answered:
        """All that is there, with what the end would give."""
        return {
            (name, site): b"".join(
                path.read_bytes()
                for ending in ("", ".end")
                if (path := self._answers / name / f"{site}.jsonl{ending}").exists()
            )
            for name in self._names
            for site in "ns"
        }


def passed(folder: Path, settings: ChainSettings) -> Answered:
    """What a pass gives, by query, or kind of what was set aside, and site."""
    names = [plan.name for plan in settings.plans]
    run_in_process(folder / "log", settings, folder / "parts")
    export_jsonl(folder / "parts", folder / "all.jsonl", queries=names)
    found = {(name, site): b"" for name in (*names, *SIDE_OUTPUT.folders) for site in "ns"}
    for line in (folder / "all.jsonl").read_bytes().splitlines(keepends=True):
        result = json.loads(line)
        found[result["query"], result["site"]] += line
    for kind in SIDE_OUTPUT.folders:
        one = replace(SIDE_OUTPUT, folders=(kind,))
        export_ordered_jsonl(folder / "parts", folder / "aside.jsonl", "ns", one)
        for line in (folder / "aside.jsonl").read_bytes().splitlines(keepends=True):
            found[kind, json.loads(line)["site"]] += line
    return found


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("settings", [LATE, SPILLED], ids=["late", "spill"])
def test_kills_change_nothing_of_what_is_spilled_or_late(
    settings: ChainSettings, seed: int, tmp_path: Path
) -> None:
    random = Random(seed)
    growing = Growing(trace(random.randrange, 150), tmp_path, 7)
    there = 0
    while growing.left:
        life = Life(tmp_path, settings, random.choice([3, 10, float("inf")]))
        try:
            for _ in range(random.randint(1, 4)):
                some = random.randint(1, 5)
                there += len(growing.left[:some])
                growing.grow(some)
                life.engine.upto(there)
                if random.random() < 0.5:
                    life.engine.save()
            if random.random() < 0.5:
                life.engine.close()  # and goes on afterwards
        except KilledError:
            pass
        assert not any("again" in line for line in life.said)
    life = Life(tmp_path, settings)
    life.engine.upto(there)
    life.engine.close()
    whole = passed(tmp_path, settings)
    assert life.written() == whole
    wanted = "late" if settings is LATE else "p"
    assert len(whole[wanted, "n"]) > 100
    chunks = list((tmp_path / "answers").rglob("*.arrow"))
    assert bool(chunks) is (settings is SPILLED)


def test_chunks_that_are_gone_are_told_and_all_is_made_again(tmp_path: Path) -> None:
    growing = Growing(trace(Random(5).randrange, 150), tmp_path, 7)
    files = len(growing.left)
    growing.grow(files)
    life = Life(tmp_path, SPILLED)
    life.engine.upto(files)
    life.engine.close()
    before = life.written()
    min((tmp_path / "answers").rglob("*.arrow")).unlink()
    again = Life(tmp_path, SPILLED)
    assert "chunks of spilled events are gone: answers are to be made again" in again.said[0]
    again.engine.upto(files)
    again.engine.close()
    assert again.written() == before
    assert not any("mended" in line for line in again.said)
    assert Life(tmp_path, SPILLED).said == []


def test_a_store_keeps_what_a_look_ahead_reads(tmp_path: Path) -> None:
    """The end that is tried at a stop takes none of the chunks away."""
    growing = Growing(trace(Random(5).randrange, 150), tmp_path, 7)
    files = len(growing.left)
    growing.grow(files)
    life = Life(tmp_path, SPILLED)
    life.engine.upto(files)
    life.engine.save()
    there = sorted((tmp_path / "answers").rglob("*.arrow"))
    life.engine.close()
    assert sorted((tmp_path / "answers").rglob("*.arrow")) == there != []
    assert FileChunks(there[0].parent).get(int(there[0].stem)) == there[0].read_bytes()


@pytest.mark.parametrize(
    ("options", "query", "told"),
    [
        ('spill = "chunks,hot=1 min"', PAIRS, 'so name no folder: write "state", as in'),
        ('spill = "hot=1 min"', PAIRS, "a server keeps chunks with its engine's state"),
        ('spill = "state,cold=1"', PAIRS, "spill setting 'cold=1' is unknown"),
        ('spill = "state"\npurge = "promises"', PAIRS, "purge late"),
        ('spill = "state"', "SELECT count(*) FROM events WINDOW TUMBLING 1 s", "is for patterns"),
        ('spill = "state"', "EVENT ISEQ[a BEFORE b](A a, B b) WITHIN 1 s", "no spill"),
        ('intervals = "fast"', PAIRS, "fast"),
        ('joins = "middle"', PAIRS, "middle"),
        ('late = "late.jsonl"', PAIRS, "late"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, options: str, query: str, told: str) -> None:
    text = f"[gateway]\nlog = 'l'\n[engine]\n{options}\n[[query]]\ntext = '''{query}'''\n"
    (tmp_path / "site.toml").write_text(text)
    with pytest.raises(UserError) as refused:
        read_site(tmp_path / "site.toml")
    assert told in str(refused.value)
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


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["embedded", pytest.param("spark", marks=pytest.mark.spark)])
def test_a_server_with_spill_and_late_events_answers_as_a_query(field: Field, engine: str) -> None:
    more = (
        'spill = "state,hot=500ms,chunk=500ms,parts=1,pending=50,wait=1s"\nlate = true\n'
        'order = "none"\nguard = "1 h"\nmaster = "local[1]"'
    )
    field.site(asked({"q1": PAIRS}, engine, more))
    for source in ("door", "gate"):
        gateway = field.serve()
        run_through(field, source, range(1500))
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
    life.engine.upto(2)
    life.engine.close()
    assert life.written() == passed(tmp_path, chosen)
    assert life.written()[plans[-1].name, "n"]
