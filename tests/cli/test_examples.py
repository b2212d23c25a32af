"""Every example below a command's help runs as it stands."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from engine.cli.examples import EXAMPLES
from scenarios.from_file import TEMPLATE

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
SLOW = ("slackwater run", "slackwater paper r19")


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
