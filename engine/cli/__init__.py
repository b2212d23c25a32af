"""The command ``slackwater``. Light to import: what a command needs loads when it is called."""

from __future__ import annotations

import sys


def main() -> None:
    """Entry point. Exit codes: 0 done, 1 failed, 2 the user's input is at fault."""
    try:
        from engine.cli.app import run  # noqa: PLC0415 - a device has no typer
    except ModuleNotFoundError as error:
        sys.stderr.write(
            f"slackwater: this command needs {error.name}; type: pip install 'slackwater[engine]'\n"
        )
        sys.exit(1)
    sys.exit(run(sys.argv[1:]))
