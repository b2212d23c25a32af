"""The commands ``slackwater agent`` and ``slackwater agent spool``."""

from __future__ import annotations

import argparse
import asyncio
import itertools
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from slackwater.edge_agent import clock
from slackwater.edge_agent.drivers.agent_file import AgentSettings, read_agent
from slackwater.edge_agent.drivers.agent_program import jitter, run_agent
from slackwater.edge_agent.drivers.outlets import dry_run
from slackwater.edge_agent.errors import (
    FAILED,
    USER_ERROR,
    AgentError,
    SettingsError,
    one_line,
    refused,
)
from slackwater.edge_agent.listening import default_source, interfaces
from slackwater.edge_agent.outbox.inspection import (
    SegmentReport,
    StartReport,
    inspect_outbox,
    trace_lines,
)
from slackwater.edge_agent.outbox.spool import MISSING
from slackwater.edge_agent.standard_streams import drop_unwritten, fill_closed_streams, keep_private

# ``slackwater agent spool ls|verify|dump FOLDER``: lists the content of an outbox.


Say = Callable[[str], object]
"""Takes a line with its newline."""


def list_spool(folder: Path, say: Say) -> int:
    """Print one line per start of the agent and stream; return the exit code."""
    for report in inspect_outbox(folder):
        start = report.start
        if start is None:
            say(f"{report.path}: nobody knows who numbered these events\n")
            continue
        ended = ", ended" if start.ended else ""
        say(
            f"{report.path}: {start.site}/{start.source}, incarnation {start.incarnation}{ended}, "
            f"{report.damaged} damaged files\n"
        )
        for index, stream in enumerate(start.streams):
            waiting = report.waiting(index)
            segments = [each for each in report.segments if each.stream == index]
            size = sum(each.path.stat().st_size for each in segments)
            events = sum(record.rows for record in waiting)
            span = f", numbers {waiting[0].first} to {waiting[-1].end - 1}" if waiting else ""
            files = f"{len(segments)} files, {size} bytes"
            say(f"  {stream.name}: {events} events wait{span}, {files}\n")
    return 0


def verify_spool(folder: Path, say: Say) -> int:
    """Print one line per fault; return 1 if there is one, else 0."""
    faults = [line for report in inspect_outbox(folder) for line in _faults(report)]
    for line in faults:
        say(f"{line}\n")
    say(f"{folder}: {len(faults)} faults\n")
    return 1 if faults else 0


def _faults(report: StartReport) -> list[str]:
    if report.start is None:
        return [f"{report.path}: nobody knows who numbered these events"]
    found = [f"{report.path / name}: {MISSING}" for name in report.missing]
    for index in range(len(report.start.streams)):
        segments = [each for each in report.segments if each.stream == index]
        for place, segment in enumerate(segments):
            newest = place + 1 == len(segments)
            found += _of_segment(segment, newest=newest)
        waiting = report.waiting(index)
        for one, following in itertools.pairwise(waiting):
            if one.end < following.first:
                found.append(
                    f"{report.path}: stream {report.start.streams[index].name}: "
                    f"events {one.end} to {following.first - 1} are gone"
                )
    return found


def _of_segment(segment: SegmentReport, *, newest: bool) -> list[str]:
    bad = segment.bad_bytes + (0 if newest else segment.torn_bytes)
    found = [f"{segment.path}: {bad} bytes are damaged"] if bad else []
    if newest and segment.torn_bytes:
        found.append(f"{segment.path}: torn end of {segment.torn_bytes} bytes, cut at the start")
    return found


def dump_spool(folder: Path, say: Say) -> int:
    """Print the unacked events as lines of a trace (times in ns)."""
    for report in inspect_outbox(folder):
        for line in trace_lines(report):
            say(f"{line}\n")
    return 0


ACTIONS: Final[dict[str, tuple[Callable[[Path, Say], int], str]]] = {
    "ls": (list_spool, "what waits in an outbox"),
    "verify": (verify_spool, "whether its files are whole; exit code 1 if not"),
    "dump": (dump_spool, "the events that wait, as lines of a trace"),
}
"""By name: what to do, and the help."""


# ``slackwater agent`` (``python -m slackwater.edge_agent``); needs the base install alone.


INTERRUPTED: Final = 130


def program(arguments: Sequence[str] | None = None) -> int:
    """``main`` as a process, with any standard streams, also closed ones."""
    fill_closed_streams()
    try:
        return main(arguments)
    finally:
        drop_unwritten()


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; gives the exit code (0 done, 1 failed, 2 the user's input is at fault)."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    options = _parser().parse_args(words)
    try:
        code = int(options.action(options))
        sys.stdout.flush()
    except SettingsError as error:
        sys.stderr.write(f"slackwater agent: {one_line(str(error))}\n")
        return USER_ERROR
    except KeyboardInterrupt:
        return INTERRUPTED
    except AgentError as error:
        sys.stderr.write(f"slackwater agent: {one_line(str(error))}\n")
        return FAILED
    except BrokenPipeError:
        return FAILED  # the reader of our output has gone; nothing more can be said to it
    except OSError as error:
        said, code = refused(error, "agent")
        sys.stderr.write(f"slackwater agent: {one_line(said)}\n")
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="slackwater agent",
        description="Sends a device's events to a gateway, with numbers, and with what its clock "
        "shows compared to the gateway's.",
        epilog="Exit code 0: done, 1: failed, 2: the settings are at fault.",
    )
    parser.add_argument("--config", "-c", metavar="FILE", type=Path, help="settings (TOML)")
    parser.add_argument(
        "--dry-run", action="store_true",
        help="read the inputs and print what would be sent, without a gateway",
    )  # fmt: skip
    parser.add_argument("--quiet", action="store_true", help="say nothing but errors")
    parser.set_defaults(action=_run)
    commands = parser.add_subparsers(title="commands", metavar="")
    check = commands.add_parser(
        "check", help="whether the settings are right; prints them as they are in effect"
    )
    check.add_argument("config", metavar="CONFIG", type=Path)
    check.set_defaults(action=_check)
    spool = commands.add_parser("spool", help="looks into an outbox, and changes nothing")
    looks = spool.add_subparsers(title="commands", metavar="", required=True)
    for name, (action, said) in ACTIONS.items():
        spool_parser = looks.add_parser(name, help=said)
        spool_parser.add_argument("folder", metavar="FOLDER", type=Path)
        spool_parser.set_defaults(action=partial(_spool, action))
    return parser


def _spool(action: Callable[[Path, Say], int], options: argparse.Namespace) -> int:
    def say(text: str) -> None:
        sys.stdout.write(one_line(text.removesuffix("\n")) + "\n")

    return action(options.folder, say)


def _settings(config: Path | None) -> AgentSettings:
    if config is None:
        raise SettingsError("--config FILE must be given; see slackwater agent --help")
    return read_agent(config, lambda: clock.read().wall_ns, default_source, jitter)


def _run(options: argparse.Namespace) -> int:
    settings = _settings(options.config)
    keep_private()

    def tell(line: str) -> None:
        if not options.quiet:
            sys.stderr.write(f"{one_line(line)}\n")
            sys.stderr.flush()

    if options.dry_run:
        return asyncio.run(dry_run(settings, sys.stdout.write, tell))
    return asyncio.run(run_agent(settings, tell))


def _check(options: argparse.Namespace) -> int:
    settings = _settings(options.config)
    sys.stdout.write(settings.printed)
    names = ", ".join(each.name for each in interfaces())
    sys.stderr.write(f"{one_line(str(options.config))}: right; interfaces here: {names}\n")
    return 0
