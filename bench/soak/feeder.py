"""``feeder RATE SECONDS``: a device program; so many events per second, as lines of JSON."""

from __future__ import annotations

import json
import sys
import time

SLICE_SECONDS = 0.02


def main(rate: float, seconds: float) -> None:
    began = time.monotonic()
    sent = 0
    while sent < rate * seconds:
        due = int(min(time.monotonic() - began, seconds) * rate) - sent
        lines = [json.dumps({"type": "A", "v": sent + i}) for i in range(due)]
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        sys.stdout.flush()
        sent += due
        time.sleep(SLICE_SECONDS)


if __name__ == "__main__":
    main(float(sys.argv[1]), float(sys.argv[2]))
