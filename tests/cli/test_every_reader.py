"""Every writer of logs x every reader x both hosts: what one writes, all the others read alike."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slackwater.edge_agent.messages import Data, StreamSchema, Texts, Values
from slackwater.edge_agent.records import Kind
from slackwater.engine.gateway.frames import FrameBuilder, Part, one_row
from slackwater.engine.hosts.spark import chain
from slackwater.engine.hosts.spark.host import spark_session
from slackwater.engine.log.arrival_log import LogWriter

EVENTS = 40
WINDOW = "SELECT count(*) AS n, min(seq) AS least WINDOW TUMBLING 10"
LONG = WINDOW.replace("10", "5 ms")
"""Of a log whose clocks err by milliseconds: millions of the short ones may have had an event."""
Cli = Callable[..., Any]


def _records() -> list[dict[str, Any]]:
    """Two sources, a few events out of order; times in ns."""
    return [
        {"source": "ab"[n % 2], "seq": n // 2, "type": "AB"[n // 2 % 2],
         "ts": 3 * n - 5 * (n % 7 == 3), "arrival": 3 * n + 20, "v": n % 5 + 0.5,
         "tag": "xyz"[n % 3]}
        for n in range(EVENTS)
    ]  # fmt: skip


def _simulated(cli: Cli) -> str:
    assert cli("simulate", "soccer", "--set", "duration=30ms", "--out", "made.log").code == 0
    return "made.log"


def _jsonl(cli: Cli) -> str:
    lines = []
    for record in _records():
        attrs = {name: record.pop(name) for name in ("v", "tag")}
        lines.append(json.dumps(record | {"attrs": attrs}) + "\n")
    Path("t.jsonl").write_text("".join(lines))
    return _imported(cli, "t.jsonl")


def _csv(cli: Cli) -> str:
    records = _records()
    lines = [",".join(map(str, record.values())) for record in records]
    Path("t.csv").write_text("\n".join([",".join(records[0]), *lines, ""]))
    return _imported(cli, "t.csv")


def _parquet(cli: Cli) -> str:
    pq.write_table(pa.Table.from_pylist(_records()), "t.parquet")
    return _imported(cli, "t.parquet")


def _imported(cli: Cli, source: str) -> str:
    ran = cli("log", "import", source, "--out", "made.log", "--time-unit", "ns")
    assert ran.code == 0, ran.err
    return "made.log"


def _gateway(_cli: Cli) -> str:
    """Frames as the gateway builds them: columns that say nothing are left out."""
    schema = StreamSchema("events", {"v": "float", "tag": "str"})
    with LogWriter("made.log", rows_per_file=9) as writer:
        for start in range(0, EVENTS, 8):
            builder = FrameBuilder("main")
            for record in _records()[start : start + 8]:
                data = Data(
                    0, record["seq"], 1, struct.pack("<q", record["ts"]), None, None,
                    Texts([record["type"]], None),
                    (Values(struct.pack("<d", record["v"]), None), Texts([record["tag"]], None)),
                )  # fmt: skip
                builder.add(Part(
                    Kind.EVENT, record["arrival"], data, record["source"], "events", record["seq"],
                    0, schema,
                ))  # fmt: skip
            builder.add(Part(Kind.TICK, record["arrival"], one_row(record["arrival"])))
            writer.append(builder.build())
    return "made.log"


WRITERS = {
    "simulate": _simulated, "jsonl": _jsonl, "csv": _csv, "parquet": _parquet, "gateway": _gateway,
}  # fmt: skip
FAST = ("--guard", "off", "--quiet", "--time-unit", "ns")


def _window(writer: str) -> str:
    return LONG if writer == "simulate" else WINDOW


def _answers(cli: Cli, log: str, window: str, *host: str) -> tuple[list[Any], list[Any]]:
    query = cli("query", window, "--input", log, *FAST, *host)
    order = cli("order", "--input", log, *FAST, *host)
    assert (query.code, order.code) == (0, 0), query.err + order.err
    return query.lines, order.lines


@pytest.mark.parametrize("writer", WRITERS)
def test_in_process_every_reader_reads_what_is_written(writer: str, cli: Cli) -> None:
    log = WRITERS[writer](cli)
    results, ordered = _answers(cli, log, _window(writer))
    events = EVENTS if writer != "simulate" else len(ordered)
    assert len(ordered) == events
    assert sum(result["value"]["n"] for result in results) == events
    compared = cli("compare", "--input", log, "--order", "none", "--json", "--quiet")
    assert compared.code == 0, compared.err
    (of_none,) = json.loads(compared.out)["orders"]
    assert of_none["arrived"] == events
    shown = cli("log", "show", log, "--json")
    assert shown.code == 0, shown.err
    for suffix in ("jsonl", "csv", "parquet"):
        again = f"again.{suffix}"
        assert cli("log", "export", log, "--out", again, "--time-unit", "ns").code == 0
        if writer != "simulate" or suffix != "csv":
            assert _answers(cli, again, _window(writer)) == (results, ordered), suffix
    if writer != "simulate":
        assert (results, ordered) == EXPECTED.setdefault("import", (results, ordered))


EXPECTED: dict[str, Any] = {}
"""The first writer's answers: the others have written the same events."""


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("writer", WRITERS)
def test_on_spark_every_reader_reads_what_is_written(writer: str, cli: Cli, here: Path) -> None:
    log = WRITERS[writer](cli)
    expected = _answers(cli, log, _window(writer))
    assert _answers(cli, log, _window(writer), "--master", "local[2]") == expected
    session = spark_session("local[2]", here / "spark.log")
    frames = session.read.option("pathGlobFilter", "frames-*.parquet").parquet(str(here / log))
    found = chain("sequence", _window(writer), guard_ns=None)(frames)
    results = [row.asDict(recursive=True) for row in found.collect()]
    for result, row in zip(expected[0], sorted(results, key=_start), strict=True):
        assert {name: row[name] for name in result if name != "key"} == {
            name: value for name, value in result.items() if name != "key"
        }


def _start(result: dict[str, Any]) -> int:
    return int(result["window"]["start"])
