"""TLS to a peer: the files that settings name, and what connections are made with."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path

from edge_agent.errors import SettingsError
from edge_agent.settings_file import Table


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """PEM files. ``authorities`` None: those of the system; certificate and key: of this device."""

    authorities: Path | None
    certificate: Path | None
    key: Path | None

    def context(self) -> ssl.SSLContext:
        """What connections are made with.

        Raises:
            SettingsError: a file that cannot be read, or holds no certificate or key.
        """
        try:
            context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=self.authorities)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            if self.certificate is not None:
                context.load_cert_chain(self.certificate, self.key)
        except OSError as error:
            files = ", ".join(
                str(each) for each in (self.authorities, self.certificate, self.key) if each
            )
            raise SettingsError(f"[tls] {files}: {error.strerror or error}") from error
        return context


def read_tls(table: Table, folder: Path) -> TlsFiles | None:
    """The settings ``on authorities certificate key``; None: no TLS. Files are in ``folder``.

    Raises:
        SettingsError: files without ``on``, or half a pair.
    """
    on = table.flag("on", False)
    given = {name: table.text(name, "") for name in ("authorities", "certificate", "key")}
    if bool(given["certificate"]) != bool(given["key"]):
        raise table.wrong("certificate", "certificate and key go together")
    if not on:
        if any(given.values()):
            raise table.wrong("on", "write true: files of TLS are given")
        return None
    paths = {name: folder / value if value else None for name, value in given.items()}
    return TlsFiles(**paths)
