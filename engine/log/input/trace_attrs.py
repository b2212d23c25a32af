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
        several = set(sites)
        groups: dict[_Kind, list[int]] = {(): list(range(len(records)))}
        if len(several) > 1:
            kinds = [self._kinds(name, [attrs.get(name) for attrs in each], sites)
                     for name in names]  # fmt: skip
            apart = [found for found in kinds if len(set(found.values())) > 1]
            if apart:
                groups = {}
                of_site = {site: tuple(found.get(site) for found in apart) for site in several}
                for row, site in enumerate(sites):
                    groups.setdefault(of_site[site], []).append(row)
        known = self.types.known
        made: list[AttrColumns] = []
        faults: dict[int, Fault] = {}
        for rows in groups.values():
            whole = len(rows) == len(each)
            mine = each if whole else [each[row] for row in rows]
            of = sites if whole else [sites[row] for row in rows]
            places = np.array(rows, np.int64)
            columns: dict[str, pa.Array] = {}
            for name in names:
                values = [attrs.get(name) for attrs in mine]
                having = several if len(several) == 1 else {
                    site for site, value in zip(of, values, strict=True) if value is not None
                }  # fmt: skip
                if not having:
                    continue
                keys = [(site, name) for site in sorted(having)]
                first = next((key for key in keys if key in known), keys[0])
                label = f'attribute "{name}"'
                column, bad = self.types.column(first, values, lines[places], label)
                for one in bad:
                    faults.setdefault(one.line, one)
                if column is not None:
                    columns[name] = column
                    found = known[first]
                    known.update({
                        key: found for key in keys
                        if key not in known or known[key].type is not found.type
                    })  # fmt: skip
            made.append(AttrColumns(places, columns))
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
