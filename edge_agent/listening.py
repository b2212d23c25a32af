"""Address and access of a small web server, and the files of TLS."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import netifaces

from slackwater.edge_agent.errors import SettingsError
from slackwater.edge_agent.settings_file import Table

# TLS to a peer: the files that the settings name, and the context of connections.


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """PEM files. ``authorities`` None: the system's; certificate and key identify this device."""

    authorities: Path | None
    certificate: Path | None
    key: Path | None

    def context(self) -> ssl.SSLContext:
        """Make the context of connections.

        Raises:
            SettingsError: a file cannot be read, or holds no certificate or key.
        """
        named, files = "authorities", [self.authorities]
        try:
            context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=self.authorities)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            if self.certificate is not None:
                named, files = "certificate", [self.certificate, self.key]
                context.load_cert_chain(self.certificate, self.key)
        except OSError as error:
            said = ", ".join(map(str, files))
            raise SettingsError(f"{named}: {said}: {error.strerror or error}") from error
        return context


def read_tls(table: Table, folder: Path) -> TlsFiles | None:
    """Read the settings ``on authorities certificate key``; None: no TLS. Files are relative to
    ``folder`` and are read here, so that a mistake is reported early.

    Raises:
        SettingsError: files without ``on``, half a pair, or a file that is not valid for TLS.
    """
    on = table.flag("on", False)
    names = {name: table.text(name, "") for name in ("authorities", "certificate", "key")}
    if bool(names["certificate"]) != bool(names["key"]):
        raise table.wrong("certificate", "certificate and key go together")
    if not on:
        if any(names.values()):
            raise table.wrong("on", "write true: files of TLS are given")
        return None
    paths = {name: folder / value if value else None for name, value in names.items()}
    files = TlsFiles(**paths)
    try:
        files.context()
    except SettingsError as error:
        named, _, problem = str(error).partition(": ")
        raise table.wrong(named, problem) from error
    return files


# Address and access of a small web server: an agent's metrics, a gateway's page.
#
# Without a token only this machine gets answers, so an address that others can reach needs one.


TOKEN_LEAST: Final = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Listening:
    """``port`` 0: any free port. ``token``: required in requests; empty: none."""

    listen: str = "127.0.0.1"
    port: int = 0
    token: str = field(default="", repr=False)


def read_listening(table: Table, port: int) -> Listening:
    """Read ``listen port token`` of ``table``; ``port``: the default.

    Raises:
        SettingsError: an address that others can reach without a token, or a short token.
    """
    listen = table.host("listen", "127.0.0.1")
    token = table.text("token", "", secret=True)
    if token and len(token) < TOKEN_LEAST:
        raise table.wrong("token", f"can be guessed: at least {TOKEN_LEAST} characters")
    if not token and not is_loopback(listen):
        raise table.wrong(
            "token", f"must be given, as others can reach {listen}; or listen at 127.0.0.1"
        )
    return Listening(listen=listen, port=table.integer("port", port, 0, 65_535), token=token)


def is_loopback(host: str) -> bool:
    """Whether ``host`` (an address or ``localhost``) can only be this machine.

    An IPv6 socket reports an IPv4 peer by a mapped address (RFC 4291, 2.5.5.2), which Python before
    3.13 does not treat as loopback; an address may name its interface (``%lo``).

    >>> is_loopback("::ffff:127.0.0.1"), is_loopback("localhost"), is_loopback("10.0.0.1")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return bool((mapped or address).is_loopback)


def names_this_machine(host_field: str) -> bool:
    """Whether the ``Host`` of a request is this machine, and not a name that a foreign site
    resolves to this address.
    """
    try:
        return is_loopback(urlsplit(f"//{host_field}").hostname or "")
    except ValueError:
        return False


# Network interfaces: names, hardware addresses and addresses.


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
    """A permanent name for this device, from the first interface with a hardware address:
    ``device-`` and that address; ``device`` if there is none, as in some containers.
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
