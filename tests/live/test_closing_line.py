"""The last line of an agent counts all that was acked to it, also of starts that it finished."""

from __future__ import annotations

from tests.live.conftest import Field, until


def test_the_closing_line_counts_earlier_starts(field: Field) -> None:
    outbox = '[outbox]\nfolder = "outbox"\n'
    name = field.agent_file("door", field.replay("a.jsonl", range(50)), outbox)
    first = field.start("agent", "--config", name)
    first.says("Connect call failed")
    until(lambda: list((field.folder / "outbox").glob("*/*.seg")), "the events on the disk")
    first.end()
    field.agent_file("door", field.replay("b.jsonl", range(50, 70)), outbox)
    text = (field.folder / name).read_text()
    (field.folder / name).write_text(text.replace('{ v = "int" }', '{ v = "int", w = "str" }'))
    field.site()
    field.serve()
    second = field.start("agent", "--config", name)
    assert second.end(None) == 0
    assert second.said[-1] == "done: 70 events acked"
    assert field.values("door") == list(range(70))
