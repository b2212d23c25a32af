"""Kernel objects of an emulation: network namespaces, and TUN devices between them.

Everything is made with iproute2's ``ip``. A TUN device lives as long as its file is open, so that a
killed emulator leaves namespaces alone. Each namespace has a lock file that its maker holds: who
finds one that nobody holds removes the namespace, whatever it was called.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import struct
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from slackwater.engine.core.errors import SlackwaterError, UserError
from slackwater.simulator.emulator.settings import Emulation

LOCKS: Final = Path("/run/slackwater/namespaces")
QUEUE_PACKETS: Final = 1000
"""Of each device, until the emulator reads them; what finds no room is counted by the kernel."""
_TUN: Final = Path("/dev/net/tun")
_TUNSETIFF: Final = 0x400454CA
_IFF_TUN: Final = 0x0001
_IFF_NO_PI: Final = 0x1000
"""Packets as they are, without a header of the driver."""
_NAME_BYTES: Final = 16
_ANY_NAME: Final = b"swtun%d"
"""The kernel puts a number that is free."""


def check_machine() -> None:
    """Whether links can be emulated here.

    Raises:
        UserError: not root.
        SlackwaterError: the kernel or a program lacks something; says what to do.
    """
    if os.geteuid() != 0:
        raise UserError(
            "emulate makes network namespaces and devices, and must be run as root: "
            "sudo slackwater emulate ... (--check needs no root)"
        )
    if shutil.which("ip") is None:
        raise SlackwaterError("emulate needs the program ip; on Debian: apt install iproute2")
    if not _TUN.exists():
        raise SlackwaterError(f"{_TUN} is not there; try: modprobe tun")


def ip(*words: str, script: str = "") -> str:
    """Runs ``ip``; ``script``: lines for its ``-batch -``. Gives what it prints.

    Raises:
        SlackwaterError: it failed; says how.
    """
    done = subprocess.run(  # noqa: S603 - no shell, and names are checked by the settings
        ["ip", *words],  # noqa: S607 - where ip is differs from system to system
        input=script, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        said = " ".join(done.stderr.split())
        raise SlackwaterError(f"ip {' '.join(words)}: {said}")
    return done.stdout


class Namespaces:
    """The namespaces of one emulation, from ``make`` until ``remove``."""

    def __init__(self, emulation: Emulation) -> None:
        self.names = {name: emulation.prefix + name for name in emulation.namespaces}
        """In the kernel, by the name in the settings."""
        self._made: list[str] = []
        self._locks: list[int] = []

    def make(self) -> None:
        """Makes them, with their loopback up.

        Raises:
            UserError: somebody else has one of them.
            SlackwaterError: the kernel refuses.
        """
        LOCKS.mkdir(parents=True, exist_ok=True)
        remove_abandoned()
        for name in self.names.values():
            self._locks.append(_locked(name))
            ip("netns", "add", name)
            self._made.append(name)
            # Packets of the kernel's own (router solicitations) would take draws of the links.
            quiet = "test ! -e $0 || echo 1 > $0"
            ip(
                "netns", "exec", name, "sh", "-c", quiet,
                "/proc/sys/net/ipv6/conf/all/disable_ipv6",
            )  # fmt: skip
            ip("-n", name, "link", "set", "dev", "lo", "up")

    def remove(self) -> None:
        """Removes what ``make`` made; what still runs in them loses its network."""
        there = _existing()
        for name in self._made:
            if name in there:  # the user may have removed it
                ip("netns", "del", name)
        for name in self.names.values():
            if self._locks:
                _lock_file(name).unlink(missing_ok=True)
                os.close(self._locks.pop(0))
        self._made.clear()

    def device(self, at: str, to: str, addresses: dict[str, str], mtu: int) -> int:
        """A device in the namespace ``at``, called as the namespace ``to`` that it leads to.

        Returns:
            Its file: packets that are sent through it are read there, and what is written there
            is received. Close it to remove the device.

        Raises:
            SlackwaterError: the kernel refuses.
        """
        file = os.open(_TUN, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            request = struct.pack(f"{_NAME_BYTES}sH22x", _ANY_NAME, _IFF_TUN | _IFF_NO_PI)
            made = fcntl.ioctl(file, _TUNSETIFF, request)
            name = made[:_NAME_BYTES].rstrip(b"\0").decode()
            ip("link", "set", "dev", name, "netns", self.names[at], "name", to)
            script = (
                f"link set dev {to} mtu {mtu} txqueuelen {QUEUE_PACKETS}\n"
                f"addr add {addresses[at]} peer {addresses[to]} dev {to}\n"
                f"link set dev {to} up\n"
            )
            ip("-n", self.names[at], "-batch", "-", script=script)
        except OSError as error:
            os.close(file)
            raise SlackwaterError(f"{_TUN}: {error.strerror}") from error
        except BaseException:
            os.close(file)
            raise
        return file

    def dropped(self, at: str, to: str) -> int:
        """Packets that the device's own queue had no room for: the emulator was too slow."""
        said = json.loads(ip("-n", self.names[at], "-j", "-s", "link", "show", "dev", to))
        return int(said[0]["stats64"]["tx"]["dropped"])


def remove_abandoned() -> None:
    """Removes the namespaces of emulators that were killed."""
    for path in sorted(LOCKS.iterdir()):
        try:
            lock = _locked(path.name)
        except UserError:
            continue  # its maker lives
        if path.name in _existing():
            ip("netns", "del", path.name)
        path.unlink(missing_ok=True)
        os.close(lock)


def _existing() -> Iterable[str]:
    return [line.split()[0] for line in ip("netns", "list").splitlines() if line]


def _lock_file(name: str) -> Path:
    return LOCKS / name


def _locked(name: str) -> int:
    """The lock of a namespace, held; it ends with this process."""
    while True:
        lock = os.open(_lock_file(name), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(lock)
            raise UserError(
                f"another emulator is running with namespace {name}: stop it, or give this one "
                "another prefix"
            ) from error
        # Its holder may have removed the file while we waited for it.
        if _is_file(lock, name):
            return lock
        os.close(lock)


def _is_file(lock: int, name: str) -> bool:
    try:
        there = _lock_file(name).stat()
    except FileNotFoundError:
        return False
    return os.fstat(lock).st_ino == there.st_ino
