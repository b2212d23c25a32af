"""``feeder RATE SECONDS``: a device program; so many events per second, as lines of JSON.

One in 1,000 is of type B, the others are of type A.
"""

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
        lines = [json.dumps({"type": "AB"[v % 1000 == 0], "v": v}) for v in range(sent, sent + due)]
        sys.stdout.write("".join(f"{line}\n" for line in lines))
        sys.stdout.flush()
        sent += due
        time.sleep(SLICE_SECONDS)


if __name__ == "__main__":
    main(float(sys.argv[1]), float(sys.argv[2]))
