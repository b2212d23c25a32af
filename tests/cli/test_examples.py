"""Examples of commands run; messages and pages recommend only options that exist."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from slackwater.edge_agent.command import _parser
from slackwater.engine.cli.app import _COMMANDS, _application
from slackwater.engine.cli.examples import EXAMPLES
from slackwater.scenarios.from_file import TEMPLATE

TRACE = [
    f'{{"type": "{kind}", "seq": {seq}, "ts": {1000 + seq}, "arrival": {1100 + seq}}}'
    for seq, kind in enumerate("ACABB")
]
ROWS = "source,seq,when,ts,arrival,v\n" + "".join(
    f"s1,{seq},{1000 + seq},{1000 + seq},{2000 + seq},{seq / 2}\n" for seq in range(5)
)
ORDERS = "".join(
    f'{{"type": "{kind}", "ts": {ts}, "attrs": {{"order": 1}}}}\n'
    for ts, kind in enumerate(("ORDERED", "SHIPPED"))
)
FLOW = "CONSTRAINT flow FOR TRACE BY order AS ORDERED, SHIPPED;\n"
SAMPLES = Path(__file__).resolve().parents[2] / "docs" / "samples"
SLOW = ("slackwater run", "slackwater paper r19", "slackwater warm")


def is_slow(line: str) -> bool:
    return line.startswith(SLOW) or "--spark" in line


def shell(line: str, folder: Path) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", line],
        cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr


@pytest.fixture(scope="module", name="inputs")
def _inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the examples name: a trace, a table, a query, settings and a short simulation's log."""
    folder = tmp_path_factory.mktemp("inputs")
    (folder / "trace.jsonl").write_text("\n".join(TRACE) + "\n")
    (folder / "rows.csv").write_text(ROWS)
    (folder / "orders.jsonl").write_text(ORDERS)
    (folder / "flow.txt").write_text(FLOW)
    for sample in SAMPLES.iterdir():
        if sample.is_file():
            shutil.copy(sample, folder)
    shutil.copy(TEMPLATE, folder / "shop.toml")
    (folder / "checked.txt").write_text(
        "SELECT count(*) AS n WINDOW TUMBLING 10 CHECK some (past_count(9) < 2)\n"
    )
    (folder / "query.txt").write_text("EVENT SEQ(KICK a, GOAL b) WITHIN 2 s\n")
    shell("slackwater simulate soccer --set duration=500ms --out short.log", folder)
    return folder


def filled(inputs: Path, folder: Path, command: str) -> Path:
    """The folder in which the examples of ``command`` run, one after the other."""
    leave_out = shutil.ignore_patterns("short.log" if command == "simulate" else "")
    return Path(shutil.copytree(inputs, folder / "work", ignore=leave_out))


@pytest.mark.slow
@pytest.mark.parametrize("command", EXAMPLES)
def test_examples_run(command: str, inputs: Path, tmp_path: Path) -> None:
    folder = filled(inputs, tmp_path, command)
    for line in EXAMPLES[command]:
        if not is_slow(line):
            shell(line, folder)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize(
    "command", [name for name in EXAMPLES if any(map(is_slow, EXAMPLES[name]))]
)
def test_slow_examples_run(command: str, inputs: Path, tmp_path: Path) -> None:
    folder = filled(inputs, tmp_path, command)
    for line in EXAMPLES[command]:
        if is_slow(line):
            shell(line, folder)


ROOT = Path(__file__).resolve().parents[2]
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z]")
OF_OTHERS = {
    "--events",
    "--rounds",
    "--only",
    "--build",
    "--now",
    "--seconds",
    "--no-loadscope-reorder",
    "--compare",
    "--room",
    "--workers",
    "--archives",
    "--conf",
    "--cores",
    "--deploy-mode",
    "--driver-memory",
    "--exclude",
    "--executor-cores",
    "--host",
    "--port",
    "--executor-memory",
    "--memory",
    "--num-executors",
    "--packages",
    "--webui-port",
    "--work-dir",
}
"""Of ``make mutants``, ``python -m bench...``, ``python -m slackwater.scenarios.recordings``,
``docker compose``, ``systemctl``, ``tar``, pytest-xdist and Spark's own commands, which are no
commands of ours."""


def options_of(command: Any) -> Iterator[str]:
    for parameter in command.params:
        yield from (*parameter.opts, *parameter.secondary_opts)
    for inner in getattr(command, "commands", {}).values():
        yield from options_of(inner)


@pytest.fixture(scope="module", name="known")
def _known() -> set[str]:
    of_agent = [option for action in _parser()._actions for option in action.option_strings]
    return {
        "--help",
        *of_agent,
        *options_of(typer.main.get_command(_application(list(_COMMANDS), loads=True))),
    }


def texts(path: Path) -> Iterator[str]:
    """The strings of a module, without its docstrings: what a person may be reported."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value


@pytest.mark.parametrize("package", ["engine", "scenarios", "simulator", "edge_agent"])
def test_messages_name_options_that_exist(package: str, known: set[str]) -> None:
    wrong = {
        f"{path.relative_to(ROOT)}: {option}"
        for path in (ROOT / package).rglob("*.py")
        if path.name != "document.py"  # a style sheet's variables look the same
        for text in texts(path)
        for option in OPTION.findall(text)
        if option not in known | OF_OTHERS
    }
    assert not wrong


@pytest.mark.parametrize("page", [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))], ids=str)
def test_pages_name_options_that_exist(page: Path, known: set[str]) -> None:
    text = page.read_text(encoding="utf-8")
    assert set(OPTION.findall(text)) - known - OF_OTHERS == set()
