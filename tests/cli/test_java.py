"""Finding Java: order of places, versions, and the line that installs it."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.errors import UserError
from engine.java import (
    Java,
    apt_package,
    ask_version,
    choose_java,
    find_java,
    install_line,
    major_version,
)

BOOKWORM = 'NAME="Debian GNU/Linux"\nID=debian\nVERSION_ID="12"\n'
TRIXIE = 'ID=debian\nVERSION_ID="13"\n'
JAMMY = 'NAME="Ubuntu"\nVERSION_ID="22.04"\nID=ubuntu\nID_LIKE=debian\n'
NOBLE = 'VERSION_ID="24.04"\nID=ubuntu\nID_LIKE=debian\n'
MINT = 'ID=linuxmint\nID_LIKE="ubuntu debian"\nVERSION_ID="22"\n'
ROCKY = 'ID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.4"\n'


@pytest.mark.parametrize(
    ("text", "major"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ('openjdk version "21-ea" 2023-09-19', 21),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", None),
        ("", None),
    ],
)
def test_major_version(text: str, major: int | None) -> None:
    assert major_version(text) == major


def make_java(folder: Path, major: int) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "bin" / "java").write_text(str(major))
    return folder


def read_version(java: Path) -> str:
    return f'openjdk version "{java.read_text()}.0.1"'


def test_places_are_tried_in_the_promised_order(tmp_path: Path) -> None:
    named = make_java(tmp_path / "named", 11)
    on_path = make_java(tmp_path / "on-path", 21)
    newest = make_java(tmp_path / "jvm" / "a25", 25)
    oldest = make_java(tmp_path / "jvm" / "b17", 17)
    found = find_java(
        {"JAVA_HOME": str(named)},
        lambda _: str(on_path / "bin" / "java"),
        [newest, oldest, tmp_path / "jvm" / "empty"],
        read_version,
    )
    assert found == [
        Java(named, 11, "JAVA_HOME"),
        Java(on_path, 21, "PATH"),
        Java(oldest, 17, str(tmp_path / "jvm")),
        Java(newest, 25, str(tmp_path / "jvm")),
    ]
    assert choose_java(found, "").home == on_path


def test_a_java_that_does_not_run_is_no_java(tmp_path: Path) -> None:
    broken = make_java(tmp_path / "broken", 17)
    assert ask_version(broken / "bin" / "java") == ""
    assert find_java({}, lambda _: None, [broken], ask_version) == []


def test_an_old_java_is_named_with_the_remedy() -> None:
    with pytest.raises(UserError) as caught:
        choose_java([Java(Path("/old"), 11, "PATH")], install_line(BOOKWORM))
    assert "Java 17 or newer; found Java 11 at /old" in str(caught.value)
    assert str(caught.value).endswith("Type: sudo apt-get install openjdk-17-jre-headless")


def test_no_java_at_all() -> None:
    with pytest.raises(UserError, match="found none"):
        choose_java([], "")


@pytest.mark.parametrize(
    ("system", "package"),
    [
        (BOOKWORM, "openjdk-17-jre-headless"),
        (TRIXIE, "default-jre-headless"),
        ("ID=debian\n", "default-jre-headless"),
        (JAMMY, "openjdk-17-jre-headless"),
        (NOBLE, "openjdk-17-jre-headless"),
        (MINT, "default-jre-headless"),
        (ROCKY, None),
        ("", None),
    ],
)
def test_apt_package(system: str, package: str | None) -> None:
    assert apt_package(system) == package


def test_install_line_of_other_systems() -> None:
    assert install_line(ROCKY) == "Type: sudo dnf install java-17-openjdk-headless"
    assert "JAVA_HOME" in install_line("ID=arch\n")
    assert "JAVA_HOME" in install_line("")
