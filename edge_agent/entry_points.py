"""Kinds that settings name, found as entry points of a group: ours and those of packages.

An installed package adds a kind in its pyproject.toml. Ours are written in the same form, so that
they are found where no package's metadata is (a checkout, a zip file), and so that a program that
needs no other starts without looking through all packages. A kind is loaded when settings name it;
what it lacks is named with the extra that brings it.
"""

from __future__ import annotations

import importlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from slackwater.edge_agent.settings_file import Table, unknown


class Kind(NamedTuple):
    """Where the maker of a kind is: an entry point, as packages write them."""

    maker: str
    """``module:function``"""
    extras: tuple[str, ...] = ()
    package: str = "slackwater"


class NamedMaker(NamedTuple):
    """What one table names: its ``name``, which is of it alone, and the maker of its kind."""

    name: str
    table: Table
    maker: Any


def read_kinds(
    tables: Sequence[Table], ours: Mapping[str, Kind], group: str, what: str
) -> list[NamedMaker]:
    """The settings ``kind`` and ``name`` (default: the kind, and its number from the second on).

    Args:
        tables: one of each.
        ours: by name; they count where a package has the same name.
        group: of entry points, for those of packages.
        what: they are, in the plural, for messages.

    Raises:
        SettingsError: a kind that is not known or cannot be used, a name that two have, a package
            that is not installed.
    """
    found: dict[str, NamedMaker] = {}
    count: Counter[str] = Counter()
    for table in tables:
        kind = table.text("kind")
        maker = _maker(ours.get(kind) or _of_package(kind, table, ours, group), table)
        count[kind] += 1
        name = table.text("name", kind if count[kind] == 1 else f"{kind}-{count[kind]}")
        if name in found:
            raise table.wrong("name", f'two {what} are called "{name}"')
        found[name] = NamedMaker(name, table, maker)
    return list(found.values())


def _of_package(name: str, table: Table, ours: Mapping[str, Kind], group: str) -> Kind:
    from importlib.metadata import entry_points  # noqa: PLC0415 - a third of an agent's start

    others = {
        each.name: Kind(
            f"{each.module}:{each.attr}", tuple(each.extras),
            each.name if each.dist is None else each.dist.name,
        )
        for each in entry_points(group=group)
    }  # fmt: skip
    if name not in others:
        raise table.wrong("kind", unknown(name, {**others, **ours}))
    return others[name]


def _maker(kind: Kind, table: Table) -> Any:
    module, _, name = kind.maker.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        lacking = (error.name or str(error)).partition(".")[0]
        extras = f"[{','.join(kind.extras)}]" if kind.extras else ""
        remedy = f"pip install '{kind.package}{extras}'"
        raise table.wrong("kind", f"it needs {lacking}: {remedy}") from error
    except (ImportError, AttributeError) as error:
        raise table.wrong("kind", f"{kind.maker} cannot be used: {error}") from error
