"""What a command loads: start-up is most of a short query's time."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slackwater.engine.cli.terminal import COMPILING
from slackwater.engine.cli.warm import COMMANDS, KERNELS
from slackwater.engine.log.whole_file import text_columns
from slackwater.engine.output.schema import MATCH_SCHEMA

ROOT = Path(__file__).resolve().parents[2]
NEVER = {
    "pyspark",
    "plotly",
    "jinja2",
    "simpy",
    "slackwater.simulator",
    "matplotlib",
    "scipy",
    "rich.progress",
    "pyarrow.dataset",
    "coverage",
}
QUERY = "EVENT SEQ(A a, !C c, B b) WHERE a.key = b.key AND c.key = a.key WITHIN 5 s RETURN a.key"
CODE = """
import sys
from slackwater.engine.cli import main
try:
    main()
except SystemExit as ended:
    assert not ended.code, ended.code
print(*sys.modules, file=sys.stderr)
"""


def loaded(*arguments: str) -> set[str]:
    """Modules in memory after ``slackwater ARGUMENTS`` in a fresh interpreter."""
    done = subprocess.run(
        [sys.executable, "-c", CODE, *arguments],
        check=True, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    return set(done.stderr.splitlines()[-1].split())


@pytest.mark.parametrize("arguments", [("--help",), ("query", "--help"), ("order", "--help")])
def test_help_needs_no_compiler(arguments: tuple[str, ...]) -> None:
    assert not (NEVER | {"numba"}) & loaded(*arguments)


def test_a_list_of_commands_loads_none_of_them() -> None:
    assert not {"numpy", "pyarrow", "slackwater.engine.query"} & loaded("--help")


@pytest.mark.parametrize(("rounds", "compiled"), [(1, False), (50, True)])
def test_a_query_loads_only_what_it_uses(
    here: Path, trace: Any, rounds: int, compiled: bool
) -> None:
    records = [
        {"type": kind, "ts": ts, "attrs": {"key": 1}} for ts, kind in enumerate("ABCAB" * rounds, 1)
    ]
    arguments = (
        "query", QUERY, "--input", trace(*records), "--in-process", "--order", "none",
        "--barrier", "bounded:1s", "--time-unit", "ms", "--out", str(here / "out.parquet"),
    )  # fmt: skip
    loaded(*arguments)  # compiles, if nobody has
    found = loaded(*arguments)
    assert ("numba" in found) == compiled, "a few events need no kernel"
    others = {
        "slackwater.engine.operators.window.time_windows",
        "slackwater.engine.operators.match.spill.matcher",
    }
    unused = {"slackwater.engine.apps.compare", "slackwater.engine.apps.report.write"}
    numbas = {"coverage"} if compiled else set()  # it looks for that, where it is installed
    assert not (NEVER - numbas | others | unused) & found

    assert others_parts(found) == set()
    assert {"slackwater.engine.barrier.holding", "slackwater.engine.order.none"} <= found


OTHER_ORDERS = {
    "slackwater.engine.order.sequence.order", "slackwater.engine.order.slack.kslack",
    "slackwater.engine.order.slack.ldop",
    "slackwater.engine.order.slack.aq_kslack", "slackwater.engine.order.query_defaults",
}  # fmt: skip
OF_OTHERS = {
    "slackwater.engine.operators.match.spill.chunks",
    "slackwater.engine.query.automata", "pyarrow.csv",
}  # fmt: skip


def others_parts(found: set[str]) -> set[str]:
    """What only other orders, barriers, plans and files need."""
    return (OTHER_ORDERS | OF_OTHERS) & found


def test_a_query_of_windows_loads_no_pattern_and_one_of_lines_no_parquet(
    here: Path, trace: Any
) -> None:
    del here
    records = [{"type": kind, "ts": ts} for ts, kind in enumerate("ABCD", 1)]
    query = "SELECT count(*) FROM events WINDOW TUMBLING 10"
    found = loaded("query", query, "--input", trace(*records), "--order", "kslack:2")
    assert others_parts(found) == {"slackwater.engine.order.slack.kslack"}
    unused = {
        "slackwater.engine.operators.match.seq",
        "slackwater.engine.operators.match.search.host",
        "slackwater.engine.barrier.holding",
    }
    assert not (unused | {"pyarrow.parquet", "pyarrow.json"}) & found


def test_dictionaries_are_for_texts_only(here: Path) -> None:
    del here
    assert text_columns(MATCH_SCHEMA) == [
        "op", "query", "site", "certainty",
        *(f"events.list.element.{name}"
          for name in ("site", "stream", "source", "type", "attrs", "more")),
        "value", "more",
    ]  # fmt: skip


def taste() -> str:
    """The README's commands."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"## A taste\n.*?```sh\n(.*?)```", text, re.DOTALL)
    assert found is not None
    return found[1]


def ran(command: str, folder: Path, cache: Path) -> subprocess.CompletedProcess[str]:
    folder.mkdir(exist_ok=True)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-e", "-c", command], check=True, capture_output=True, text=True, cwd=folder,
        env=os.environ | {"SLACKWATER_CACHE": str(cache), "PATH": path},
    )  # fmt: skip


def kernels(cache: Path) -> set[Path]:
    return {file for file in cache.rglob("*") if file.suffix in {".nbi", ".nbc"}}


@pytest.mark.slow
def test_the_readme_compiles_nothing_on_a_new_machine(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    done = ran(taste(), tmp_path / "here", cache)
    assert done.stdout.count("\n") == 5  # four events in order, one match
    assert COMPILING.strip() not in done.stderr
    assert not kernels(cache)


@pytest.mark.deep
def test_after_setup_many_events_compile_nothing_either(tmp_path: Path) -> None:
    cache, folder = tmp_path / "cache", tmp_path / "here"
    ran("slackwater warm", folder, cache)
    warmed = kernels(cache)
    assert warmed
    ready = [ran(f"slackwater warm --half {half}", folder, cache).stdout for half in COMMANDS]
    assert "".join(ready).split() == ["ready"] * KERNELS
    assert kernels(cache) == warmed
    events = [{"type": "ACDB"[n % 4], "ts": 10 * n, "seq": n} for n in range(300)]
    (folder / "trace.jsonl").write_text("\n".join(map(json.dumps, events)) + "\n")
    commands = re.findall(r"^slackwater (?:order|query) .*$", taste(), re.MULTILINE)
    assert len(commands) == 2
    done = ran("\n".join(commands), folder, cache)
    assert done.stdout.count("\n") > 300
    assert COMPILING.strip() not in done.stderr
    assert kernels(cache) == warmed
