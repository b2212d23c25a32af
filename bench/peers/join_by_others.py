"""The join of ``bench.peers.joins`` by others: ``join_by_others.py bytewax|duckdb|spark|flink``.

Each is run by the Python that has it, with ``PEERS_DIR`` as for the scripts of ``../shared/peers``,
whose helpers it imports from the folder ``PEERS_SCRIPTS``. An event is of side a if its type is
below F; events up to 1 s late are waited for.
"""

# ruff: noqa: PLC0415 - each Python has one of them

from __future__ import annotations

import os
import shutil
import sys
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, os.environ["PEERS_SCRIPTS"])
FOLDER = Path(os.environ["PEERS_DIR"])
DATA = FOLDER / "data"
WITHIN_NS = 100_000_000
LATE_NS = 1_000_000_000


def with_bytewax() -> None:
    """No join by time in bytewax: user code in ``stateful_batch``, by key."""
    import bytewax_common as common  # type: ignore[import-not-found]

    class PeerJoin(common.op.StatefulBatchLogic):  # type: ignore[misc]
        def __init__(self) -> None:
            self.sides: tuple[list[Any], list[Any]] = ([], [])
            self.newest = 0

        def on_batch(self, rows: list[Any]) -> tuple[list[str], bool]:
            out = []
            for key, ts, kind, v in rows:
                mine, other = self.sides if kind < "F" else self.sides[::-1]
                self.newest = max(self.newest, ts)
                old = bisect_left(other, (self.newest - LATE_NS - WITHIN_NS,))
                if old:
                    del other[:old]
                first = bisect_left(other, (ts - WITHIN_NS,))
                for at, w in other[first : bisect_right(other, (ts + WITHIN_NS, float("inf")))]:
                    a, b, x, y = (ts, at, v, w) if kind < "F" else (at, ts, w, v)
                    out.append(f"{a},{b},{key},{x},{y}\n")
                insort(mine, (ts, v))
            return out, False

        def on_eof(self) -> tuple[list[str], bool]:
            return [], True

        def snapshot(self) -> Any:
            return [list(side) for side in self.sides], self.newest

    flow = common.Dataflow("join")
    rows = common.Rows(str(DATA / "base.parquet"), ["id", "ts", "type", "v"])
    read = common.op.input("in", flow, rows)
    keyed = common.op.key_on("key", read, lambda row: str(row[0]))
    joined = common.op.stateful_batch("join", keyed, lambda _state: PeerJoin())
    out = common.Csv(str(FOLDER / "out" / "join_bytewax.csv"))
    common.op.output("out", common.op.map("row", joined, lambda pair: pair[1]), out)
    common.run_main(flow)


def with_duckdb() -> None:
    """A batch over the finished file."""
    import duckdb  # type: ignore[import-not-found]

    events = f"read_parquet('{DATA / 'base.parquet'}')"
    near = f"b.ts BETWEEN a.ts - {WITHIN_NS} AND a.ts + {WITHIN_NS}"
    query = (
        f"SELECT a.ts AS a, b.ts AS b, a.id AS key, a.v AS v, b.v AS w FROM {events} a "
        f"JOIN {events} b ON a.id = b.id AND a.type < 'F' AND b.type >= 'F' AND {near}"
    )
    out = FOLDER / "out" / "join_duckdb.parquet"
    duckdb.connect().execute(f"SET threads=2; COPY ({query}) TO '{out}' (FORMAT parquet)")


def with_spark() -> None:
    """Structured Streaming's stream-stream join."""
    import spark_common as common  # type: ignore[import-not-found]

    session, functions = common.session("join"), common.F
    path, checkpoint = common.paths("join_spark")

    def side(name: str, *, below: bool) -> Any:
        kind = functions.col("type")
        mine = (kind < "F") if below else (kind >= "F")  # type Z moves the watermark at the end
        rows = common.stream(session, "base").where(mine | (kind == "Z"))
        columns = [functions.col(one).alias(name + one) for one in ("id", "ts", "rt", "v")]
        return rows.select(*columns).withWatermark(f"{name}rt", "1 second")

    apart = f"abs(ats - bts) <= {WITHIN_NS}"
    bounds = "brt >= art - interval 100 milliseconds AND brt <= art + interval 100 milliseconds"
    on = functions.expr(f"aid = bid AND {bounds} AND {apart}")
    joined = side("a", below=True).join(side("b", below=False), on).where("aid >= 0")
    writer = joined.selectExpr("ats a", "bts b", "aid key", "av v", "bv w").writeStream
    placed = writer.format("parquet").option("path", path).option("checkpointLocation", checkpoint)
    placed.trigger(availableNow=True).start().awaitTermination()


def with_flink() -> None:
    """Flink SQL's interval join."""
    import flink_common as common  # type: ignore[import-not-found]

    tables = common.env()
    tables.execute_sql(common.source("base"))
    columns = "a BIGINT, b BIGINT, k INT, v DOUBLE, w DOUBLE"
    common.sink(tables, "join_flink", columns)
    near = "y.rt BETWEEN x.rt - INTERVAL '0.101' SECOND AND x.rt + INTERVAL '0.101' SECOND"
    tables.execute_sql(
        f"INSERT INTO snk SELECT x.ts, y.ts, x.id, x.v, y.v FROM ev x, ev y WHERE x.id = y.id "
        f"AND x.type < 'F' AND y.type >= 'F' AND {near} AND ABS(x.ts - y.ts) <= {WITHIN_NS}"
    ).wait()


BY: dict[str, Callable[[], None]] = {
    "bytewax": with_bytewax, "duckdb": with_duckdb, "spark": with_spark, "flink": with_flink,
}  # fmt: skip

if __name__ == "__main__":
    shutil.rmtree(FOLDER / "out" / f"join_{sys.argv[1]}", ignore_errors=True)
    BY[sys.argv[1]]()
