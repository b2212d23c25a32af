"""``slackwater doctor``: checks whether this machine can run slackwater, and names remedies.

It runs on every installation, so libraries beyond the base are imported only if installed. Judging
is pure (``check_*``: from measured values to a verdict); ``checks`` measures.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import IO, Final

from slackwater.engine.core.errors import EXTRAS, UserError
from slackwater.engine.hosts.java import (
    JAVA_MIN,
    Java,
    choose_java,
    install_line,
    installed_java,
    java_home,
)

__all__ = ["Check", "Status", "checks", "java_home", "report"]

PYTHON_MIN: Final = (3, 11)
GIB: Final = 2**30
MEMORY_GOOD: Final = 4 * GIB
"""Spark's JVM, two Python workers and the simulator need less than this."""
MEMORY_MIN: Final = 2 * GIB
DISK_GOOD: Final = 5 * GIB
DISK_MIN: Final = GIB
SPARK_UI_PORTS: Final = range(4040, 4056)
FSYNC_GOOD_NS: Final = 20_000_000
"""The gateway acks after an fsync: if it is slower than this, agents wait for it."""
FSYNC_WRITES: Final = 20
_REQUIREMENT: Final = re.compile(
    r"""(?P<name>[\w.-]+)(\[[^]]*])?(?P<versions>[^;]*)(; *extra *== *["'](?P<extra>[\w-]+)["'])?"""
)
"""A line of a wheel's requirements without other conditions."""


class Status(StrEnum):
    """Verdict of one check."""

    PASS = "PASS"  # noqa: S105 - not a password
    WARN = "WARN"
    """Works, but slower or only partly."""
    FAIL = "FAIL"


@dataclass(frozen=True, slots=True)
class Check:
    """One line of the doctor's report: name, verdict, finding, and remedy."""

    id: str
    status: Status
    value: str
    remedy: str = ""


def check_python(version: tuple[int, int, int]) -> Check:
    """Judge the running Python's ``version`` (major, minor, micro)."""
    text = ".".join(map(str, version))
    if version[:2] >= PYTHON_MIN:
        return Check("python", Status.PASS, text)
    return Check("python", Status.FAIL, text, "Install Python 3.11 or newer.")


def check_java(found: list[Java], install: str) -> Check:
    """Judge the Javas ``found`` (``engine.hosts.java.find_java``); ``install``: the remedy."""
    try:
        java = choose_java(found, install)
    except UserError:
        old = ", ".join(f"Java {java.major} at {java.home}" for java in found)
        remedy = f"For Spark, {JAVA_MIN}+; without it all runs in process. {install}"
        return Check("java", Status.WARN, old or "not found", remedy)
    return Check("java", Status.PASS, f"{java.major} at {java.home} (by {java.found_by})")


def check_amount(name: str, free: int, least: int, good: int, remedy: str) -> Check:
    """Judge ``free`` bytes of memory or disk by the ``least`` and the ``good`` amount."""
    status = Status.FAIL if free < least else Status.WARN if free < good else Status.PASS
    value = f"{free / GIB:.1f} GiB free"
    return Check(name, status, value, "" if status is Status.PASS else remedy)


def check_package(name: str, specifier: str, installed: str | None) -> Check:
    """Judge one package: ``specifier`` as in pyproject (``>=2.2,<3``), ``installed`` version."""
    remedy = f'Type: pip install "{name}{specifier}"'
    if installed is None:
        return Check(f"package {name}", Status.FAIL, "not installed", remedy)
    if not _fits(installed, specifier):
        return Check(f"package {name}", Status.FAIL, f"{installed}, not {specifier}", remedy)
    return Check(f"package {name}", Status.PASS, installed)


def _fits(version: str, specifier: str) -> bool:
    """Whether a version satisfies ``specifier``; True without ``packaging`` (extra
    ``[engine]``).
    """
    try:
        from packaging.specifiers import SpecifierSet  # noqa: PLC0415 - a device has none
    except ModuleNotFoundError:
        return True
    return bool(SpecifierSet(specifier).contains(version, prereleases=True))


def check_extra(
    extra: str, packages: Sequence[str], use: str, installed: Callable[[str], str | None]
) -> Check:
    """Judge an extra of the installation, which brings ``packages`` (import names) for ``use``."""
    versions = {name: installed(name) for name in packages}
    lacking = [name for name, version in versions.items() if version is None]
    if lacking:
        remedy = f"For {use}: pip install 'slackwater[{extra}]'"
        return Check(f"extra {extra}", Status.WARN, f"no {', '.join(lacking)}", remedy)
    seen = ", ".join(f"{name} {version}" for name, version in versions.items())
    return Check(f"extra {extra}", Status.PASS, seen)


def check_ports(can_listen: Callable[[int], bool]) -> list[Check]:
    """Judge the loopback interface; ``can_listen(port)`` tries TCP on 127.0.0.1 (0 = any port)."""
    if not can_listen(0):
        remedy = "Spark and its Python workers talk over 127.0.0.1: bring the interface lo up."
        return [Check("loopback", Status.FAIL, "cannot listen on 127.0.0.1", remedy)]
    free = next((port for port in SPARK_UI_PORTS if can_listen(port)), None)
    if free is None:
        busy = f"{SPARK_UI_PORTS[0]}-{SPARK_UI_PORTS[-1]} all taken"
        ui = Check("spark ui port", Status.WARN, busy, "Stop the Spark jobs that still run.")
    else:
        ui = Check("spark ui port", Status.PASS, f"{free} free")
    return [Check("loopback", Status.PASS, "127.0.0.1 listens"), ui]


def check_cache(folder: Path | None, *, writable: bool) -> Check:
    """Judge the folder of compiled kernels; None: Numba is missing, so nothing is compiled."""
    if folder is None:
        return Check("kernel cache", Status.WARN, "Numba is not installed", "See extra engine.")
    if writable:
        return Check("kernel cache", Status.PASS, str(folder))
    remedy = "Every start compiles again. Point SLACKWATER_CACHE to a folder that can be written."
    return Check("kernel cache", Status.WARN, f"{folder}: not writable", remedy)


def check_tokens(plain: Sequence[tuple[str, str]]) -> Check:
    """Judge where a site's tokens cross a network unencrypted (``site_file.plain_tokens``)."""
    if not plain:
        return Check("tokens", Status.PASS, "none crosses a network in clear")
    seen, remedies = zip(*plain, strict=True)
    return Check("tokens", Status.WARN, "; ".join(seen), "; ".join(remedies))


def check_fsync(waits_ns: Sequence[int]) -> Check:
    """Judge the time to make 4 KiB durable, from the waits of some writes [ns]."""
    middle, worst = median(waits_ns), max(waits_ns)
    value = f"median {middle / 1e6:.1f} ms, worst {worst / 1e6:.1f} ms"
    if middle <= FSYNC_GOOD_NS:
        return Check("fsync", Status.PASS, value)
    return Check("fsync", Status.WARN, value, "Put the arrival log on a faster (local) disk.")


def required_packages(requires: Sequence[str], extras: Sequence[str]) -> dict[str, str]:
    """Name -> specifier of the base install and ``extras``, from a wheel's requirement lines."""
    requirements = [_REQUIREMENT.fullmatch(line) for line in requires]
    return {
        each["name"]: each["versions"].strip("( )")
        for each in requirements
        if each and each["name"] != "slackwater" and (each["extra"] or "") in ("", *extras)
    }


def checks(folder: Path | None = None) -> list[Check]:
    """Measure and judge this machine.

    Args:
        folder: folder for output, whose disk is measured; None: the current folder.
    """
    where = folder or Path.cwd()
    cache = _cache_folder()
    return [
        check_python(sys.version_info[:3]),
        check_java(installed_java(), install_line()),
        check_amount("memory", _free_memory(), MEMORY_MIN, MEMORY_GOOD, "Close other programs."),
        check_amount(
            "disk", shutil.disk_usage(where).free, DISK_MIN, DISK_GOOD, f"Free space at {where}."
        ),
        *_check_packages(),
        *check_ports(_can_listen),
        check_cache(cache, writable=cache is not None and _is_writable(cache)),
        check_fsync(_fsync_waits(where)),
    ]


def report(found: list[Check], out: IO[str], *, as_json: bool = False) -> int:
    """Write the verdicts to ``out`` as a table or JSON; return the exit code, 1 on a FAIL."""
    if as_json:
        json.dump([asdict(check) for check in found], out, indent=2)
        out.write("\n")
    else:
        _print(found, out)
    return int(any(check.status is Status.FAIL for check in found))


def _print(found: list[Check], out: IO[str]) -> None:
    try:
        from rich.console import Console  # noqa: PLC0415 - a device has none
        from rich.markup import escape  # noqa: PLC0415
        from rich.table import Table  # noqa: PLC0415
    except ModuleNotFoundError:
        for check in found:
            out.write(f"{check.status}  {check.id}: {check.value}\n")
            out.write(f"      {check.remedy}\n" if check.remedy else "")
        return
    colours = {Status.PASS: "green", Status.WARN: "yellow", Status.FAIL: "red"}
    table = Table("check", "", "seen", "what to do", title="slackwater doctor")
    for check in found:
        verdict = f"[{colours[check.status]}]{check.status}[/]"
        table.add_row(check.id, verdict, escape(check.value), escape(check.remedy))
    Console(file=out).print(table)


def _check_packages() -> list[Check]:
    try:
        requires = metadata.requires("slackwater") or []
    except metadata.PackageNotFoundError:
        remedy = 'Type in the project\'s folder: pip install -e ".[engine]"'
        return [Check("package slackwater", Status.FAIL, "not installed", remedy)]
    base = required_packages(requires, ())
    optional = required_packages(requires, tuple(EXTRAS))
    brought_by = metadata.packages_distributions()

    def version(package: str) -> str | None:
        return _installed(brought_by.get(package, [package])[0])

    return [
        *(
            check_package(name, optional[name], _installed(name))
            for name in sorted(optional)
            if name in base or _installed(name) is not None
        ),
        *(check_extra(extra, has, use, version) for extra, (has, use) in EXTRAS.items()),
    ]


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _cache_folder() -> Path | None:
    try:
        from slackwater.engine.kernels.jit import cache_directory  # noqa: PLC0415 - not all that a device has
    except ImportError:
        return None
    return None if find_spec("numba") is None else cache_directory()


def _free_memory() -> int:
    """Bytes available to a new program: free memory, or the container's limit."""
    amounts = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    meminfo = Path("/proc/meminfo")
    if meminfo.exists():
        line = re.search(r"MemAvailable:\s*([0-9]+) kB", meminfo.read_text(encoding="ascii"))
        amounts += [int(line[1]) * 1024] if line else []
    limit = Path("/sys/fs/cgroup/memory.max")
    if limit.exists() and (text := limit.read_text(encoding="ascii").strip()).isdigit():
        amounts.append(int(text))
    return min(amounts)


def _can_listen(port: int) -> bool:
    with socket.socket() as listener:
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _is_writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _fsync_waits(folder: Path) -> list[int]:
    waits = []
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        for _ in range(FSYNC_WRITES):
            file.write(bytes(4096))
            start = time.perf_counter_ns()
            os.fsync(file.fileno())
            waits.append(time.perf_counter_ns() - start)
    return waits
