"""`engine.spark.chain` on a stream of rows, its state kept and its old events spilled."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engine.chain import Chain, ChainSettings
from engine.errors import UserError
from engine.order.base import Guards
from engine.order.registry import parse_order
from engine.query import query
from engine.spark import chain
from engine.spark.host import spark_session
from engine.stream.frame import Frame

pytestmark = [pytest.mark.spark]

PATTERN = "EVENT SEQ(A a, !C c, B b) WHERE a.tag = b.tag AND c.tag = a.tag WITHIN 20"
SPILL = "state,hot=25,chunk=5,pending=3,wait=40"
ROWS, FILES = 400, 4


def _rows() -> list[dict[str, object]]:
    """Three types, three tags; one event in nine comes up to 90 ns late."""
    rng = random.Random(20261122)
    rows: list[dict[str, object]] = []
    for number in range(ROWS):
        arrival = 1_000 + 3 * number
        late = rng.randrange(90) if number % 9 == 0 else 0
        rows.append({
            "source": "st"[number % 2], "seq": number // 2, "type": rng.choice("AABC"),
            "ts": arrival - late, "arrival": arrival, "tag": rng.randrange(3),
        })  # fmt: skip
    return rows


def _net(results: list[dict[str, object]]) -> list[str]:
    """What stands after all: `+` less `-`."""
    standing: dict[str, int] = {}
    for result in results:
        shown = json.dumps([result["events"], result["certainty"]], sort_keys=True)
        standing[shown] = standing.get(shown, 0) + (1 if result["op"] == "+" else -1)
    assert set(standing.values()) <= {0, 1}
    return sorted(shown for shown, times in standing.items() if times)


def test_a_stream_with_spilled_events_equals_the_chain_without(tmp_path: Path) -> None:
    rows = _rows()
    plan = query(PATTERN, name="q1")
    alone = Chain(ChainSettings(parse_order("none"), (plan,), guards=Guards(None)), "main")
    made = pa.Table.from_pylist(rows)
    fields = {name: made[name].combine_chunks() for name in ("seq", "ts", "arrival")}
    fields |= {n: made[n].combine_chunks().dictionary_encode() for n in ("source", "type")}
    fields["attrs.tag"] = made["tag"].combine_chunks()
    output = alone.process([Frame("main", pa.RecordBatch.from_pydict(fields))])
    expected = _net(list(output.results[0]))
    assert len(expected) > 30

    (tmp_path / "in").mkdir()
    for number in range(FILES):
        part = made.slice(number * ROWS // FILES, ROWS // FILES)
        file = tmp_path / "in" / f"part-{number}.parquet"
        pq.write_table(part, file)
        os.utime(file, (1_700_000_000 + number,) * 2)  # Spark's file source goes by it
    session = spark_session("local[2]", tmp_path / "spark.log")
    schema = "source string, seq long, type string, ts long, arrival long, tag long"
    stream = session.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    step = chain(order="none", queries=[PATTERN], guard_ns=None, spill=SPILL)
    found: list[dict[str, object]] = []
    running = (
        step(stream.parquet(str(tmp_path / "in")))
        .writeStream.foreachBatch(
            lambda batch, _: found.extend(row.asDict(recursive=True) for row in batch.collect())
        )
        .option("checkpointLocation", str(tmp_path / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    running.awaitTermination()
    assert len([each for each in running.recentProgress if each.numInputRows]) == FILES
    later = _net(found)
    assert set(later) <= set(expected)
    # What the last rows put off has no end of the input to come out at.
    assert len(later) >= len(expected) - 3


def test_spill_of_a_step_is_in_the_state_store_alone() -> None:
    with pytest.raises(UserError, match="--spill state"):
        chain(queries=[PATTERN], spill="/tmp/folder")
    with pytest.raises(UserError, match="parts=2 needs one key"):
        chain(queries=["EVENT SEQ(A a, B b) WITHIN 20"], spill="state,parts=2")
