"""The scenario ``lorawan``: import, queries and scores of ``slackwater run lorawan``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from slackwater.scenario import Pass, Score, UserError
from slackwater.scenarios.lorawan.importing import (
    device_table,
    join_table,
    recording_frames,
    truth_table,
)
from slackwater.scenarios.lorawan.recording import FILES, read_recording
from slackwater.scenarios.lorawan.scoring import (
    DEVICES,
    MAIN,
    RECEPTIONS,
    SLACK,
    UNORDERED,
    score_run,
)
from slackwater.scenarios.options import duration_ns, read_options
from slackwater.scenarios.recorded_log import write_log, write_manifest
from slackwater.simulation import TRUTH

DEFAULTS: Final[dict[str, Any]] = {"files": ",".join(FILES), "latency": "500 ms", "slack": "1 h"}
HOURLY: Final = (
    "SELECT count(*), avg(rssi), max(snr) FROM events GROUP BY source WINDOW TUMBLING 1 h"
)


class Lorawan:
    """See ``engine.scenario.RunnableScenario``."""

    name = "lorawan"
    title = "LoRaWAN: lost frames, repeats and counters that restart"
    what = (
        "Three of CampusIoT's Helium recordings: five LoRaWAN devices over one to two years, as "
        "the network server received them. A counter numbers the frames, gateways repeat them, "
        "the radio loses up to six in seven, and each join restarts the counter."
    )

    def options(self) -> Mapping[str, Any]:
        return dict(DEFAULTS)

    def make(self, directory: Path, options: Mapping[str, Any], data: Path) -> dict[str, Any]:
        chosen = read_options(options, DEFAULTS)
        recordings = [read_recording(data, name) for name in _names(chosen)]
        logged = write_log(
            directory, (frame for each in recordings for frame in recording_frames(each))
        )
        (directory / TRUTH).mkdir(parents=True, exist_ok=True)
        truth = pa.concat_tables([truth_table(recording) for recording in recordings])
        pq.write_table(truth, directory / TRUTH / RECEPTIONS)
        devices = pa.concat_tables([device_table(recording) for recording in recordings])
        pq.write_table(devices, directory / TRUTH / DEVICES)
        return write_manifest(
            directory, self.name, chosen, logged,
            rows={
                "event": truth.num_rows,
                "sync": sum(join_table(recording).num_rows for recording in recordings),
            },
            events_by_source={
                f"{device['site']}/{device['source']}": {"logged": device["receptions"]}
                for device in devices.to_pylist()
            },
        )  # fmt: skip

    def passes(self, options: Mapping[str, Any]) -> Sequence[Pass]:
        chosen = read_options(options, DEFAULTS)
        return (
            Pass(MAIN, f"sequence:latency={_duration(chosen, 'latency')}"),
            Pass(SLACK, f"kslack:{_duration(chosen, 'slack')}"),
            Pass(UNORDERED, "none"),
        )

    def queries(self, options: Mapping[str, Any]) -> Mapping[str, str]:
        read_options(options, DEFAULTS)
        return {"hourly": HOURLY}

    def score(self, directory: Path, options: Mapping[str, Any]) -> Score:
        main, slack, _ = self.passes(options)
        return score_run(directory, main.order, slack.order)


def _duration(options: Mapping[str, Any], name: str) -> str:
    """A duration in an order's short form."""
    duration_ns(options, name)  # refuses what is none
    return str(options[name]).replace(" ", "")


def _names(options: Mapping[str, Any]) -> list[str]:
    names = [name.strip() for name in options["files"].split(",") if name.strip()]
    for name in names:
        if name not in FILES:
            known = ", ".join(FILES)
            raise UserError(f"--set files={options['files']}: {name!r} is none of {known}")
    if not names or len(set(names)) != len(names):
        raise UserError(f"--set files={options['files']}: name each file once")
    return names
