"""Sink of query results: Parquet per micro-batch, matches and windows apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from engine.operator import Result
from engine.results.batch_files import replace_batch
from engine.results.schema import (
    MATCH_SCHEMA,
    POSITION,
    is_window,
    match_table,
    window_table,
)

MATCHES: Final = "matches"
WINDOWS: Final = "windows"


class ResultSink:
    """Writes results into ``directory``; writing a batch id again replaces that batch.

    Each file appears whole. After a crash between the two files of a batch the host writes the
    batch again (Spark does, from its checkpoint), which completes it.
    """

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)

    def write(
        self, batch_id: int, results: Sequence[Result], matches: Sequence[pa.Table] = (),
        windows: Sequence[pa.Table] = (),
    ) -> list[Path]:  # fmt: skip
        """Makes all that is given the whole of batch ``batch_id``; gives its files.

        Args:
            batch_id: micro-batch, from 0; later ones hold later results.
            results: each site's in the order of emission; sites may be mixed.
            matches: more of them, as tables of ``MATCH_SCHEMA`` with one site each; of queries that
                ``results`` are not of.
            windows: likewise, as tables of ``WINDOW_SCHEMA``.

        Raises:
            UserError: the directory cannot be written.
            ContractViolation: a result without the fields of DESIGN "Results".
        """
        of_windows = [is_window(result) for result in results]
        files: list[Path] = []
        for folder, wanted, table, more in (
            (MATCHES, False, match_table, matches),
            (WINDOWS, True, window_table, windows),
        ):
            chosen = [place for place, each in enumerate(of_windows) if each is wanted]
            tables = _by_site(chosen, results, table)
            tables = sorted([*tables, *_numbered(more, len(results))], key=_site_of)
            together = [pa.concat_tables(of_site) for _, of_site in groupby(tables, _site_of)]
            files += replace_batch(self.directory / folder, batch_id, [together])
        return files


def _site_of(table: pa.Table) -> str:
    return str(table.column("site")[0])


def _numbered(tables: Sequence[pa.Table], start: int) -> Iterator[pa.Table]:
    """``tables`` with positions that go on from ``start``."""
    for table in tables:
        positions = pa.array(np.arange(start, start + table.num_rows))
        yield table.set_column(0, MATCH_SCHEMA.field(POSITION), positions)
        start += table.num_rows


def _by_site(
    positions: list[int],
    results: Sequence[Result],
    table: Callable[[Sequence[int], Sequence[Result]], pa.Table],
) -> list[pa.Table]:
    """One table per site, in order of their names."""
    sites: dict[str, list[int]] = {}
    for position in positions:
        sites.setdefault(results[position]["site"], []).append(position)
    return [table(sites[site], [results[p] for p in sites[site]]) for site in sorted(sites)]
