"""The operator and the input of the how-to work as its page has them."""

from __future__ import annotations

import asyncio
import io
import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest

from slackwater.edge_agent.drivers.agent_file import read_agent
from slackwater.edge_agent.settings_file import Table
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.hosts.chain.operators import OPERATORS
from slackwater.engine.hosts.pipeline import run_in_process
from slackwater.engine.log.arrival_log import LogWriter
from slackwater.engine.log.input.trace import TraceRead
from slackwater.engine.order.registry import parse_order
from slackwater.engine.output.export import export_jsonl, export_table
from slackwater.engine.output.part_store import PartStore
from slackwater.engine.output.result_kinds import KINDS
from slackwater.engine.query import query
from slackwater.engine.sinks.program import read_sinks
from tests.inputs.outlet import NOW_NS, KeptOutlet
from tests.sinks.receivers import Answers, run_through

HOW_TO = Path(__file__).resolve().parents[2] / "docs" / "how-to.md"


@pytest.fixture(name="module")
def _module(tmp_path: Path) -> Iterator[dict[str, Any]]:
    """The how-to's file, run; what it registers is taken back."""
    section = HOW_TO.read_text(encoding="utf-8").split("\n## Add an operator\n")[1]
    code = re.findall(r"```python\n(.*?)```", section, re.DOTALL)[0]
    (tmp_path / "silence.py").write_text(code, encoding="utf-8")
    found = run_path(str(tmp_path / "silence.py"), run_name="silence")
    yield found
    del OPERATORS[found["Silence"]], KINDS["silences"]


def test_the_operator_of_the_how_to_answers_beside_others(
    module: dict[str, Any], tmp_path: Path
) -> None:
    times = [0, 10, 12, 40, 41, 90]
    trace = tmp_path / "trace.jsonl"
    trace.write_text("".join(json.dumps({"type": "A", "ts": t}) + "\n" for t in times))
    with LogWriter(tmp_path / "log") as writer:
        for frame in TraceRead(trace):
            writer.append(frame)
    plans = (module["Silence"]("quiet", 15), query("EVENT SEQ(A a, A b) WITHIN 2", name="pair"))
    settings = ChainSettings(parse_order("none"), plans)
    for store in (PartStore(tmp_path / "files"), PartStore(tmp_path / "held", 1 << 20)):
        run_in_process(tmp_path / "log", settings, store)
        lines = io.StringIO()
        assert export_jsonl(store, lines, queries=["quiet", "pair"]) == 4
        found = [json.loads(line) for line in lines.getvalue().splitlines()]
        assert [(one["since"], one["length"]) for one in found[:2]] == [(12, 28), (41, 49)]
        assert [one["query"] for one in found[2:]] == ["pair", "pair"]
    only = ChainSettings(parse_order("none"), plans[:1])
    store = PartStore(tmp_path / "table")
    run_in_process(tmp_path / "log", only, store)
    assert export_table(store, tmp_path / "out.parquet", "silences") == 2


def test_its_results_do_not_depend_on_cuts(module: dict[str, Any], tmp_path: Path) -> None:
    trace = tmp_path / "trace.jsonl"
    trace.write_text("".join(json.dumps({"type": "A", "ts": t}) + "\n" for t in (0, 40, 41, 90)))
    settings = ChainSettings(parse_order("none"), (module["Silence"]("quiet", 15),))
    whole, cut = Chain(settings, "main"), Chain(settings, "main")
    frames = list(TraceRead(trace))
    found = [*whole.process(frames).results[0], *whole.finish().results[0]]
    again = []
    for frame in frames:
        for row in range(frame.rows):
            again += cut.process([type(frame)("main", frame.batch.slice(row, 1))]).results[0]
            cut = Chain.restored(settings, "main", cut.to_bytes())
    assert [*again, *cut.finish().results[0]] == found
    assert len(found) == 2


def package_of(heading: str) -> tuple[str, str]:
    """The one module of a section, and the lines of its pyproject.toml."""
    section = HOW_TO.read_text(encoding="utf-8").split(f"\n## {heading}\n")[1].split("\n## ")[0]
    (code,) = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    (entry,) = re.findall(r"```toml\n(.*?)```", section, re.DOTALL)
    return code, entry


def install(
    name: str, code: str, entry: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package with one module, and the entry point that its pyproject.toml names."""
    (folder / f"{name}.py").write_text(code)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    group, line = re.fullmatch(r'\[project.entry-points."(.*)"\]\n(.*)\n', entry).groups()  # type: ignore[union-attr]
    (info / "entry_points.txt").write_text(f"[{group}]\n{line.replace(chr(34), '')}\n")
    monkeypatch.syspath_prepend(folder)


def test_the_kind_of_sink_of_the_how_to_is_found_and_sends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, entry = package_of("Add a kind of sink")
    assert len(code.splitlines()) <= 35
    install("datagrams", code, entry, tmp_path, monkeypatch)
    with socket.socket(type=socket.SOCK_DGRAM) as heard:
        heard.bind(("127.0.0.1", 0))
        heard.settimeout(10)
        table = {"kind": "udp", "host": "127.0.0.1", "port": heard.getsockname()[1]}
        (sink,) = read_sinks([Table(table, "site.toml", "sink")], ("q1",))
        answers = Answers(tmp_path / "answers")
        answers.write({"n": 0}, {"n": 1, "text": "a" * 2000}, {"n": 2})
        run_through(answers.forwarder(sink.receiver))
        found = [json.loads(heard.recv(4096))["result"]["n"] for _ in range(2)]
    assert found == [0, 2]
    dead = tmp_path / "answers" / ".sinks" / "s.dead.jsonl"
    assert json.loads(dead.read_text())["reason"] == "longer than a datagram"


def test_the_input_of_the_how_to_is_found_and_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code, entry = package_of("Add an input")
    assert len(code.splitlines()) <= 42
    install("thermometer", code, entry, tmp_path, monkeypatch)
    (tmp_path / "temp1_input").write_text("21500\n")
    settings = tmp_path / "agent.toml"
    settings.write_text(
        '[[stream]]\nname = "room"\nattrs = { celsius = "float" }\n'
        f'[[input]]\nkind = "thermometer"\nfile = {json.dumps(str(tmp_path / "temp1_input"))}\n'
        'every = "5 ms"\n'
    )
    (named,) = read_agent(settings, lambda: NOW_NS, lambda: "me").inputs

    async def read() -> KeptOutlet:
        outlet = KeptOutlet()
        task = asyncio.create_task(named.input.run(outlet))
        async with asyncio.timeout(10):
            while len(outlet.rows) < 2:
                await asyncio.sleep(0.001)
            (tmp_path / "temp1_input").write_text("hot\n")
            while not outlet.faults:
                await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return outlet

    outlet = asyncio.run(read())
    (stream, row) = outlet.rows[0]
    assert (stream, row.type, row.attrs) == ("room", "TEMPERATURE", (21.5,))
    assert named.input.counts["unread"] >= 1
