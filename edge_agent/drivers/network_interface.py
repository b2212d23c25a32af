"""The network interface that a device speaks through: its name and its hardware address."""

from __future__ import annotations

from typing import NamedTuple

import netifaces

from edge_agent.listening import is_loopback


class Interface(NamedTuple):
    """One interface. ``mac``: its hardware address in lower case without colons, or empty."""

    name: str
    mac: str
    addresses: tuple[str, ...]


def interfaces() -> list[Interface]:
    """All interfaces: the default route's first, then by name; loopback last."""
    first = _default_names()
    found = [_interface(name) for name in netifaces.interfaces()]
    return sorted(
        found,
        key=lambda each: (
            any(map(is_loopback, each.addresses)),
            first.index(each.name) if each.name in first else len(first),
            each.name,
        ),
    )


def interface_of(address: str) -> Interface | None:
    """The interface that has ``address``."""
    plain = address.partition("%")[0]
    return next((each for each in interfaces() if plain in each.addresses), None)


def default_source() -> str:
    """A name for this device that stays: of the first interface with a hardware address.

    It is ``device-`` and that address; ``device`` where there is none (a container may have none).
    """
    macs = [each.mac for each in interfaces() if each.mac.strip("0")]
    return f"device-{macs[0]}" if macs else "device"


def _default_names() -> list[str]:
    gateways = netifaces.gateways().get("default")
    return [entry[1] for entry in gateways.values()] if isinstance(gateways, dict) else []


def _interface(name: str) -> Interface:
    known = netifaces.ifaddresses(name)
    hardware = [entry.get("addr", "") for entry in known.get(netifaces.AF_LINK, [])]
    addresses = [
        entry["addr"].partition("%")[0]
        for family in (netifaces.AF_INET, netifaces.AF_INET6)
        for entry in known.get(family, [])
        if "addr" in entry
    ]
    mac = hardware[0].replace(":", "").lower() if hardware else ""
    return Interface(name, mac, tuple(addresses))
