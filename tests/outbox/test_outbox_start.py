"""What a start of the agent is on the disk: the order of attributes is that of the columns."""

from __future__ import annotations

import json
from pathlib import Path

from edge_agent.messages import StreamSchema
from edge_agent.outbox.folder import OutboxFolder
from edge_agent.outbox.outbox import Start

STREAM = StreamSchema("vitals", {"value": "float", "low": "float", "units": "str"})
OTHER = StreamSchema("vitals", {"low": "float", "value": "float", "units": "str"})


def opened(folder: Path, stream: StreamSchema) -> list[tuple[int, list[str]]]:
    """Incarnation and attributes of each start, the newest last."""
    outboxes = OutboxFolder(folder, lambda line: None)
    try:
        found = outboxes.open("main", "door", [stream], [1 << 20], 5, lambda: 7)
        return [(each.start.incarnation, list(each.start.streams[0].attrs)) for each in found]
    finally:
        outboxes.close()


def test_attributes_keep_their_order_on_the_disk() -> None:
    start = Start(site="main", source="door", incarnation=1, start=2, streams=(STREAM,))
    again = Start.from_dict(json.loads(json.dumps(start.as_dict(), sort_keys=True)))
    assert again == start
    assert list(again.streams[0].attrs) == ["value", "low", "units"]


def test_another_process_goes_on_with_the_same_columns(tmp_path: Path) -> None:
    assert opened(tmp_path, STREAM) == [(5, ["value", "low", "units"])]
    assert opened(tmp_path, STREAM) == [(5, ["value", "low", "units"])]


def test_attributes_in_another_order_are_another_start(tmp_path: Path) -> None:
    opened(tmp_path, STREAM)
    assert opened(tmp_path, OTHER) == [
        (5, ["value", "low", "units"]),
        (6, ["low", "value", "units"]),
    ]
