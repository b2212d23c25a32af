"""Attributes keep their columns when another process goes on with an outbox."""

from __future__ import annotations

import json

from engine.log.arrival_log import LogReader
from tests.live.conftest import Field, free_port, until


def test_an_agent_that_goes_on_swaps_no_attributes(field: Field) -> None:
    field.write(
        "a.jsonl", "".join(json.dumps({"ts": n, "y": n + 0.5, "x": -n}) + "\n" for n in range(50))
    )
    field.write(
        "door.toml",
        f'[agent]\nsource = "door"\n[gateway]\nport = {field.port}\n'
        '[delivery]\nreconnect = "20 ms"\nreconnect_max = "50 ms"\n'
        '[sync]\nattempts = 1\ntimeout = "100 ms"\n[outbox]\nfolder = "outbox"\n'
        '[[stream]]\nname = "events"\nattrs = { y = "float", x = "float", name = "str" }\n'
        '[[input]]\nkind = "replay"\nfile = "a.jsonl"\npace = 0\n'
        f'[[input]]\nkind = "hl7-mllp"\nport = {free_port()}\n'
        '[input.map]\ny = "value"\nx = "OBX-4"\nname = "OBX-3.2"\n',
    )
    dump = ["agent", "spool", "dump", "outbox"]
    first = field.start("agent", "--config", "door.toml")
    first.says("Connect call failed")
    until((field.folder / "outbox" / "000001").is_dir, "the outbox")
    until(lambda: _dumped(field, dump) == 50, "the events in it")
    assert first.end() == 0
    field.site()
    field.serve()
    second = field.start("agent", "--config", "door.toml")  # plays the recording again
    until(lambda: len(_logged(field)) >= 100, "the events in the log")
    second.end()
    assert _logged(field) == [(n + 0.5, float(-n)) for n in range(50)] * 2


def _dumped(field: Field, words: list[str]) -> int:
    program = field.start(*words)
    assert program.process.stdout is not None
    lines = [json.loads(line) for line in program.process.stdout]
    assert program.end(None) == 0, program.text
    assert all(line["attrs"]["y"] == 0.5 - line["attrs"]["x"] for line in lines)
    return len(lines)


def _logged(field: Field) -> list[tuple[float, float]]:
    if not list((field.folder / "site.log").glob("*.parquet")):
        return []
    return [
        (row["attrs.y"], row["attrs.x"])
        for frame in LogReader(field.folder / "site.log")
        for row in frame.batch.to_pylist()
        if row.get("kind", 0) == 0
    ]
