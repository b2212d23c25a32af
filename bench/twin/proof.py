"""The proof of the twin: ``python -m bench.twin [SETTING ...] [--seed N] [--keep FOLDER]``.

For each known setting: ``slackwater validate`` measures one device and writes a scenario file, the
whole set-up runs live, and the file is simulated. The live run's share of uncertain results and its
95th percentiles of the delays until detection and until the answer's line must be predicted within
20 %. Exit code 0: they are; 1: they are not, or a program failed; 3: this machine lacks something,
which it names.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

import slackwater
from bench.real_sockets.both_worlds import AGREE, LACKING, MEMORY
from bench.real_sockets.real_run import lacks
from bench.twin.live_run import VALIDATE_SECONDS, LiveRun, run_live
from bench.twin.settings import DEVICES, MS, QUERY, SETTINGS, TwinSetting, type_of
from slackwater.scenarios.from_file import FromFile
from slackwater.scenarios.from_file.metrics import EmittedResult, TrueResult, query_metrics

SIMULATIONS = 3
METRICS = {
    "uncertain": "%", "detection_delay_p50": "ms", "detection_delay_p95": "ms",
    "answer_delay_p50": "ms", "answer_delay_p95": "ms",
}  # fmt: skip
CHECKED_METRICS = ("uncertain", "detection_delay_p95", "answer_delay_p95")
"""Of these, what must agree, whatever else the machine does: the set-up runs before it."""
Pair = tuple[tuple[str, int], tuple[str, int]]


@dataclass(frozen=True)
class TwinOutcome:
    """One setting: metrics of both worlds, shares from 0 to 1 and times in ns.

    ``answer_delay``: live, until the answer's line was seen in its file.
    """

    setting: TwinSetting
    live: dict[str, float]
    twin: dict[str, float]
    results: int
    validation: dict[str, Any]

    def off(self, metric: str) -> float:
        """By how much the prediction differs, as a share of what was measured."""
        return self.twin[metric] / self.live[metric] - 1

    def disagreements(self) -> dict[str, float]:
        """What is asked for and further off than that."""
        found = {name: self.off(name) for name in CHECKED_METRICS}
        return {name: by for name, by in found.items() if abs(by) > AGREE}


def prove(setting: TwinSetting, folder: Path, validate_s: int = VALIDATE_SECONDS) -> TwinOutcome:
    """Both worlds of one setting.

    Raises:
        RuntimeError: a program failed.
    """
    live = run_live(setting, folder, validate_s)
    measured = live_metrics(setting, live)
    twins = []
    for seed in range(1, SIMULATIONS + 1):
        with slackwater.run(FromFile(str(live.twin)), {"seed": str(seed)}) as done:
            twins.append(done.score.facts["metrics"][QUERY])
    predicted = {name: fmean(each[name] for each in twins) for name in METRICS}
    found = {name: measured[name] for name in METRICS}
    return TwinOutcome(setting, found, predicted, round(measured["results"]), live.validation)


def live_metrics(setting: TwinSetting, live: LiveRun) -> dict[str, float]:
    """As a scenario's run is scored, of the live answers."""
    true = {
        pair: TrueResult(None, live.start_ns + at) for pair, at in true_matches(setting).items()
    }
    return query_metrics(
        [_emitted_result(line, seen_ns) for line, seen_ns in live.answers], true, _same
    )


def _emitted_result(line: dict[str, Any], seen_ns: int) -> tuple[str, EmittedResult]:
    first, second = ((each["source"], each["seq"]) for each in line["events"])
    is_certain = line["certainty"] == "confirmed"
    return line["op"], EmittedResult((first, second), None, is_certain, line["at"], seen_ns)


def _same(left: Any, right: Any) -> bool:
    return bool(left == right)


def true_matches(setting: TwinSetting) -> dict[Pair, int]:
    """What the query would find if all clocks were right, and when each could be known [ns]."""
    events = sorted(
        (int(at), name, v, int(key))
        for name in DEVICES
        for v, (at, key) in enumerate(zip(*setting.events[name], strict=True))
    )
    recent: dict[int, list[tuple[int, str, int]]] = {}
    found: dict[Pair, int] = {}
    for at, source, v, key in events:
        kept = recent[key] = [
            each for each in recent.get(key, []) if at - each[0] <= setting.within_ms * MS
        ]
        if type_of(source) == "A":
            kept.append((at, source, v))
        else:
            found |= {((first, n), (source, v)): at for then, first, n in kept if then < at}
    return found


def table(found: Sequence[TwinOutcome]) -> str:
    """For people."""
    lines = [f"{'':14}{'metric':22}{'live':>12}{'twin':>12}{'difference':>12}"]
    for each in found:
        for name, unit in METRICS.items():
            scale = 100 if unit == "%" else 1 / MS
            lines.append(
                f"{each.setting.name:14}{name:22}{scale * each.live[name]:9.2f} {unit:2}"
                f"{scale * each.twin[name]:9.2f} {unit:2}{100 * each.off(name):+11.1f}%"
            )
        lines.append(f"{'':14}of {each.results} results")
    return "\n".join(lines)


def main(words: Sequence[str] | None = None) -> int:
    known = {each.name: each for each in SETTINGS}
    parser = argparse.ArgumentParser(prog="python -m bench.twin", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="SETTING", help=f"of {' '.join(known)}")
    parser.add_argument("--seed", type=int, default=TwinSetting.seed)
    parser.add_argument("--keep", type=Path, help="a new folder for logs and settings")
    options = parser.parse_args(words)
    unknown = [name for name in options.names if name not in known]
    if unknown:
        parser.error(f"no such setting: {unknown[0]}; there are {' '.join(known)}")
    reason = lacks()
    if reason is not None:
        print(reason)
        return LACKING
    found = []
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as temporary:
        for name in options.names or known:
            folder = (options.keep or Path(temporary)) / name
            folder.mkdir(parents=True)
            try:
                found.append(prove(replace(known[name], seed=options.seed), folder))
            except RuntimeError as error:
                print(error)
                return 1
            if options.keep:
                kept = json.dumps(found[-1].validation, indent=1)
                (folder / "validation.json").write_text(kept)
    print(table(found))
    off = [
        f"{each.setting.name}: {name} is predicted {100 * by:+.0f} % off"
        for each in found
        for name, by in each.disagreements().items()
    ]
    print("\n".join(["", *off] if off else ["\nthe twins agree"]))
    return 1 if off else 0
