"""The attributes of a trace's records as columns: one type for each attribute and site.

A log lets an attribute be a number at one site and text at another, and so do its lines. Columns
are of all sites that agree, which are mostly all: only those that do not go apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from edge_agent import records as r
from engine.log.record.attr_types import AttrTypes
from engine.log.record.record_rules import Fault

_NO_ATTRS: Final[dict[str, Any]] = {}
_NONE: Final = type(None)
_Kind = tuple[Any, ...]


class AttrColumns(NamedTuple):
    """Columns of the records in ``rows`` (int64, ascending); a record has one place in one."""

    rows: np.ndarray
    columns: dict[str, pa.Array]


@dataclass(slots=True)
class TraceAttrs:
    """The types seen so far of one trace's attributes, by site and name."""

    types: AttrTypes = field(default_factory=AttrTypes)

    def columns(
        self, records: Sequence[dict[str, Any]], lines: np.ndarray, sites: Sequence[str]
    ) -> tuple[list[AttrColumns], list[Fault]]:
        """Columns of the records, names in alphabetical order, and the first fault of each line.

        Args:
            records: of which ``attrs`` is looked at, checked by ``trace_record``.
            lines: their line numbers, ascending.
            sites: of each; types are those of a site.
        """
        each = [record.get(r.ATTRS) or _NO_ATTRS for record in records]
        names = sorted(set[str]().union(*each))
        kinds = {name: self._kinds(name, [attrs.get(name) for attrs in each], sites)
                 for name in names}  # fmt: skip
        apart = [name for name, found in kinds.items() if len(set(found.values())) > 1]
        groups: dict[_Kind, list[int]] = {}
        if apart:
            of_site = {site: tuple(kinds[name].get(site) for name in apart) for site in set(sites)}
            for row, site in enumerate(sites):
                groups.setdefault(of_site[site], []).append(row)
        else:
            groups[()] = list(range(len(records)))
        made: list[AttrColumns] = []
        faults: dict[int, Fault] = {}
        for rows in map(np.array, groups.values()):
            columns: dict[str, pa.Array] = {}
            for name in names:
                values = [each[row].get(name) for row in rows]
                of_sites = kinds[name].keys() & {sites[row] for row in rows}
                column, bad = self._column(name, values, lines[rows], sorted(of_sites))
                for one in bad:
                    faults.setdefault(one.line, one)
                if column is not None:
                    columns[name] = column
            made.append(AttrColumns(rows, columns))
        return made, list(faults.values())

    def _kinds(self, name: str, values: list[Any], sites: Sequence[str]) -> dict[str, _Kind]:
        """What the column of each site that has values must hold; one that no column can hold has
        a column for itself, as its faults are its own.
        """
        types: dict[str, set[type]] = {}
        for site, type_ in set(zip(sites, map(type, values), strict=True)):
            if type_ is not _NONE:
                types.setdefault(site, set()).add(type_)
        found: dict[str, _Kind] = {}
        for site, held in types.items():
            known = self.types.known.get((site, name))
            if known is not None:
                held.add(known.type)
            kind = float if held == {int, float} else next(iter(held)) if len(held) == 1 else None
            found[site] = (kind,) if kind is not None else (kind, site)
        return found

    def _column(
        self, name: str, values: list[Any], lines: np.ndarray, sites: list[str]
    ) -> tuple[pa.Array | None, list[Fault]]:
        """Of sites that agree, or of one."""
        if not sites:
            return None, []
        known = self.types.known
        keys = [(site, name) for site in sites]
        first = next((key for key in keys if key in known), keys[0])
        column, faults = self.types.column(first, values, lines, f'attribute "{name}"')
        if column is not None:
            for key in keys:
                if key not in known or known[key].type is not known[first].type:
                    known[key] = known[first]
        return column, faults
