"""Network interfaces by netifaces, and what Linux says of their links (/sys/class/net)."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from edge_agent.drivers.network_interface import interface_of, interfaces
from edge_agent.measure.findings import InterfaceFindings

SYSFS: Final = Path("/sys/class/net")
WIRELESS: Final = Path("/proc/net/wireless")
_LOOPBACK: Final = "772"
_ETHERNET: Final = "1"
_CELLULAR: Final = ("wwan", "wwp", "ppp", "rmnet")


def measured_interfaces(local_address: str) -> tuple[InterfaceFindings, ...]:
    """All interfaces, the default route's first. ``local_address``: what the gateway's way uses."""
    used = interface_of(local_address) if local_address else None
    signals = _signals(_text(WIRELESS))
    return tuple(
        InterfaceFindings(
            name=each.name, kind=kind_of(SYSFS / each.name), addresses=each.addresses,
            mtu=_number(SYSFS / each.name / "mtu"), speed_mbit=_number(SYSFS / each.name / "speed"),
            signal_dbm=signals.get(each.name), is_used=used is not None and used.name == each.name,
        )
        for each in interfaces()
    )  # fmt: skip


def kind_of(folder: Path) -> str:
    """Of the interface that ``folder`` of sysfs is about."""
    name = folder.name
    events = _text(folder / "uevent")
    if name == "lo" or _text(folder / "type") == _LOOPBACK:
        return "loopback"
    if not folder.exists():  # no sysfs here
        return "other"
    if (folder / "wireless").exists() or (folder / "phy80211").exists():
        return "wifi"
    if "DEVTYPE=wlan" in events:
        return "wifi"
    if "DEVTYPE=wwan" in events or name.startswith(_CELLULAR):
        return "cellular"
    if not (folder / "device").exists():
        return "virtual"
    return "ethernet" if _text(folder / "type") == _ETHERNET else "other"


def _signals(text: str) -> dict[str, int]:
    """Interface -> signal [dBm], of /proc/net/wireless: two lines of headings, then rows."""
    found = {}
    for line in text.splitlines()[2:]:
        name, _, rest = line.partition(":")
        cells = rest.split()
        if len(cells) > 2 and cells[2].rstrip(".").lstrip("-").isdigit():
            found[name.strip()] = int(cells[2].rstrip("."))
    return found


def _number(file: Path) -> int | None:
    """What a file of sysfs says; None: nothing, or -1 (unknown, as of a link that is down)."""
    text = _text(file)
    return int(text) if text.isdigit() else None


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""  # no such link or no such fact: both are told as unknown
