"""Installs the programs of the tests with real sockets behind emulated links, where it may.

As root on Debian and Ubuntu (``SLACKWATER_NO_APT=1`` forbids it); elsewhere it says what the tests
will miss. They skip, and say so, where something lacks.
"""

from __future__ import annotations

import shutil

from setup import apt_install, may_use_apt

PROGRAMS = {"ip": "iproute2", "ping": "iputils-ping", "faketime": "faketime", "chronyd": "chrony"}


def main() -> None:
    """Installs what is missing."""
    missing = [package for program, package in PROGRAMS.items() if shutil.which(program) is None]
    if missing and not may_use_apt():
        print(f"tests with emulated links will skip: they need root, and {', '.join(missing)}")
        return
    for package in missing:
        apt_install(package)


if __name__ == "__main__":
    main()
