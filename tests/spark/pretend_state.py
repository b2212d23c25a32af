"""Spark's state store and micro-batches as far as the engine sees them, without Spark."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Row

from slackwater.engine.hosts.chain import ChainSettings
from slackwater.engine.hosts.spark.chain_state import SiteProcessor
from slackwater.engine.hosts.spark.host import log_processor


class Value:
    """A ``ValueState``, as of one site; counts what is read."""

    def __init__(self, content: tuple[bytes] | None, reads: Counter[str], name: str) -> None:
        self.content, self._reads, self._name = content, reads, name

    def exists(self) -> bool:
        return self.content is not None

    def get(self) -> tuple[bytes] | None:
        self._reads[self._name] += 1
        return self.content

    def update(self, content: tuple[bytes]) -> None:
        self.content = content


class Entries:
    """A ``MapState``."""

    def __init__(self, content: dict[Any, Any]) -> None:
        self.content = dict(content)

    def getValue(self, key: Any) -> Any:  # noqa: N802 - Spark's name
        return self.content[key]

    def updateValue(self, key: Any, value: Any) -> None:  # noqa: N802
        self.content[key] = value

    def removeKey(self, key: Any) -> None:  # noqa: N802
        del self.content[key]


class Store:
    """What a state store holds for a site; a task writes to a copy that is kept if it ends well."""

    def __init__(self) -> None:
        self.reads: Counter[str] = Counter()
        self._values: dict[str, tuple[bytes] | None] = {}
        self._entries: dict[Any, Any] = {}

    def run(
        self, task: SiteProcessor, rows: list[Row], *, kept: bool = True, site: str = "main"
    ) -> list[Row]:
        values: dict[str, Value] = {}
        entries = Entries(self._entries)

        def value_state(name: str, _schema: Any) -> Value:
            values[name] = Value(self._values.get(name), self.reads, name)
            return values[name]

        handle: Any = type("Handle", (), {
            "getValueState": staticmethod(value_state),
            "getMapState": staticmethod(lambda *_: entries),
        })  # fmt: skip
        task.init(handle)
        given = list(task.handleInputRows((site,), iter(rows), None))
        if kept:
            self._values = {name: value.content for name, value in values.items()}
            self._entries = entries.content
        return given


class CrashError(Exception):
    """Of the driver."""


def sink(folder: Path, rows: list[Row], batch: int, *, listed: bool = True) -> None:
    """What Spark's Parquet sink does: files by kind, here two whose rows alternate, then an entry
    of its log, once for a batch.
    """
    log = folder / "_spark_metadata"
    log.mkdir(parents=True, exist_ok=True)
    entry = log / (f"{batch}.compact" if batch % 3 == 2 else str(batch))
    if entry.exists():
        return
    lines = [] if batch % 3 != 2 else [
        line for path in sorted(log.iterdir(), key=lambda path: int(path.stem))[-3:]
        for line in path.read_text().splitlines()[1:]
    ]  # fmt: skip
    kinds = {row.kind for row in rows}
    for kind, start in [(kind, start) for kind in kinds for start in (0, 1)]:
        of_kind = [{**row.asDict(), "kind": kind} for row in rows if row.kind == kind][start::2]
        if not of_kind:
            continue
        path = folder / f"kind={kind}" / f"part-{uuid4()}.parquet"
        path.parent.mkdir(exist_ok=True)
        table = pa.Table.from_pylist(of_kind, SINK).drop_columns("kind")
        pq.write_table(table, path, row_group_size=3, write_page_checksum=True)
        elsewhere = quote(f"/moved from/{path.relative_to(folder.parent.parent)}")
        about = {"path": f"file://{elsewhere}", "size": path.stat().st_size, "action": "add"}
        lines.append(json.dumps(about))
    if listed:
        entry.write_text("\n".join(["v1", *lines]))


SINK = pa.schema({
    "site": pa.string(), "batch": pa.int64(), "number": pa.int64(), "last": pa.bool_(),
    "kind": pa.string(), "rows": pa.int64(), "payload": pa.binary(),
})  # fmt: skip


class PretendSpark:
    """Does the micro-batches of a reading list; takes the place of ``host._micro_batches``.

    ``crash_at``: number of the micro-batch, and whether its results are in the sink's log by then.
    Every third entry of that log is a compact one, as every tenth of Spark's.
    """

    def __init__(self) -> None:
        self.crash_at: tuple[int, bool] | None = None
        self._stores: dict[str, Store] = {}

    def __call__(
        self, log: Path, settings: ChainSettings, out: Path, _master: str, sites: int
    ) -> tuple[list[dict[str, Any]], tuple[int, int]]:  # fmt: skip
        commits = out / "checkpoint" / "commits"
        commits.mkdir(parents=True, exist_ok=True)
        done = len(list(commits.iterdir()))
        if not done:
            self._stores = {}
        task = log_processor(settings, log, files=True)
        pages = sorted(
            (out / "reading").glob("*.parquet"), key=lambda path: path.stat().st_mtime_ns
        )
        for number, page in enumerate(pages[done:], done):
            rows = [Row(**row) for row in pq.read_table(page).to_pylist()[::-1]]
            of_site: dict[str, list[Row]] = {}
            for row in rows:
                of_site.setdefault(row.site, []).append(row)
            crash = self.crash_at is not None and self.crash_at[0] == number
            given = []
            for site, mine in sorted(of_site.items()):
                store = self._stores.setdefault(site, Store())
                given += store.run(task, mine, kept=not crash, site=site)
            if crash:
                assert self.crash_at is not None
                sink(out / "spark", given[::-1], number, listed=self.crash_at[1])
                self.crash_at = None
                raise CrashError
            sink(out / "spark", given[::-1], number)
            (commits / str(number)).touch()
        return [], (sites, sites)
