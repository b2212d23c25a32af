"""Records of sites that disagree on an attribute's type, apart from each other.

A log lets an attribute be a number at one site and text at another, and so does a trace. A column
has one type, so it is of all sites that agree, which are mostly all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa

from edge_agent import records as r
from engine.log.record.attr_types import KnownType

_NONE: Final = type(None)
_Kind = type | str | None
"""What a site's column must hold: of a type, or, where none can hold it, of that site alone, whose
fault it is; None: nothing.
"""
Part = tuple[list[dict[str, Any]], np.ndarray, dict[str, pa.Array]]


def agreeing(
    records: list[dict[str, Any]], lines: np.ndarray, columns: dict[str, pa.Array],
    known: Mapping[Any, KnownType],
) -> list[Part]:  # fmt: skip
    """Parts of which each attribute fits in one column, in order within; the whole, if sites agree.

    Args:
        records: of which ``attrs`` is looked at, checked by ``trace_record``.
        lines: their line numbers, ascending.
        columns: of other fields, of equal length.
        known: types from before, by site and name.
    """
    sites = [record.get(r.SITE) or r.DEFAULT_SITE for record in records]
    several = set(sites)
    apart = _apart(records, sites, known) if len(several) > 1 else []
    if not apart:
        return [(records, lines, columns)]
    of_site = {site: tuple(kinds.get(site) for kinds in apart) for site in several}
    groups: dict[tuple[_Kind, ...], list[int]] = {}
    for row, site in enumerate(sites):
        groups.setdefault(of_site[site], []).append(row)
    parts = []
    for rows in groups.values():
        own = {name: column.take(pa.array(rows)) for name, column in columns.items()}
        parts.append(([records[row] for row in rows], lines[rows], own))
    return parts


def _apart(
    records: Sequence[dict[str, Any]], sites: Sequence[str], known: Mapping[Any, KnownType]
) -> list[dict[str, _Kind]]:
    """Kinds by site, of each attribute on which sites disagree."""
    attrs = [record.get(r.ATTRS) or {} for record in records]
    found = []
    for name in sorted(set[str]().union(*attrs)):
        types: dict[str, set[type]] = {}
        for site, type_ in set(zip(sites, (type(each.get(name)) for each in attrs), strict=True)):
            if type_ is not _NONE:
                types.setdefault(site, set()).add(type_)
        kinds = {site: _kind(site, held, known.get((site, name))) for site, held in types.items()}
        if len(set(kinds.values())) > 1:
            found.append(kinds)
    return found


def _kind(site: str, held: set[type], known: KnownType | None) -> _Kind:
    types = held if known is None else held | {known.type}
    if types == {int, float}:
        return float
    return next(iter(types)) if len(types) == 1 else site
