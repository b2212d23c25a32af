"""``slackwater validate --scenario FILE [--recording FILE]``: the measured set-up as a scenario."""

from __future__ import annotations

import os
from pathlib import Path

from engine.errors import UserError
from engine.extras import need
from engine.live.answering_time import answering_time_ns
from engine.live.questions import Questions
from engine.log.whole_file import whole_file
from engine.passes.scenario_run import FILE
from engine.server.site_file import read_site
from engine.validate.report import Validation
from engine.validate.scenario_text import Recorded, Rhythm, scenario_text


def check_scenario(file: Path) -> None:
    """A new scenario file can be written, which is told before anything is measured.

    Raises:
        UserError: there is one already, which somebody may have changed; or no folder for it.
    """
    if file.exists():
        raise UserError(f"--scenario {file}: exists already; choose another name, or remove it")
    if not file.absolute().parent.is_dir():
        raise UserError(f"--scenario {file}: no folder {file.parent}; make it first")
    if file.suffix != FILE:
        raise UserError(f"--scenario {file}: call it NAME{FILE}, by which slackwater run knows it")


def read_recorded(recording: Path, scenario: Path | None) -> Recorded:
    """The recording, as the scenario file ``scenario`` is to name it.

    Raises:
        UserError: it cannot be read as it is.
    """
    need("sim")
    from scenarios.from_file.recordings import read_recording  # noqa: PLC0415 - the simulator's

    folder = Path() if scenario is None else scenario.parent
    try:
        found = read_recording({"file": str(recording.resolve())}, "", folder)
    except UserError as error:
        about = str(error).removeprefix(".recording.file: ")
        raise UserError(
            f"--recording: {about}; or leave --recording out, and say in the file that --scenario "
            "writes how it is read: [sources.recording] with file, mapping, time_unit"
        ) from error
    gaps = {}
    for name, streams in found.items():
        times = [each.since_ns for each in streams]
        rows = sum(len(each) for each in times)
        if rows > 1:
            first, last = min(each.min() for each in times), max(each.max() for each in times)
            gaps[name] = float(last - first) / (rows - 1)
    return Recorded(os.path.relpath(recording.resolve(), folder.resolve()), gaps)


def write_scenario(
    found: Validation, asked: Questions, file: Path, recorded: Recorded | None, site: Path | None
) -> None:
    """Writes ``file``, whole or not at all; ``site``: settings of the gateway.

    Raises:
        UserError: a query or the site's file is at fault, or nothing can be written beside its log.
    """
    rhythm = None
    if site is not None:
        settings = read_site(site, "none")
        own = settings.gateway
        # A site's log is where its gateway is: elsewhere nothing is known of that machine.
        here = asked.queries and settings.log.is_dir()
        after = answering_time_ns(settings.log.parent, asked) if here else None
        rhythm = Rhythm(own.tick_every_ns, own.frame_every_ns, own.frame_rows, after)
    plans = asked.plans()
    text = scenario_text(found, plans, asked.order, asked.barrier or None, recorded, rhythm)
    with whole_file(file) as sink:
        sink.write(text.encode())
