"""The command ``slackwater``. It imports little and is complete in the base install: ``agent`` is
handled here; code of other commands is imported when one is called, if it is installed.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec

from slackwater.edge_agent.standard_streams import drop_unwritten, fill_closed_streams


def main() -> None:
    """Run the command line and exit.

    Exit codes: 0 done, 1 failed, 2 wrong input of the user.
    """
    if sys.argv[1:2] == ["agent"]:  # a device lacks the packages of the other commands
        from slackwater.edge_agent.command import program as agent  # noqa: PLC0415

        sys.exit(agent(sys.argv[2:]))
    fill_closed_streams()
    gc.disable()  # until modules are loaded: collecting them would take 0.3 s in vain
    # NumPy's BLAS would start a thread per core: 60 ms, and no command multiplies matrices.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        run = import_module(
            "slackwater.engine.cli.app"
        ).run  # by name: it may be missing on a device
    except ModuleNotFoundError as error:
        has_doctor = find_spec("slackwater.engine") is not None
        if has_doctor and sys.argv[1:] in (["doctor"], ["doctor", "--json"]):
            doctor = import_module("slackwater.engine.cli.doctor")
            sys.exit(doctor.report(doctor.checks(), sys.stdout, as_json="--json" in sys.argv))
        if sys.argv[1:] in (["--help"], ["--version"]):
            sys.stdout.write(about(sys.argv[1:], has_doctor=has_doctor))
            sys.exit(0)
        sys.stderr.write(
            f"slackwater: this needs {str(error.name).removeprefix('slackwater.')}; "
            "type: pip install 'slackwater[engine]'\n"
        )
        sys.exit(1)
    code = run(sys.argv[1:])
    drop_unwritten()
    sys.exit(code)


def about(words: Sequence[str], *, has_doctor: bool) -> str:
    """Output of a device for ``--version``; for any other words, the commands that it has:
    ``agent``, and ``doctor`` where the engine's code is installed.
    """
    from importlib.metadata import version  # noqa: PLC0415 - takes longer than all else here

    said = f"slackwater {version('slackwater')}\n"
    if "--version" in words:
        return said
    doctor = "  slackwater doctor                      what each extra would add\n"
    return said + (
        "\n  slackwater agent --config agent.toml   sends a device's events to a gateway\n"
        "  slackwater agent check agent.toml      whether its settings are right\n"
        "  slackwater agent spool ls FOLDER       what waits in an outbox\n"
        "  slackwater agent --help                all of it\n"
        f"{doctor if has_doctor else ''}"
        "\nAll other commands: pip install 'slackwater[engine]'\n"
    )
