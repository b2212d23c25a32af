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
    "pandas",
    "pyarrow",
    "pyspark",
    "rich",
    "typer",
)
ABSENT = {
    "base": (*SIM, *REPORT, *ENGINE),
    "engine": (*SIM, *REPORT),
    "report": SIM,
    "sim": (),
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
}
NEEDS = {
    "version": "base", "help": "base", "compare page": "report",
    "simulate": "sim", "run": "sim",
}  # fmt: skip
"""Commands that need another extra than ``[engine]``."""
ORDER = ("base", "engine", "report", "sim")
CODE = """
import sys
absent = set({absent!r})
class Hidden:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] in absent:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Hidden)
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
        if needed == "base":
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
        sample = ROOT / "docs" / "samples" / "agent.toml"
        assert python(program, "agent", "check", str(sample)).returncode == 0
        return
    assert answered.returncode == 0, answered.stderr
    assert json.loads(answered.stdout)["op"] == "+"
    assert listed.stdout == "2\n", listed.stderr
    run = python(str(folder / "bin" / "slackwater"), *COMMANDS["run"])
    assert run.returncode == 0, run.stderr
    assert (tmp_path / "r" / "report.html").exists()
