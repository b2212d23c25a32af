"""The settings file of ``slackwater emulate``: namespaces, and the links between them.

>>> read_emulation({"links": [{"between": ["device", "gateway"], "up": {"loss": 0.02}}]}).addresses
{'device': '10.203.0.1', 'gateway': '10.203.0.2'}
"""

from __future__ import annotations

import ipaddress
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from slackwater.engine.core.errors import UserError
from slackwater.simulator.links import LinkSettings
from slackwater.simulator.settings import check, parse, parse_many, parsed_by, units_needed

SECOND: Final = 10**9
MTU_MIN: Final = 576
"""Of IPv4 (RFC 791): what every host takes."""
MTU_MAX: Final = 65_535
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,14}")
_TAKEN: Final = {"lo", "all", "default"}
"""Devices are called as the namespaces that they lead to; these the kernel has already."""
_PREFIX: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}")


def _between(value: object, place: str) -> tuple[str, str]:
    if isinstance(value, str) or not isinstance(value, Sequence) or len(value) != 2:
        raise UserError(f"{place}: name two namespaces, not {value!r}")
    for name in value:
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name in _TAKEN:
            raise UserError(
                f"{place}: {name!r} is no name of a namespace: 1 to 15 letters, digits, - and _, "
                f"but not {', '.join(sorted(_TAKEN))}"
            )
    check(value[0] != value[1], place, "a link needs two different ends")
    return value[0], value[1]


def _link(value: object, place: str) -> LinkSettings:
    settings = parse(LinkSettings, value, place)
    if settings.reliable:
        raise UserError(
            f"{place}.reliable: leave it out; packets are not reliable, the kernel's TCP is"
        )
    return settings


@dataclass(frozen=True, slots=True, kw_only=True)
class EmulatedLink:
    """A link with both its directions.

    Attributes:
        between: the namespaces at its ends; at the first one, ``up`` is the way out.
        up: from the first to the second.
        down: from the second to the first; None: the same settings as ``up``.
        mtu: largest IP packet [bytes].
    """

    between: tuple[str, str] = field(metadata=parsed_by(_between))
    up: LinkSettings = field(default=LinkSettings(), metadata=parsed_by(_link))
    down: LinkSettings | None = field(default=None, metadata=parsed_by(_link))
    mtu: int = 1500

    def __post_init__(self) -> None:
        check(MTU_MIN <= self.mtu <= MTU_MAX, "mtu", f"must lie in {MTU_MIN}..{MTU_MAX}")

    @property
    def ways(self) -> tuple[tuple[str, str, str, LinkSettings], ...]:
        """Of both directions: from, to, name of the random generators, settings."""
        first, second = self.between
        name = f"link/{first}-{second}"
        back = self.up if self.down is None else self.down
        return (first, second, f"{name}/up", self.up), (second, first, f"{name}/down", back)


@dataclass(frozen=True, slots=True, kw_only=True)
class Emulation:
    """All that is emulated.

    Attributes:
        links: at least one; namespaces are those that they name.
        seed: root of all randomness (``simulator.seeds``).
        prefix: of the namespaces' names in the kernel.
        network: IPv4 network; namespaces get its addresses in the order of their naming.
        waiting_bytes_max: of packets under way on all links together; more are dropped, counted.
        realtime: whether the emulator runs before ordinary programs (SCHED_RR), so that its delays
            stay right on a busy machine.
        status: file with the counters, None: none.
        status_every_ns: how often it is written.
    """

    links: tuple[EmulatedLink, ...] = field(
        metadata=parsed_by(lambda value, place: parse_many(EmulatedLink, value, place))
    )
    seed: int = 1
    prefix: str = "slackwater-"
    network: str = "10.203.0.0/24"
    waiting_bytes_max: int = 64_000_000
    realtime: bool = True
    status: str | None = None
    status_every_ns: int = SECOND

    def __post_init__(self) -> None:
        check(bool(self.links), "links", "there must be at least one")
        check(self.seed >= 0, "seed", "must not be negative")
        named = _PREFIX.fullmatch(self.prefix) is not None
        check(named, "prefix", "write 1 to 32 letters, digits, - and _")
        check(self.waiting_bytes_max >= MTU_MAX, "waiting_bytes_max", f"at least {MTU_MAX}")
        check(self.status_every_ns >= SECOND // 100, "status_every", "at least 10 ms")
        pairs = [tuple(sorted(link.between)) for link in self.links]
        twice = next((pair for pair in pairs if pairs.count(pair) > 1), ("", ""))
        check(not twice[0], "links", f"there are two between {twice[0]} and {twice[1]}")
        try:
            room = ipaddress.IPv4Network(self.network).num_addresses - 2
        except ValueError as error:
            raise UserError(f"network: {error}") from error
        count = len(self.namespaces)
        check(count <= room, "network", f"has no room for {count} namespaces")

    @property
    def namespaces(self) -> list[str]:
        """Names without the prefix, in the order in which links name them."""
        return list(dict.fromkeys(name for link in self.links for name in link.between))

    @property
    def addresses(self) -> dict[str, str]:
        """IPv4 address of each namespace."""
        network = ipaddress.IPv4Network(self.network)
        # Not hosts(): a /8 has sixteen million.
        return {name: str(network[i]) for i, name in enumerate(self.namespaces, 1)}


def read_emulation(value: Any, place: str = "links") -> Emulation:
    """The emulation from plain dicts.

    Raises:
        UserError: the message begins with ``place`` and the key.
    """
    return parse(Emulation, value, place)


def read_links_file(path: Path) -> Emulation:
    """The emulation in a TOML file.

    Raises:
        UserError: no such file, no TOML, or a mistake in it; says where.
    """
    try:
        tables = tomllib.loads(path.read_bytes().decode("utf-8-sig"))  # Notepad writes a mark
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not TOML: {error}") from error
    with units_needed():
        return read_emulation(tables, str(path))
