"""The scenario ``phones``: import, queries and scores of ``slackwater run phones``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.scenario import Pass, Score, UserError
from slackwater.scenarios.options import duration_ns, in_seconds, read_options
from slackwater.scenarios.phones.announcing import write_other_log
from slackwater.scenarios.phones.importing import phone_table, session_frames, truth_table
from slackwater.scenarios.phones.recording import (
    SESSIONS,
    Session,
    read_session,
    read_session_file,
    session_name,
)
from slackwater.scenarios.phones.scoring import LEARNT, MAIN, SHORT, UNORDERED, score_run
from slackwater.scenarios.recorded_log import write_log, write_manifest
from slackwater.simulation import TRUTH

DEFAULTS: Final[dict[str, Any]] = {"sessions": ",".join(SESSIONS), "latency": "6 s"}


class Phones:
    """See ``engine.scenario.RunnableScenario``."""

    name = "phones"
    title = "Phones: a recording of real devices with clocks up to 30 s wrong"
    what = (
        "Three sessions of the OoO-Dataset: seven to nine Android phones send a message every "
        "500 ms over public UMTS to one server. Event times are as the phones' own clocks showed "
        "them; each phone's one NTP offset comes as a sync record. Files of your own in that form: "
        "--set sessions=my.csv.gz,other.csv."
    )

    def options(self) -> Mapping[str, Any]:
        return dict(DEFAULTS)

    def make(self, directory: Path, options: Mapping[str, Any], data: Path) -> dict[str, Any]:
        chosen = read_options(options, DEFAULTS)
        sessions = [_read(data, name) for name in _names(chosen)]
        logged = write_log(
            directory, (frame for session in sessions for frame in session_frames(session))
        )
        write_other_log(directory, sessions)
        for name, table in (("messages", truth_table), ("phones", phone_table)):
            whole = pa.concat_tables([table(session) for session in sessions])
            pq.write_table(whole, directory / TRUTH / f"{name}.parquet")
        messages = {session.name: len(session) for session in sessions}
        return write_manifest(
            directory, self.name, chosen, logged,
            rows={
                "event": sum(messages.values()),
                "sync": sum(len(session.devices) for session in sessions),
            },
            events_by_source={
                f"{session.name}/{device}": _account(session, code)
                for session in sessions
                for code, device in enumerate(session.devices)
            },
        )  # fmt: skip

    def passes(self, options: Mapping[str, Any]) -> Sequence[Pass]:
        latency = in_seconds(duration_ns(read_options(options, DEFAULTS), "latency"))
        return (
            Pass(MAIN, f"sequence:timeout=fixed:{latency}"),
            Pass(LEARNT, f"sequence:latency={latency}"),
            Pass(SHORT, "sequence:latency=500ms"),
            Pass(UNORDERED, "none"),
        )

    def queries(self, options: Mapping[str, Any]) -> Mapping[str, str]:
        read_options(options, DEFAULTS)
        load = "SELECT count(*), sum(bytes) FROM events WINDOW TUMBLING 10 s DRIFT together"
        return {"load": load}

    def score(self, directory: Path, options: Mapping[str, Any]) -> Score:
        names = _names(read_options(options, DEFAULTS))
        orders = {
            each.label: each.order for each in self.passes(options) if each.label in (MAIN, LEARNT)
        }
        return score_run(directory, [name for name in names if name in SESSIONS], orders)


def _account(session: Session, code: int) -> dict[str, int]:
    """Messages of one phone: numbered by it, in the recording, and the difference."""
    seq = session.seq[session.device == code]
    numbered = int(seq.max()) + 1
    return {"accepted": numbered, "logged": seq.size, "missing": numbered - seq.size}


def _names(options: Mapping[str, Any]) -> list[str]:
    """Names of recorded sessions, and files of the user's own."""
    names = [name.strip() for name in options["sessions"].split(",") if name.strip()]
    for name in names:
        if name not in SESSIONS and not _is_file(name):
            known = ", ".join(SESSIONS)
            raise UserError(
                f"--set sessions={options['sessions']}: {name!r} is none of {known}, and no file "
                "(.csv or .csv.gz of the OoO-Dataset's form)"
            )
    sites = {session_name(Path(name)) if _is_file(name) else name for name in names}
    if not names or len(sites) != len(names):
        raise UserError(
            f"--set sessions={options['sessions']}: name each session once; a file's session is "
            "called like the file"
        )
    return names


def _is_file(name: str) -> bool:
    return name.endswith((".csv", ".csv.gz"))


def _read(data: Path, name: str) -> Session:
    return read_session_file(Path(name)) if _is_file(name) else read_session(data, name)
