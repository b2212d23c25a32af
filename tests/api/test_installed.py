"""Importing costs nothing, absent packages are named, and callers' types are checked."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import slackwater

ROOT = Path(__file__).resolve().parents[2]
HEAVY = {
    "numpy",
    "pyarrow",
    "numba",
    "pandas",
    "polars",
    "pyspark",
    "lark",
    "msgspec",
    "typer",
    "simpy",
}
HIDDEN = "import sys; sys.modules.update(dict.fromkeys({absent!r})); import slackwater\n"
"""Modules that are None there are not found."""
CALLER = """
import slackwater

with slackwater.read("t.jsonl", time_unit="ms", mapping={"ts": "time"}) as events:
    found = slackwater.query(events, ["EVENT SEQ(A a, B b) WITHIN 5"], barrier="bounded:1s")
    reveal_type(found)
    reveal_type(len(found))
    for each in found:
        reveal_type(each)
    reveal_type(slackwater.compare(events).suits)
    slackwater.order({"ts": [1, 2]}, "none").write("x.csv")
with slackwater.run("soccer", {"duration": "5 s"}, out="x") as done:
    reveal_type(done.score.claims[0].text)
try:
    slackwater.explain("EVENT")
except slackwater.UserError as error:
    reveal_type(error)
"""
WRONG = """
import slackwater

slackwater.query("t.jsonl", 5)
slackwater.order("t.jsonl", ordr="none")
slackwater.read(7)
slackwater.sort("t.jsonl")
"""


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_importing_loads_nothing_heavy() -> None:
    done = python("import slackwater, sys; print(*sys.modules); slackwater.UserError")
    assert done.returncode == 0, done.stderr
    modules = done.stdout.split()
    assert not HEAVY & set(modules)
    assert [name for name in modules if name.partition(".")[0] == "slackwater"] == ["slackwater"]


@pytest.mark.parametrize(
    ("absent", "call", "said"),
    [
        (HEAVY, "slackwater.query('t', 'EVENT')", "pip install 'slackwater[engine]'"),
        (HEAVY, "from slackwater import read", "pip install 'slackwater[engine]'"),
        (HEAVY, "slackwater.run('soccer')", "pip install 'slackwater[engine]'"),
        ({"simpy", "plotly"}, "slackwater.run('soccer')", "pip install 'slackwater[sim]'"),
        ({"plotly"}, "slackwater.compare({'ts': [1], 'arrival': [1]}, 'none').write('x')",
         "pip install 'slackwater[report]'"),
    ],
)  # fmt: skip
def test_an_absent_package_is_named_in_one_line(absent: set[str], call: str, said: str) -> None:
    done = python(HIDDEN.format(absent=absent) + call)
    assert done.returncode == 1
    last = done.stderr.splitlines()[-1]
    assert last.startswith("slackwater.engine.core.errors.SlackwaterError: this needs ")
    assert last.endswith(said)


def test_a_bare_installation_has_the_errors() -> None:
    done = python(HIDDEN.format(absent=HEAVY) + "print(slackwater.UserError.__mro__[1].__name__)")
    assert done.stdout == "SlackwaterError\n", done.stderr


def test_every_name_is_there_and_no_other() -> None:
    assert all(getattr(slackwater, name).__doc__ for name in slackwater.__all__)
    assert set(slackwater.__all__) <= set(dir(slackwater))
    with pytest.raises(AttributeError, match="no attribute 'sort'"):
        slackwater.sort  # type: ignore[attr-defined]  # noqa: B018


@pytest.mark.slow
def test_callers_are_typed(tmp_path: Path) -> None:
    (tmp_path / "caller.py").write_text(CALLER)
    (tmp_path / "wrong.py").write_text(WRONG)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file", str(ROOT / "pyproject.toml"),
         "--cache-dir", str(ROOT / ".mypy_cache"), "--no-pretty", "caller.py", "wrong.py"],
        cwd=tmp_path, env=os.environ | {"MYPYPATH": str(ROOT)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    revealed = [line.partition("Revealed type is ")[2] for line in done.stdout.splitlines()
                if "Revealed" in line]  # fmt: skip
    assert revealed == [
        '"slackwater.results.Results"', '"int"', '"dict[str, Any]"', '"str | None"', '"str"',
        '"slackwater.engine.core.errors.UserError"',
    ], done.stdout  # fmt: skip
    errors = [line for line in done.stdout.splitlines() if " error: " in line]
    assert [line.partition(":")[0] for line in errors] == ["wrong.py"] * 4, done.stdout
    codes = [line.rpartition("[")[2] for line in errors]
    assert codes == ["arg-type]", "call-arg]", "arg-type]", "attr-defined]"]
