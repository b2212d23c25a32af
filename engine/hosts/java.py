"""Find the Java for Spark: JAVA_HOME, then PATH, then the usual folders.

It imports only the standard library, as ``scripts/setup.py`` uses it before the installation.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from slackwater.engine.core.errors import EXTRAS, UserError

JAVA_MIN: Final = 17
"""Oldest Java that PySpark 4 supports."""
JVM_FOLDERS: Final = (
    "/usr/lib/jvm/*",
    "/opt/java/*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
)
_VERSION: Final = re.compile(r'version "(?:1\.)?([0-9]+)')
_OS_RELEASE: Final = Path("/etc/os-release")
# The first release whose default Java is new enough; it may lack openjdk-17.
_DEFAULT_JRE_FROM: Final = {"debian": 13, "ubuntu": 25}


@dataclass(frozen=True, slots=True)
class Java:
    """A Java installation: home folder, major version, and how it was found."""

    home: Path
    major: int
    found_by: str


def major_version(text: str) -> int | None:
    """Return the major version in the output of ``java -version``: 8 of ``1.8.0_392``, 17 of
    ``17.0.2``; None if it has no version.
    """
    found = _VERSION.search(text)
    return int(found[1]) if found else None


def ask_version(java: Path) -> str:
    """Return the output of ``java -version``; empty if it cannot be run."""
    try:
        done = subprocess.run(  # noqa: S603 - a path found on this machine
            [java, "-version"], check=False, capture_output=True, text=True, timeout=20
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""  # not a working Java: the caller tries the next place
    return done.stderr + done.stdout


def find_java(
    environ: Mapping[str, str],
    which: Callable[[str], str | None],
    folders: Iterable[Path],
    version: Callable[[Path], str] = ask_version,
) -> list[Java]:
    """Return every working Java, in the order of preference.

    Args:
        environ: has JAVA_HOME, if it is set.
        which: finds a program on PATH.
        folders: further homes; tried from the oldest version to the newest.
        version: returns the output of ``java -version`` for a ``bin/java``.
    """
    places = []
    if environ.get("JAVA_HOME"):
        places.append((Path(environ["JAVA_HOME"]), "JAVA_HOME"))
    on_path = which("java")
    if on_path is not None:
        places.append((Path(on_path).resolve().parent.parent, "PATH"))
    found = [_probe(home, found_by, version) for home, found_by in places]
    others = [_probe(home, str(home.parent), version) for home in sorted(folders)]
    return [java for java in found if java] + sorted(
        (java for java in others if java), key=lambda java: java.major
    )


def _probe(home: Path, found_by: str, version: Callable[[Path], str]) -> Java | None:
    program = home / "bin" / "java"
    if not program.exists():
        return None
    major = major_version(version(program))
    return None if major is None else Java(home, major, found_by)


def choose_java(found: list[Java], install: str) -> Java:
    """Return the first Java that is new enough.

    Args:
        found: result of ``find_java``.
        install: the line that installs Java on this system, for the message.

    Raises:
        UserError: none is new enough; the message says what was found and what to type.
    """
    for java in found:
        if java.major >= JAVA_MIN:
            return java
    old = ", ".join(f"Java {java.major} at {java.home}" for java in found)
    raise UserError(
        f"Spark needs Java {JAVA_MIN} or newer; found {old or 'none'} "
        f"(looked at JAVA_HOME, PATH and {JVM_FOLDERS[0]}). {install}"
    )


def apt_package(os_release: str | None = None) -> str | None:
    """Return the Debian or Ubuntu package with a suitable Java; None on other systems.

    Args:
        os_release: text of /etc/os-release; None: read the file.
    """
    system, release = _system(_read_os_release() if os_release is None else os_release)
    if system not in _DEFAULT_JRE_FROM:
        return None
    is_new = release is None or release >= _DEFAULT_JRE_FROM[system]
    return "default-jre-headless" if is_new else f"openjdk-{JAVA_MIN}-jre-headless"


def install_line(os_release: str | None = None) -> str:
    """Return what to type to install Java on this system."""
    text = _read_os_release() if os_release is None else os_release
    package = apt_package(text)
    if package is not None:
        return f"Type: sudo apt-get install {package}"
    system, _ = _system(text)
    if system == "fedora":
        return f"Type: sudo dnf install java-{JAVA_MIN}-openjdk-headless"
    return f"Install a Java runtime (OpenJDK {JAVA_MIN} or newer) and set JAVA_HOME to its folder."


def _read_os_release() -> str:
    return _OS_RELEASE.read_text(encoding="utf-8") if _OS_RELEASE.exists() else ""


def _system(os_release: str) -> tuple[str, int | None]:
    """Return family (``debian``, ``ubuntu``, ``fedora`` or another id) and major release."""
    fields = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', os_release, re.MULTILINE))
    names = [fields.get("ID", ""), *fields.get("ID_LIKE", "").split()]
    family = next((name for name in names if name in {*_DEFAULT_JRE_FROM, "fedora"}), names[0])
    number = re.match(r"[0-9]+", fields.get("VERSION_ID", "")) if family == names[0] else None
    return family, int(number[0]) if number else None


def installed_java() -> list[Java]:
    """Return every working Java of this machine, in the order of preference."""
    folders = [home for pattern in JVM_FOLDERS for home in Path("/").glob(pattern[1:])]
    return find_java(os.environ, shutil.which, folders)


def java_home() -> Path:
    """Return the home of the Java for Spark.

    Raises:
        UserError: no Java 17 or newer; the message says what to install.
    """
    return choose_java(installed_java(), install_line()).home


def spark_lacks() -> str:
    """Return what Spark lacks on this machine, and what to type; empty: nothing."""
    missing = [name for name in EXTRAS["spark"][0] if find_spec(name) is None]
    said = [f"Spark needs {', '.join(missing)}: pip install 'slackwater[spark]'"] if missing else []
    try:
        java_home()
    except UserError as error:
        said.append(str(error))
    return ". ".join(said)


def need_spark(instead: str) -> None:
    """Refuse work that needs Spark if Spark cannot run.

    Args:
        instead: how to continue without Spark, as "drop --spark".

    Raises:
        UserError: Spark cannot run; the message says what to install.
    """
    lacks = spark_lacks()
    if lacks:
        raise UserError(f"{lacks.removesuffix('.')}; or {instead}")
