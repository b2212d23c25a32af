"""Results of a call: as rows, as a table, as a file."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, overload

import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.engine.core.errors import UserError, need
from slackwater.engine.hosts.result_files import (
    TABLES,
    Answers,
    StoredEvents,
    check_name,
    mixed_kinds,
    write,
)
from slackwater.engine.output.typed_columns import flat as flat_table
from slackwater.engine.output.typed_columns import most_listed
from slackwater.engine.query.results_as_events import time_columns
from slackwater.folder import ClosesItself, Folder
from slackwater.frames import as_pandas, as_polars

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl


_HTML_ROWS: Final = 20


class Results(ClosesItself):
    """Results on disk: matches and windows of ``query``, the events of ``order``.

    Iterating gives each as a dict: the fields of a line of the command's output. Times with
    fractions are floats there; ``time_unit="ns"`` and tables have exact times.

    A finite input gives final results, each once, in order of time. A log and Spark give changes,
    with ``+`` and, for retracted results, ``-``. ``final()`` and ``changes()`` convert.

    A context manager; without ``with``, its temporary folder is removed when it is
    garbage-collected.

    Attributes:
        counters: what happened to the events, as in ``counters.json``.
        late: with ``late=True``, the late and quarantined events, each with its reason.
    """

    def __init__(
        self, output: Answers | StoredEvents, counters: Mapping[str, Any], folder: Folder,
        late: Results | None = None, source: Folder | None = None,
    ) -> None:  # fmt: skip
        """``folder``: for derived files; ``source``: folder of the results, if temporary."""
        self.counters = {**counters, "sites": dict(counters["sites"])}
        self.late = late
        self._output = output
        self._folder = folder
        self._source = source  # lives as long as these
        self._scratch = f"{id(self):x}"
        self._count: int | None = None

    def __iter__(self) -> Iterator[dict[str, Any]]:
        with self._lines().open(encoding="utf-8", newline="\n") as lines:
            yield from map(json.loads, lines)

    @overload
    def __getitem__(self, at: int) -> dict[str, Any]: ...
    @overload
    def __getitem__(self, at: slice) -> list[dict[str, Any]]: ...
    def __getitem__(self, at: int | slice) -> dict[str, Any] | list[dict[str, Any]]:
        """The result at an index, or a slice; each access reads the file from the beginning."""
        if isinstance(at, slice):
            chosen = range(len(self))[at]
            found = dict(self._some(chosen))
            return [found[place] for place in chosen]
        for _, result in self._some((range(len(self))[at],)):
            return result
        raise AssertionError("the range has checked the place")

    def _some(self, places: Collection[int]) -> Iterator[tuple[int, dict[str, Any]]]:
        """The results at these places, in order."""
        with self._lines().open(encoding="utf-8", newline="\n") as lines:
            for place, line in enumerate(islice(lines, max(places, default=-1) + 1)):
                if place in places:
                    yield place, json.loads(line)

    def __len__(self) -> int:
        self._lines()
        assert self._count is not None
        return self._count

    def write(self, out: str | os.PathLike[str]) -> int:
        """Write the results to a file, as the command's ``--out`` does; return their number.

        Args:
            out: ``.jsonl``, ``.parquet`` or ``.csv``; written completely or not at all.

        Raises:
            UserError: another suffix, an unwritable file, or a table cannot hold the results.
        """
        path = Path(out)
        check_name(path)
        if path.suffix in TABLES:
            self._check_kinds()
        self._folder.path  # noqa: B018 - a closed one raises
        return write(self._output, path)

    def to_arrow(self, *, flat: bool = False) -> pa.Table:
        """The results as one Arrow table with typed columns, as in Parquet.

        If the input has dates and no ``time_unit`` was given, times are timestamps and computed
        times timestamps or durations; otherwise whole numbers.

        Args:
            flat: use plain columns only, as in CSV: ``window.start``, ``event1.attrs.tag``.

        Raises:
            UserError: both windows and matches, or an attribute of two types: no table can hold
                them; iterate instead.
        """
        output = self._output
        self._check_kinds()
        path = self._folder.path / f"{self._scratch}.parquet"
        output.table(path)
        try:
            table = pq.read_table(path)
        finally:
            path.unlink()
        if not flat or isinstance(output, StoredEvents):
            return table
        return flat_table(table, max(output.events_max, most_listed(table)))

    def to_pandas(self, *, flat: bool = False) -> pd.DataFrame:
        """The results as a pandas DataFrame; see ``to_arrow``.

        Raises:
            UserError: as ``to_arrow``.
        """
        return as_pandas(self.to_arrow(flat=flat))

    def to_polars(self, *, flat: bool = False) -> pl.DataFrame:
        """The results as a polars DataFrame; see ``to_arrow``.

        Raises:
            SlackwaterError: polars is not installed.
            UserError: as ``to_arrow``.
        """
        return as_polars(self.to_arrow(flat=flat))

    def plot(self, query: str | None = None) -> Any:
        """A Plotly figure of one query over time: the values of its windows, or its matches.

        Args:
            query: its name, or ``name: aggregate``; None: the only figure.

        Raises:
            SlackwaterError: plotly is not installed.
            UserError: events of ``order``, nothing to draw, or several figures.
        """
        need("plotly")
        from slackwater.plots import plot_of  # noqa: PLC0415 - the report's extra

        if isinstance(self._output, StoredEvents):
            raise UserError("events in order are not drawn: ask a query, or slackwater.compare")
        with self._lines_in_ns() as lines:
            return plot_of(lines, query)

    def _repr_html_(self) -> str:
        """The first results as a table, for notebooks."""
        from slackwater.engine.cli.terminal import (  # noqa: PLC0415 - for notebooks alone
            TableTimes,
            shown_rows,
        )

        output = self._output
        plans = output.plans if isinstance(output, Answers) else ()
        labels = {plan.name: time_columns(plan) for plan in plans}
        with self._lines_in_ns() as lines:
            return shown_rows(lines, TableTimes(output.time_unit, labels=labels), _HTML_ROWS).html()

    @contextmanager
    def _lines_in_ns(self) -> Iterator[Path]:
        """The results' JSON lines with times in ns, while the block runs."""
        path = self._folder.path / f"{self._scratch}.ns.jsonl"
        try:
            self._output.in_ns().lines(path)
            yield path
        finally:
            path.unlink(missing_ok=True)

    def final(self) -> Results:
        """The results that remain, each once, in order of time."""
        return self._as(final=True)

    def changes(self) -> Results:
        """All insertions and retractions, in the order in which they came."""
        return self._as(final=False)

    def _as(self, *, final: bool) -> Results:
        output = self._output
        if isinstance(output, Answers):
            parts, plans, unit = output.parts, output.plans, output.time_unit
            output = Answers(parts, plans, unit, final, table_dates=output.table_dates)
        return Results(output, self.counters, self._folder, self.late, self._source)

    def close(self) -> None:
        """Remove stored data, including that of ``late``."""
        self._folder.close()

    def __repr__(self) -> str:
        return f"<slackwater.Results: {len(self)}>"

    def _check_kinds(self) -> None:
        kinds = mixed_kinds(self._output.plans) if isinstance(self._output, Answers) else ""
        if kinds:
            raise UserError(
                f"{kinds} have different columns: iterate over these results, write .jsonl, or "
                "ask in two calls"
            )

    def _lines(self) -> Path:
        """The file of the results' JSON lines, written at its first use."""
        path = self._folder.path / f"{self._scratch}.jsonl"
        if self._count is None:
            self._count = self._output.lines(path)
        return path
