"""``make setup`` shows how far it is, and what pip says only if it fails."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from scripts import setup

SAID = """echo "WARNING: Location 'file:///gone' is ignored"
echo "Collecting one==1"
echo "Processing /wheels/two-2.whl"
echo "Installing collected packages: one, two"
"""


@pytest.fixture(name="pip")
def _pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in the place of ``.venv/bin/python``."""
    monkeypatch.setattr(setup, "VENV", tmp_path)
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "python"
    program.write_text(f"#!/bin/sh\n{SAID}")
    program.chmod(0o700)
    return program


@pytest.mark.usefixtures("pip")
def test_pip_is_quiet_in_a_file_and_counts_at_a_terminal(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    setup.pip_install("one", packages=2)
    assert capfd.readouterr() == ("", "")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    setup.pip_install("one", packages=2)
    shown = capfd.readouterr().out.split("\r\033[K")
    assert shown[-3:] == [
        "set-up: packages found: 2 of 2",
        "set-up: packages installing: 2 of 2",
        "",
    ]
    assert not any("WARNING" in line for line in shown)


def test_what_pip_says_is_shown_if_it_fails(pip: Path) -> None:
    pip.write_text(f"#!/bin/sh\n{SAID}exit 1\n")
    with pytest.raises(SystemExit) as ended:
        setup.pip_install("one", packages=2)
    assert "Location 'file:///gone' is ignored\nCollecting one==1\n" in str(ended.value)
