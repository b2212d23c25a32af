"""The command ``slackwater``. Light to import: what a command needs loads when it is called."""

from __future__ import annotations

import gc
import os
import sys

from edge_agent.standard_streams import drop_unwritten, fill_closed_streams


def main() -> None:
    """Does what the command line says, and exits.

    Exit codes: 0 done, 1 failed, 2 the user's input is at fault.
    """
    if sys.argv[1:2] == ["agent"]:  # a device has nothing of what the other commands need
        from edge_agent.command import program as agent  # noqa: PLC0415

        sys.exit(agent(sys.argv[2:]))
    fill_closed_streams()
    gc.disable()  # until modules are loaded: they are no garbage, and looking takes 0.3 s
    # NumPy's BLAS would start a thread per core: 60 ms, and no command multiplies matrices.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        from engine.cli.app import run  # noqa: PLC0415 - a device has no typer
    except ModuleNotFoundError as error:
        if sys.argv[1:] in (["--help"], ["--version"]):
            from engine.cli.base_install import about  # noqa: PLC0415 - a device asks once

            sys.stdout.write(about(sys.argv[1:]))
            sys.exit(0)
        sys.stderr.write(
            f"slackwater: this needs {error.name}; type: pip install 'slackwater[engine]'\n"
        )
        sys.exit(1)
    code = run(sys.argv[1:])
    drop_unwritten()
    sys.exit(code)
