"""The device program that an agent reads: prints each event when the device's clock shows its ts.

``feeder EVENTS.jsonl``: lines of JSON whose ``ts`` counts from the start. The start is a reading of
the device's clock, in the file ``NAME.start`` beside it, which may come later.
"""

from __future__ import annotations

import json
import select
import sys
import time
from pathlib import Path

SECOND = 1_000_000_000


def main(events: Path) -> None:
    start = events.with_suffix(".start")
    with events.open() as lines:
        records = [json.loads(line) for line in lines]
    while not start.exists():
        select.select([], [], [], 0.02)
    start_ns = int(start.read_text())
    for record in records:
        record["ts"] += start_ns
        # time.sleep waits for an absolute time, which libfaketime does not bend.
        while (wait_ns := record["ts"] - time.time_ns()) > 0:
            select.select([], [], [], wait_ns / SECOND)
        sys.stdout.write(json.dumps(record) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
