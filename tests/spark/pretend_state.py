"""Spark's state store and micro-batches as far as the engine sees them, without Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import Row

from slackwater.engine.cache_home import cache_home
from slackwater.engine.hosts.chain import ChainSettings
from slackwater.engine.hosts.spark.chain_state import SiteChain


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
        self, task: SiteChain, rows: list[Row], *, kept: bool = True, site: str = "main"
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


class PretendSpark:
    """Does the micro-batches of a reading list; takes the place of ``host._micro_batches``.

    ``crash_at``: number of the micro-batch, and whether its results are written by then.
    """

    def __init__(self) -> None:
        self.crash_at: tuple[int, bool] | None = None
        self._stores: dict[str, Store] = {}

    def __call__(
        self, log: Path, settings: ChainSettings, out: Path, _master: str, _tasks: int,
        sink: Callable[[list[Row], int], None],
    ) -> list[dict[str, Any]]:  # fmt: skip
        commits = out / "checkpoint" / "commits"
        commits.mkdir(parents=True, exist_ok=True)
        done = len(list(commits.iterdir()))
        if not done:
            self._stores = {}
        task = SiteChain(settings, log, out / "staged", cache_home())
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
                if self.crash_at[1]:
                    sink(given[::-1], number)
                self.crash_at = None
                raise CrashError
            sink(given[::-1], number)
            (commits / str(number)).touch()
        return []
