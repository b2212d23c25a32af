"""The doctor's verdicts, from values handed in; one look at the real machine at the end."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest

from engine.cli import doctor
from engine.cli.doctor import Check, Status
from engine.java import Java

MS = 1_000_000


def test_python() -> None:
    assert doctor.check_python((3, 11, 0)).status is Status.PASS
    old = doctor.check_python((3, 10, 9))
    assert (old.status, old.value) == (Status.FAIL, "3.10.9")


def test_java() -> None:
    good = doctor.check_java([Java(Path("/jvm/17"), 17, "PATH")], "type this")
    assert good == Check("java", Status.PASS, "17 at /jvm/17 (by PATH)")
    old = doctor.check_java([Java(Path("/jvm/8"), 8, "PATH")], "type this")
    remedy = "run and --spark need 17+. type this"
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
