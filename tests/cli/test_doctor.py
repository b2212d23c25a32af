"""The doctor's verdicts, from values handed in; one look at the real machine at the end."""

from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path

import pytest

from slackwater.engine.cli import doctor
from slackwater.engine.cli.doctor import Check, Status
from slackwater.engine.core.errors import UserError
from slackwater.engine.hosts.java import (
    Java,
    apt_package,
    ask_version,
    choose_java,
    find_java,
    install_line,
    major_version,
)
from slackwater.engine.server.site_file import plain_tokens, read_site

MS = 1_000_000


def test_python() -> None:
    assert doctor.check_python((3, 11, 0)).status is Status.PASS
    old = doctor.check_python((3, 10, 9))
    assert (old.status, old.value) == (Status.FAIL, "3.10.9")


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("", ""),
        (
            'listen = "0.0.0.0"\n[tokens]\n"d" = "t"',
            "[gateway] takes tokens without TLS at 0.0.0.0",
        ),
        ('listen = "::"\n[tokens]\n"d" = "t"', "[gateway] takes tokens without TLS at ::"),
        ('listen = "127.0.0.1"\n[tokens]\n"d" = "t"', ""),
        ('listen = "0.0.0.0"\nwithout_tokens = true', ""),
        (
            (
                'listen = "0.0.0.0"\n[tokens]\n"d" = "t"\n[tls]\ncertificate = "c"\nkey = "k"\n'
                '[page]\nlisten = "10.0.0.1"\ntoken = "correct horse"'
            ),
            "[page] takes its token without TLS at 10.0.0.1",
        ),
        ('[page]\ntoken = "correct horse"', ""),
    ],
)
def test_tokens_that_cross_a_network_in_clear(text: str, seen: str, tmp_path: Path) -> None:
    file = tmp_path / "site.toml"
    file.write_text(f'[gateway]\nlog = "l"\n{text}\n')
    check = doctor.check_tokens(plain_tokens(read_site(file)))
    assert check.status is (Status.WARN if seen else Status.PASS)
    assert check.value.startswith(seen)
    assert bool(check.remedy) is bool(seen)


def test_java() -> None:
    good = doctor.check_java([Java(Path("/jvm/17"), 17, "PATH")], "type this")
    assert good == Check("java", Status.PASS, "17 at /jvm/17 (by PATH)")
    old = doctor.check_java([Java(Path("/jvm/8"), 8, "PATH")], "type this")
    remedy = "For Spark, 17+; without it all runs in process. type this"
    assert old == Check("java", Status.WARN, "Java 8 at /jvm/8", remedy)
    assert doctor.check_java([], "type this").value == "not found"


@pytest.mark.parametrize(
    ("free", "status"), [(9, "FAIL"), (10, "WARN"), (19, "WARN"), (20, "PASS"), (21, "PASS")]
)
def test_amounts(free: int, status: str) -> None:
    check = doctor.check_amount("disk", free * doctor.GIB, 10 * doctor.GIB, 20 * doctor.GIB, "do")
    assert check.status == status
    assert check.remedy == ("" if status == "PASS" else "do")


@pytest.mark.parametrize(
    ("wanted", "installed", "status"),
    [
        (">=2.2,<3", "2.3.3", "PASS"),
        (">=2.2,<3", "2.2", "PASS"),
        (">=2.2,<3", "3.0.0", "FAIL"),
        (">=2.2,<3", "2.10.1", "PASS"),
        (">=2.2,<3", "2.1.9", "FAIL"),
        ("<4.4,>=4.3", "4.3.0", "PASS"),
        ("", "0.1", "PASS"),
        (">=6", None, "FAIL"),
    ],
)
def test_packages(wanted: str, installed: str | None, status: str) -> None:
    check = doctor.check_package("some", wanted, installed)
    assert check.status == status
    if status == "FAIL":
        assert check.remedy == f'Type: pip install "some{wanted}"'


def test_required_packages_reads_a_wheels_requirements() -> None:
    lines = [
        "msgpack>=1.1",
        'pandas<3,>=2.2; extra == "engine"',
        'slackwater[engine]; extra == "sim"',
        'pytest>=8; extra == "dev"',
        'colour>=1; sys_platform == "win32"',
    ]
    assert doctor.required_packages(lines, ("engine",)) == {
        "msgpack": ">=1.1",
        "pandas": "<3,>=2.2",
    }


def test_without_the_libraries_of_engine_it_judges_and_prints(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("packaging.specifiers", "rich.console"):
        monkeypatch.setitem(sys.modules, name, None)
    assert doctor.check_package("some", ">=2", "1.0").status == "PASS"
    out = io.StringIO()
    assert doctor.report(
        [Check("a", Status.PASS, "fine"), Check("b", Status.FAIL, "[x]", "do")], out
    )
    assert out.getvalue() == "PASS  a: fine\nFAIL  b: [x]\n      do\n"


def test_ports() -> None:
    taken = {4040, 4041}
    free = doctor.check_ports(lambda port: port not in taken)
    assert [check.status for check in free] == ["PASS", "PASS"]
    assert free[1].value == "4042 free"
    full = doctor.check_ports(lambda port: port == 0)
    assert [check.status for check in full] == ["PASS", "WARN"]
    assert [check.status for check in doctor.check_ports(lambda _: False)] == ["FAIL"]


def test_cache() -> None:
    good = doctor.check_cache(Path("/rw"), writable=True)
    assert good == Check("kernel cache", Status.PASS, "/rw")
    bad = doctor.check_cache(Path("/ro"), writable=False)
    assert bad.status is Status.WARN
    assert "SLACKWATER_CACHE" in bad.remedy
    assert doctor.check_cache(None, writable=False).status is Status.WARN


def test_extras() -> None:
    versions = {"plotly": "6.1"}
    has = doctor.check_extra("report", ("plotly",), "pages", versions.get)
    assert has == Check("extra report", Status.PASS, "plotly 6.1")
    lacks = doctor.check_extra("sim", ("simpy", "plotly"), "run and simulate", versions.get)
    assert (lacks.status, lacks.value) == (Status.WARN, "no simpy")
    assert lacks.remedy == "For run and simulate: pip install 'slackwater[sim]'"
    table = io.StringIO()
    doctor.report([lacks], table)
    assert "'slackwater[sim]'" in "".join(re.findall(r"[^\s│]+", table.getvalue())), "no markup"


def test_extras_that_are_installed_are_found() -> None:
    """``paho`` is imported, ``paho-mqtt`` is installed; ``dev`` brings every extra."""
    found = {check.id: check for check in doctor.checks() if check.id.startswith("extra ")}
    assert {check.status for check in found.values()} == {Status.PASS}, found


def test_fsync_is_judged_by_its_median() -> None:
    assert doctor.check_fsync([1 * MS, 2 * MS, 900 * MS]).status is Status.PASS
    slow = doctor.check_fsync([10 * MS, 30 * MS, 40 * MS])
    assert (slow.status, slow.value) == (Status.WARN, "median 30.0 ms, worst 40.0 ms")


def test_report() -> None:
    found = [Check("a", Status.PASS, "fine"), Check("b", Status.FAIL, "bad", "mend it")]
    out = io.StringIO()
    assert doctor.report(found, out, as_json=True) == 1
    assert json.loads(out.getvalue())[1] == {
        "id": "b",
        "status": "FAIL",
        "value": "bad",
        "remedy": "mend it",
    }
    table = io.StringIO()
    assert doctor.report(found[:1], table) == 0
    assert "fine" in table.getvalue()


def test_this_machine_is_looked_at(tmp_path: Path) -> None:
    found = {check.id: check for check in doctor.checks(tmp_path)}
    assert found["python"].status is Status.PASS
    assert found["java"].status is Status.PASS, "make test needs Java; make setup installs it"
    assert {
        "memory",
        "disk",
        "package pyspark",
        "loopback",
        "kernel cache",
        "fsync",
        "extra sim",
    } <= set(found)
    assert list(tmp_path.iterdir()) == []


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
