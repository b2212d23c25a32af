"""The typer application: commands, and the mapping of errors to exit codes."""

from __future__ import annotations

import gc
import os
import sys
from collections import Counter
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from typer.core import TyperCommand
from typer.exceptions import TyperException

from slackwater.edge_agent.errors import print_stderr, refused
from slackwater.engine.cli.examples import epilog
from slackwater.engine.core.errors import Interrupted, SlackwaterError, UserError, missing_package

_COMMANDS: Final = {
    "run": (
        "slackwater.engine.cli.scenario_commands:run",
        "A scenario: its log, its answers, its report.",
    ),
    "simulate": (
        "slackwater.engine.cli.scenario_commands:simulate",
        "Only a scenario's arrival log.",
    ),
    "new": (
        "slackwater.engine.cli.scenario_commands:new",
        "Writes a scenario file to begin with.",
    ),
    "check": (
        "slackwater.engine.cli.scenario_commands:check",
        "Reads a scenario file, says what is wrong.",
    ),
    "look": ("slackwater.engine.cli.look_command:look_at", "What is in a file, and how to go on."),
    "query": ("slackwater.engine.cli.query_commands:query", "Answers queries over a trace or log."),
    "order": (
        "slackwater.engine.cli.query_commands:order",
        "The events in order, with ref, release and late.",
    ),
    "compare": (
        "slackwater.engine.cli.compare_command:compare_orders",
        "Which order suits a recording.",
    ),
    "paper": (
        "slackwater.engine.cli.paper_command:reproduce",
        "Published tables and figures, reproduced.",
    ),
    "agent": ("slackwater.engine.cli.app:agent", "Sends a device's events to a gateway."),
    "serve": (
        "slackwater.engine.cli.serve_command:serve_site",
        "Receives the events of agents into a log.",
    ),
    "emulate": (
        "slackwater.engine.cli.serve_command:emulate_links",
        "A scenario's links between real sockets.",
    ),
    "validate": (
        "slackwater.engine.cli.validate_command:validate_setup",
        "Is this hardware good enough?",
    ),
    "clocks": (
        "slackwater.engine.cli.validate_command:show_clocks",
        "Whose clock is off, and by how much.",
    ),
    "log": (
        "slackwater.engine.cli.log_commands:log_app",
        "Between arrival logs and JSONL, CSV, Parquet.",
    ),
    "doctor": ("slackwater.engine.cli.app:doctor", "Can this machine run slackwater?"),
    "docs": ("slackwater.engine.cli.app:docs", "Where the documentation is on this disk."),
    "warm": ("slackwater.engine.cli.app:warm", "Compiles ahead, so that nothing waits."),
}
"""By name: module and function, and short help; in the order of the help."""
_PACKAGE: Final = Path(__file__).absolute().parents[2]
_INTERRUPTED: Final = 130
_NEW_OBJECTS: Final = 50_000
"""New objects before a garbage collection: commands create few reference cycles."""
_COMPLETES: Final = "_SLACKWATER_COMPLETE"
"""Environment variable by which a shell requests completions of a command line."""
_LESS_MEMORY: Final = "let there be fewer events, a shorter WITHIN or duration, or --spill"
_CONTEXTS: Final[dict[str, dict[str, Any]]] = {
    # The agent parses its own arguments: a device has no typer.
    "agent": {
        "allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": [],
    },
    "emulate": {"allow_extra_args": True},  # arguments of a command to run
}  # fmt: skip
_HELP_OPTIONS: Final = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


def _command(name: str) -> Any:
    """The function of a command, or its application of subcommands. Importing all commands would
    take longer than many queries.
    """
    module, _, command = _COMMANDS[name][0].partition(":")
    return getattr(import_module(module), command)


def _application(names: Sequence[str], *, loads: bool) -> typer.Typer:
    """The application with these commands; ``loads`` False: names and short help only."""
    app = typer.Typer(
        name="slackwater",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        add_completion=True,
        rich_markup_mode=None,  # plain help: brackets are kept, and flags show no type
        context_settings=_HELP_OPTIONS,
        epilog=epilog("slackwater"),
        help="Event streams that arrive late, out of order and with disagreeing clocks: put in "
        "order, asked questions, and answered with certainty and completeness.",
    )
    app.callback()(_nothing)  # so that a single command still needs its name
    for name in names:
        found = _command(name) if loads else _nothing
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=name, short_help=_COMMANDS[name][1])
        else:
            theirs = _CONTEXTS.get(name, {})
            app.command(
                name, short_help=_COMMANDS[name][1], epilog=epilog(name),
                context_settings=theirs,
            )(found)  # fmt: skip
    for group in (app, *(each.typer_instance for each in app.registered_groups)):
        for each in group.registered_commands if group is not None else ():
            each.cls = _OneValue
    return app


class _OneValue(TyperCommand):
    """A command that refuses a repeated option that takes one value."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:
            _, _, found = self.make_parser(ctx).parse_args(args=list(args))
            for option, times in Counter(found).items():
                if (
                    times > 1
                    and option.nargs == 1
                    and not (option.multiple or getattr(option, "is_flag", False))
                ):
                    raise UserError(
                        f"{option.opts[0]} is given {times} times and takes one value; leave out "
                        f"{'one' if times == 2 else 'all but one'}"
                    )
        return super().parse_args(ctx, args)


def _several_inputs(arguments: Sequence[str]) -> list[str]:
    """Split ``--input a.csv b.csv``, as a shell expands ``*.csv``, into one option per file."""
    words: list[str] = []
    follows = ""  # after --input: its value; after a value: further files
    for word in arguments:
        if word == "--input":
            follows = "value"
        elif follows == "value":
            follows = "more"
        elif follows == "more" and not word.startswith("-") and os.path.exists(word):  # noqa: PTH110 - a query may be no path at all
            words.append("--input")
        else:
            follows = ""
        words.append(word)
    return words


def _version(show_version: bool) -> None:
    # ruff: noqa: PLC0415 - what one command needs is not loaded with every one
    if show_version:
        from importlib.metadata import version

        typer.echo(f"slackwater {version('slackwater')}")
        raise typer.Exit


def _nothing(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """What the application itself does: only its commands do something."""
    del version


def doctor(
    as_json: bool = typer.Option(False, "--json", help="The same as JSON, on standard output."),
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", metavar="FILE", help="Look at settings of a site, too."),
    ] = None,
) -> None:
    """Says whether this machine can run slackwater, and what to do if not."""
    from slackwater.engine.cli.doctor import check_tokens, checks, report

    found = checks()
    if config is not None:
        from slackwater.engine.server.site_file import plain_tokens, read_site

        found.append(check_tokens(plain_tokens(read_site(config))))
    raise typer.Exit(report(found, sys.stdout, as_json=as_json))


def docs(
    show: Annotated[bool, typer.Option("--open", help="Show it in the browser.")] = False,
) -> None:
    """Prints the first page of this version's documentation, which needs no network."""
    page, clone = _PACKAGE / "site" / "index.html", _PACKAGE.parent
    if not page.exists():
        if not (clone / "mkdocs.yml").exists():
            raise SlackwaterError(
                f"{page} is not there: slackwater was installed without its documentation; in a "
                "clone of the project type make docs"
            )
        page = clone / "docs" / "index.md"
        print_stderr("without make docs the pages are text\n")
    typer.echo(page)
    if show:
        import webbrowser

        webbrowser.open(page.as_uri())


def warm(
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress.")] = False,
    half: Annotated[str | None, typer.Option(hidden=True)] = None,
) -> None:
    """Compiles what most commands use into the cache, on two cores: about a minute, once.

    Without it a command compiles what it needs when it first has many events.
    """
    from slackwater.engine.cli.warm import compile_ahead, compile_half

    if half is None:
        compile_ahead(quiet=quiet)
    else:
        compile_half(half, run)


def agent(context: typer.Context) -> None:
    """Sends a device's events to a gateway; see slackwater agent --help."""
    from slackwater.edge_agent.command import main

    raise typer.Exit(main(context.args))


def _of(error: MemoryError) -> str:
    """The text of NumPy's and Arrow's memory errors; Python's own have none."""
    return f": {error}" if str(error) else ""


def run(arguments: Sequence[str]) -> int:
    """Run one command; return the exit code (0 done, 1 failed, 2 wrong input of the user)."""
    first = arguments[0] if arguments else ""
    try:
        called = not _COMMANDS.keys().isdisjoint(arguments) or _COMPLETES in os.environ
        app = _application([first] if first in _COMMANDS else list(_COMMANDS), loads=called)
        gc.freeze()  # modules stay
        gc.set_threshold(_NEW_OBJECTS)
        gc.enable()
        code = app(_several_inputs(arguments), prog_name="slackwater", standalone_mode=False)
        sys.stdout.flush()  # a failure to write shows here, not at exit
    except KeyboardInterrupt:
        code = _INTERRUPTED
    except TyperException as error:
        said = error.format_message().rstrip(".")
        if said.startswith("Usage:"):  # called without arguments: print the help
            print_stderr(f"{said}\n")
            return int(error.exit_code)
        context = getattr(error, "ctx", None)
        command = "slackwater" if context is None else context.command_path
        files = [each for each in arguments if each.startswith("-") and Path(each).is_file()]
        remedy = "".join(f"; {each} is a file: name it ./{each}" for each in files)
        print_stderr(f"slackwater: {said}{remedy}; see {command} --help\n")
        return int(error.exit_code)
    except Interrupted as error:
        print_stderr(f"slackwater: {error}\n")
        return _INTERRUPTED
    except ModuleNotFoundError as error:
        print_stderr(f"slackwater: {missing_package(error)}\n")
        return 1
    except UserError as error:
        print_stderr(f"slackwater: {error}\n")
        return 2
    except SlackwaterError as error:
        print_stderr(f"slackwater: {error}\n")
        return 1
    except MemoryError as error:
        print_stderr(f"slackwater: out of memory{_of(error)}; {_LESS_MEMORY}\n")
        return 1
    except BrokenPipeError:
        return 1  # the reader of standard output has gone
    except OSError as error:
        said, code = refused(error, first or "slackwater")
        print_stderr(f"slackwater: {said}\n")
    if code == _INTERRUPTED:  # typer's exit code of Ctrl-C
        print_stderr("slackwater: interrupted\n")
    return int(code) if isinstance(code, int) else 0
