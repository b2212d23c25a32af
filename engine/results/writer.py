"""Sink of query results: tables per micro-batch, each kind of results apart."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from engine.operator import Result
from engine.results.kinds import KINDS, ResultKind, kind_of
from engine.results.schema import POSITION
from engine.results.store.part_store import PartStore


def write_results(
    store: PartStore,
    batch_id: int,
    results: Sequence[Result],
    tables: Mapping[str, Sequence[pa.Table]] = MappingProxyType({}),
) -> list[Path]:
    """Makes all that is given the whole of batch ``batch_id``; gives its files.

    Each file appears whole. After a crash between two files of a batch the host writes the batch
    again (Spark does, from its checkpoint), which completes it.

    Args:
        store: where to.
        batch_id: micro-batch, from 0; later ones hold later results. In a store that does not last
            each is written once.
        results: each site's in the order of emission; sites may be mixed.
        tables: more of them, by kind, as tables of its schema with one site each, each site's in
            the order of emission; of queries that ``results`` are not of.

    Raises:
        UserError: the directory cannot be written.
        ContractViolation: a result without the fields of DESIGN "Results".
    """
    kinds = [kind_of(result) for result in results]
    files: list[Path] = []
    for name, kind in KINDS.items():
        found = list(_numbered(tables.get(name, ()), len(results)))
        if kind in kinds:
            chosen = [place for place, each in enumerate(kinds) if each is kind]
            found = [*_by_site(chosen, results, kind), *found]
        # By site, and as a file has one schema, by that.
        parts: dict[pa.Schema, list[pa.Table]] = {}
        if len(found) > 1:
            found.sort(key=_site_of)
        for table in found:
            parts.setdefault(table.schema, []).append(table)
        if found or store.is_lasting:
            files += store.replace(name, batch_id, list(parts.values()))
    return files


def _site_of(table: pa.Table) -> str:
    return str(table.column("site")[0].as_py())


def _numbered(tables: Sequence[pa.Table], start: int) -> Iterator[pa.Table]:
    """``tables`` with positions that go on from ``start``."""
    for table in tables:
        positions = pa.array(np.arange(start, start + table.num_rows))
        yield table.set_column(0, POSITION, positions)
        start += table.num_rows


def _by_site(positions: list[int], results: Sequence[Result], kind: ResultKind) -> list[pa.Table]:
    """One table per site, in order of their names."""
    sites: dict[str, list[int]] = {}
    for position in positions:
        sites.setdefault(results[position]["site"], []).append(position)
    return [kind.rows(sites[site], [results[p] for p in sites[site]]) for site in sorted(sites)]
