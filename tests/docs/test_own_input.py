"""The input of the how-to, as a package that is installed beside slackwater."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest

from edge_agent.drivers.agent_file import read_agent
from tests.inputs.outlet import NOW_NS, KeptOutlet

HOW_TO = Path(__file__).resolve().parents[2] / "docs" / "how-to.md"


def test_the_input_of_the_how_to_is_found_and_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    section = HOW_TO.read_text(encoding="utf-8").split("\n## Add an input\n")[1]
    (code,) = re.findall(r"```python\n(.*?)```", section.split("\n## ")[0], re.DOTALL)
    (entry,) = re.findall(r"```toml\n(.*?)```", section.split("\n## ")[0], re.DOTALL)
    assert len(code.splitlines()) <= 42
    (tmp_path / "thermometer.py").write_text(code)
    info = tmp_path / "thermometer-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: thermometer\nVersion: 1.0\n")
    group, line = re.fullmatch(r'\[project.entry-points."(.*)"\]\n(.*)\n', entry).groups()  # type: ignore[union-attr]
    (info / "entry_points.txt").write_text(f"[{group}]\n{line.replace(chr(34), '')}\n")
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "temp1_input").write_text("21500\n")
    settings = tmp_path / "agent.toml"
    settings.write_text(
        '[[stream]]\nname = "room"\nattrs = { celsius = "float" }\n'
        f'[[input]]\nkind = "thermometer"\nfile = {json.dumps(str(tmp_path / "temp1_input"))}\n'
        'every = "5 ms"\n'
    )
    (named,) = read_agent(settings, lambda: NOW_NS, lambda: "me").inputs

    async def read() -> KeptOutlet:
        outlet = KeptOutlet()
        task = asyncio.create_task(named.input.run(outlet))
        async with asyncio.timeout(10):
            while len(outlet.rows) < 2:
                await asyncio.sleep(0.001)
            (tmp_path / "temp1_input").write_text("hot\n")
            while not outlet.told:
                await asyncio.sleep(0.001)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return outlet

    outlet = asyncio.run(read())
    (stream, row) = outlet.rows[0]
    assert (stream, row.type, row.attrs) == ("room", "TEMPERATURE", (21.5,))
    assert named.input.counts["unread"] >= 1
