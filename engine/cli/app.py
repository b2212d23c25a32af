"""The typer application: commands, and how errors become exit codes."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence

import typer
from typer.exceptions import TyperException

from engine.cli.compare_command import compare_orders
from engine.cli.doctor import checks, report
from engine.cli.log_commands import log_app
from engine.cli.paper_command import reproduce
from engine.cli.query_commands import order, query
from engine.cli.run_commands import run_scenario, simulate
from engine.errors import SlackwaterError, UserError

app = typer.Typer(
    name="slackwater",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=True,
    help="Event streams that arrive late, out of order and with disagreeing clocks: put in order, "
    "asked questions, and answered with certainty and completeness.",
)
app.command("run")(run_scenario)
app.command("simulate")(simulate)
app.command("query")(query)
app.command("order")(order)
app.command("compare")(compare_orders)
app.command("paper")(reproduce)
app.add_typer(log_app, name="log")


@app.command("doctor")
def doctor(
    as_json: bool = typer.Option(False, "--json", help="The same as JSON, on standard output."),
) -> None:
    """Says whether this machine can run slackwater, and what to do if not."""
    raise typer.Exit(report(checks(), sys.stdout, as_json=as_json))


def run(arguments: Sequence[str]) -> int:
    """Run one command; gives the exit code (0 done, 1 failed, 2 the user's input is at fault)."""
    try:
        code = app(list(arguments), standalone_mode=False)
    except typer.Abort:
        return 130
    except TyperException as error:
        said = error.format_message().rstrip(".")
        sys.stderr.write(f"slackwater: {said}; see slackwater --help\n")
        return int(error.exit_code)
    except UserError as error:
        sys.stderr.write(f"slackwater: {error}\n")
        return 2
    except SlackwaterError as error:
        sys.stderr.write(f"slackwater: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of our output has gone; nothing more can be said to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        if error.filename is None and error.errno != errno.ENOSPC:
            raise  # no file's fault, so it may be ours
        place = "" if error.filename is None else f"{error.filename}: "
        sys.stderr.write(f"slackwater: {place}{error.strerror}\n")
        return 1
    return int(code) if isinstance(code, int) else 0
