"""What sources declare: equal schemas are kept once, and only while somebody is connected.

A HELLO of 64 KB becomes 260 KB of Python objects, so they are counted, and given back when
the last connection of the last source that declared them is gone: the next HELLO brings them again.
Types of attributes are kept for as long as the log may have them: for good, or, when nothing of a
source was ever recorded, until it leaves.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Final

from edge_agent.messages import StreamSchema

SITE_ATTRS_MAX: Final = 1024
_OBJECT_BYTES: Final = 200
"""Charged per name beside its characters: measured with msgpack's strings in dicts."""

Schemas = tuple[StreamSchema, ...]


class Refusal(Exception):  # noqa: N818 - a peer is refused; nothing went wrong here
    """A HELLO that is not accepted. ``retry``: the same HELLO may be accepted later.

    ``above``: see ``edge_agent.messages.ErrorMessage``.
    """

    def __init__(self, reason: str, detail: str, *, retry: bool, above: int | None = None) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail
        self.retry = retry
        self.above = above


def digest(schemas: Schemas) -> bytes:
    """Tells declarations apart; attributes count in their order."""
    text = repr([(schema.name, list(schema.attrs.items())) for schema in schemas])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


class SchemaStore:
    """Declarations in use, and every site's attribute types; ``bytes`` of both."""

    def __init__(self, attr_types: Mapping[str, Mapping[str, str]]) -> None:
        self.bytes = 0
        self._used: dict[bytes, tuple[Schemas, int, int]] = {}  # schemas, users, cost
        self._attr_types: dict[str, dict[str, tuple[str, int]]] = {}  # type, how many claim it
        for site, types in attr_types.items():
            self.claim(site, (StreamSchema("", dict(types)),))

    def new_types(self, site: str, schemas: Schemas) -> dict[str, str]:
        """The attributes among ``schemas`` that the site has not had yet.

        Raises:
            Refusal: ``attr_type`` (an attribute has another type elsewhere at the site) or
                ``attrs_max``.
        """
        known = self._attr_types.get(site, {})
        new: dict[str, str] = {}
        for schema in schemas:
            for name, kind in schema.attrs.items():
                have = known[name][0] if name in known else new.setdefault(name, kind)
                if have != kind:
                    detail = f"attribute {name} is {kind} here and {have} elsewhere at the site"
                    raise Refusal("attr_type", detail, retry=False)
        if len(known) + len(new) > SITE_ATTRS_MAX:
            raise Refusal("attrs_max", f"{SITE_ATTRS_MAX} attributes at one site", retry=False)
        return {name: kind for name, kind in new.items() if name not in known}

    def cost(self, declared: bytes, schemas: Schemas, new: Mapping[str, str]) -> int:
        """Bytes that ``hold`` and ``claim`` would add."""
        return (0 if declared in self._used else _cost(schemas)) + _names_cost(new)

    def hold(self, declared: bytes, schemas: Schemas) -> Schemas:
        """One copy of ``schemas``, whose digest is ``declared``, until as many ``release``."""
        kept, users, cost = self._used.get(declared) or (schemas, 0, _cost(schemas))
        if not users:
            self.bytes += cost
        self._used[declared] = (kept, users + 1, cost)
        return kept

    def release(self, declared: bytes) -> None:
        """Takes back one ``hold``."""
        kept, users, cost = self._used[declared]
        if users > 1:
            self._used[declared] = (kept, users - 1, cost)
        else:
            del self._used[declared]
            self.bytes -= cost

    def claim(self, site: str, schemas: Schemas) -> None:
        """The log may have the attributes of ``schemas`` at ``site`` from now on."""
        known = self._attr_types.setdefault(site, {})
        for schema in schemas:
            for name, kind in schema.attrs.items():
                users = known[name][1] if name in known else 0
                known[name] = (kind, users + 1)
                self.bytes += 0 if users else _names_cost((name,))

    def give_up(self, site: str, schemas: Schemas) -> None:
        """Takes back one ``claim``: nothing with these attributes was recorded because of it."""
        known = self._attr_types[site]
        for schema in schemas:
            for name in schema.attrs:
                kind, users = known[name]
                if users > 1:
                    known[name] = (kind, users - 1)
                else:
                    del known[name]
                    self.bytes -= _names_cost((name,))
        if not known:
            del self._attr_types[site]


def _names_cost(names: Iterable[str]) -> int:
    return sum(_OBJECT_BYTES + len(name) for name in names)


def _cost(schemas: Schemas) -> int:
    return sum(
        2 * _OBJECT_BYTES + len(schema.name) + _names_cost(schema.attrs) for schema in schemas
    )
