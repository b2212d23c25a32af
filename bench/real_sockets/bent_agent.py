"""Runs one agent, and reads its bent clock before and after: ``bent_agent FOLDER NAME``.

libfaketime bends from the start of the program that it runs, so that this program, the
agent and the feeder share one bend.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from bench.real_sockets import device_clock


def main(folder: Path, name: str) -> int:
    """The agent's exit code."""
    before = device_clock.read()
    device_clock.write(folder / f"{name}.clock", [before])
    code = subprocess.call(
        [sys.executable, "-m", "slackwater.edge_agent", "--config", f"{name}.toml"], cwd=folder
    )
    device_clock.write(folder / f"{name}.clock", [before, device_clock.read()])
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2]))
