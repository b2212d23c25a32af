"""Sets up the development environment: .venv with pinned packages, and Java for Spark.

``make`` runs it with the system's Python before anything else, again when pyproject.toml,
constraints.txt or this file change. It needs nothing but the standard library. As root on
Debian and Ubuntu it installs what is missing with apt (``SLACKWATER_NO_APT=1`` forbids it);
otherwise it says exactly what to type and exits with 1.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / ".ready"
PYTHON_MIN = (3, 11)
_BEGUN = ("Collecting ", "Processing ", "Requirement already satisfied: ", "Obtaining ")
"""How a line of pip's begins that is about a package for the first time."""


def fail(message: str) -> NoReturn:
    """Ends the set-up with what is wrong and what to do."""
    sys.exit(f"set-up: {message}")


def may_use_apt() -> bool:
    """Whether packages may be installed: root, apt present, and not forbidden."""
    return (
        os.geteuid() == 0
        and shutil.which("apt-get") is not None
        and not os.environ.get("SLACKWATER_NO_APT")
    )


def apt_install(package: str) -> None:
    """Installs one Debian package without asking and without recommended extras."""
    print(f"set-up: apt-get install {package}", flush=True)
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update"], ["install", "-y", "--no-install-recommends", package]):
        done = subprocess.run(
            ["apt-get", "-qq", *arguments],
            env=quiet, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        if done.returncode:
            fail(f"apt-get {' '.join(arguments)} failed:\n{done.stdout}")


def make_venv() -> None:
    """Creates .venv unless a working one is there."""
    python = VENV / "bin" / "python"
    has_pip = python.exists() and (VENV / "bin" / "pip").exists()
    if has_pip and subprocess.run([python, "-c", ""], check=False).returncode == 0:
        return
    if importlib.util.find_spec("ensurepip") is None:
        # Debian and Ubuntu keep ensurepip, which venv needs, in a package of its own.
        package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
        if not may_use_apt():
            fail(
                "python3 cannot make virtual environments here. Type\n"
                "    sudo apt-get install python3-venv\n"
                f"(or {package}) and run make again."
            )
        apt_install(package)
    print("set-up: creating .venv", flush=True)
    subprocess.run([sys.executable, "-m", "venv", "--clear", VENV], check=True)


def install_packages() -> None:
    """Installs slackwater in place, and what development needs by version and hash."""
    print("set-up: installing packages (some minutes the first time)", flush=True)
    pins = ROOT / "constraints.txt"
    pinned = len(
        re.findall(
            r"^[\w.-]+==(?!.*(?:win32|'nt'))", pins.read_text(encoding="utf-8"), re.MULTILINE
        )
    )
    pip_install("--require-hashes", "-r", pins, packages=pinned)
    pip_install("--no-deps", "--no-build-isolation", "-e", ROOT, packages=1)


def pip_install(*requirements: str | Path, packages: int) -> None:
    """Runs pip with a line of progress at a terminal; what it says is shown if it fails."""
    said, seen, shows = [], 0, sys.stdout.isatty()
    with subprocess.Popen(
        [
            VENV / "bin" / "python", "-m", "pip", "install", "--no-input", "--no-color",
            "--disable-pip-version-check", "--progress-bar", "off", *requirements,
        ],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as pip:  # fmt: skip
        for line in pip.stdout or ():
            said.append(line)
            seen += line.startswith(_BEGUN)
            if shows:
                doing = "installing" if line.startswith("Installing ") else "found"
                print(f"\r\033[Kset-up: packages {doing}: {seen} of {packages}", end="", flush=True)
    if shows:
        print("\r\033[K", end="", flush=True)
    if pip.returncode:
        fail(f"pip could not install the packages:\n{''.join(said)}")


def ensure_java() -> None:
    """Finds Java for Spark, or installs it, or says what to type."""
    sys.path.insert(0, str(ROOT))
    from slackwater.engine.core.errors import UserError  # noqa: PLC0415
    from slackwater.engine.hosts.java import apt_package, java_home  # noqa: PLC0415 - needs sys.path

    try:
        java_home()
    except UserError as error:
        package = apt_package()
        if package is None or not may_use_apt():
            fail(str(error))
        apt_install(package)
    print(f"set-up: Java at {java_home()}", flush=True)


def prepare() -> None:
    """Keeps what can be made ahead: compiled kernels, the classes that Spark loads.

    Without it later runs are slower.
    """
    print("set-up: compiling, and starting Spark once: a minute or two", flush=True)
    spark = subprocess.Popen(
        [VENV / "bin" / "python", "-m", "slackwater.engine.hosts.spark.class_archive"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    if subprocess.run([VENV / "bin" / "slackwater", "warm"], cwd=ROOT, check=False).returncode:
        print("set-up: later runs compile by themselves", flush=True)
    said, _ = spark.communicate()
    if spark.returncode:
        print(f"set-up: Spark did not start, and can wait: {said[-500:]}", flush=True)


def main() -> None:
    """Runs all steps and leaves the stamp that make looks at."""
    if sys.version_info < PYTHON_MIN:
        fail(
            f"Python 3.11 or newer is needed and {sys.executable} is "
            f"{sys.version_info.major}.{sys.version_info.minor}. Install one and type\n"
            "    make PYTHON=python3.12 ..."
        )
    make_venv()
    install_packages()
    ensure_java()
    prepare()
    STAMP.touch()
    print("set-up: done", flush=True)


if __name__ == "__main__":
    main()
