"""Each command with each extra: it works, or says in one line which extra it needs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import venv
from importlib.metadata import version
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SIM = ("simpy",)
REPORT = ("plotly", "jinja2", "markupsafe")
ENGINE = (
    "lark",
    "msgspec",
    "numba",
    "numpy",
    "packaging",
    "pyarrow",
    "rich",
    "typer",
)
SPARK = ("pyspark", "py4j", "pandas", "pytz", "dateutil", "google")
ABSENT = {
    "base": (*SIM, *REPORT, *ENGINE, *SPARK),
    "engine": (*SIM, *REPORT, *SPARK),
    "report": (*SIM, *SPARK),
    "sim": SPARK,
}
"""What an installation with that extra lacks."""
COMMANDS = {
    "version": ("--version",),
    "help": ("--help",),
    "query": ("query", "EVENT SEQ(A a, B b) WITHIN 5", "--input", "t.jsonl"),
    "order": ("order", "--input", "t.jsonl"),
    "compare": ("compare", "--input", "t.jsonl", "--order", "none"),
    "compare page": ("compare", "--input", "t.jsonl", "--order", "none", "--out", "compared"),
    "log": ("log", "import", "t.jsonl", "--out", "t.log"),
    "doctor": ("doctor", "--json"),
    "papers": ("paper",),
    "simulate": ("simulate", "soccer", "--set", "duration=20ms", "--out", "s.log"),
    "run": ("run", "soccer", "--set", "duration=20ms", "--in-process", "--out", "r"),
    "look": ("look", "t.jsonl"),
    "clocks": ("clocks", "t.jsonl"),
}
NEEDS = {
    "version": "base", "help": "base", "doctor": "base", "compare page": "report",
    "simulate": "sim", "run": "sim",
}  # fmt: skip
"""Commands that need another extra than ``[engine]``."""
ORDER = ("base", "engine", "report", "sim")
CODE = """
from importlib.machinery import PathFinder
absent = set({absent!r})
found = PathFinder.find_spec
def find_spec(name, path=None, target=None):
    return None if name.partition(".")[0] in absent else found(name, path, target)
PathFinder.find_spec = find_spec
from slackwater.engine.cli import main
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("installed", ABSENT)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_works_or_names_the_extra(installed: str, name: str, tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"type": "A", "ts": 1}\n{"type": "B", "ts": 2}\n')
    done = subprocess.run(
        [sys.executable, "-c", CODE.format(absent=ABSENT[installed]), *COMMANDS[name]],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    needed = NEEDS.get(name, "engine")
    if ORDER.index(installed) >= ORDER.index(needed):
        assert done.returncode == 0, done.stderr
        if name == "doctor":
            found = {each["id"] for each in json.loads(done.stdout)}
            assert {"python", "extra engine", "extra spark", "kernel cache"} <= found
        elif needed == "base":
            assert "slackwater " in done.stdout
            base = installed == "base"
            assert not base or done.stdout.startswith(f"slackwater {version('slackwater')}\n")
            assert ("slackwater[engine]" in done.stdout) is (base and name != "version")
        return
    assert done.returncode == 1, done.stderr
    (line,) = done.stderr.splitlines()
    extra = "engine" if installed == "base" else needed
    assert line.startswith("slackwater: this needs ")
    assert line.endswith(f"; type: pip install 'slackwater[{extra}]'")
    assert [path.name for path in tmp_path.iterdir()] == ["t.jsonl"]


@pytest.mark.slow
def test_without_spark_a_scenario_runs_in_process_and_says_so(tmp_path: Path) -> None:
    words = [*COMMANDS["run"]]
    words.remove("--in-process")
    ran, asked = (
        subprocess.run(
            [sys.executable, "-c", CODE.format(absent=SPARK), *given],
            cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True, text=True, check=False,
        )
        for given in (words, [*words, "--master", "local[2]"])
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    said = "Spark needs pyspark, pandas: pip install 'slackwater[spark]'"
    assert ran.stderr == f"In this process, with the answers that Spark gives. {said}\n"
    assert (tmp_path / "r" / "report.html").exists()
    assert asked.returncode == 2
    assert asked.stderr == f"slackwater: {said}; or leave --master out: the answers are the same\n"


@pytest.mark.slow
@pytest.mark.parametrize("extra", ["", pytest.param("[sim]", marks=pytest.mark.deep)])
def test_a_wheel_in_a_bare_environment(extra: str, tmp_path: Path) -> None:
    """What the wheel itself carries: grammar, style sheet, scenarios, the device's part."""

    def python(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [folder / "bin" / "python", *arguments],
            cwd=tmp_path, env={name: of for name, of in os.environ.items() if name != "PYTHONPATH"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    folder = tmp_path / "env"
    venv.create(folder, with_pip=True)
    pins = re.findall(r"^[^\s\\]+==[^\s\\]+", (ROOT / "constraints.txt").read_text(), re.MULTILINE)
    (tmp_path / "pins.txt").write_text("\n".join(pins))  # a wheel of ours has no hash there
    quiet = ("--quiet", "--disable-pip-version-check", "-c", str(tmp_path / "pins.txt"))
    built = python("-m", "pip", "wheel", *quiet, "--no-deps", "-w", str(tmp_path), str(ROOT))
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    got = python("-m", "pip", "install", *quiet, f"{wheel}{extra}")
    assert got.returncode == 0, got.stderr
    assert (
        python(
            "-c", "import slackwater.edge_agent.session, slackwater.edge_agent.timesync"
        ).returncode
        == 0
    )
    (tmp_path / "t.jsonl").write_text('{"type": "A", "ts": 1}\n{"type": "B", "ts": 2}\n')
    listed = python("-c", "import slackwater; print(len(list(slackwater.order('t.jsonl'))))")
    if not extra:
        assert "pip install 'slackwater[engine]'" in listed.stderr.splitlines()[-1]
    asked = ("query", "EVENT SEQ(A a, B b) WITHIN 5", "--input", "t.jsonl", "--quiet")
    answered = python(str(folder / "bin" / "slackwater"), *asked)
    if not extra:
        assert (answered.returncode, len(answered.stderr.splitlines())) == (1, 1)
        packages = json.loads(python("-m", "pip", "list", "--format", "json").stdout)
        assert {each["name"] for each in packages} - {"pip", "setuptools", "wheel"} == {
            "msgpack", "netifaces-plus", "ntplib", "slackwater",
        }  # fmt: skip
        program = str(folder / "bin" / "slackwater")
        assert python(program, "--version").stdout.startswith("slackwater ")
        seen = {each["id"]: each for each in json.loads(python(program, "doctor", "--json").stdout)}
        for extra in ("engine", "report", "sim", "spark"):
            assert seen[f"extra {extra}"]["status"] == "WARN"
            assert seen[f"extra {extra}"]["remedy"].endswith(f"pip install 'slackwater[{extra}]'")
        sample = ROOT / "docs" / "samples" / "agent.toml"
        assert python(program, "agent", "check", str(sample)).returncode == 0
        return
    assert answered.returncode == 0, answered.stderr
    assert json.loads(answered.stdout)["op"] == "+"
    assert listed.stdout == "2\n", listed.stderr
    run = python(str(folder / "bin" / "slackwater"), *COMMANDS["run"])
    assert run.returncode == 0, run.stderr
    assert (tmp_path / "r" / "report.html").exists()
