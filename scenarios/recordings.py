"""The same comparison over every real recording, on one page.

Started by ``python -m slackwater.scenarios.recordings``.

The scenario of each recording makes a log; each order is measured over it, with slacks and
latencies that fit the rate of its events. A recording that is not on this machine is named and left
out.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, NamedTuple

from slackwater.engine.apps.report.numbers import versions
from slackwater.engine.apps.report.page.document import write_page
from slackwater.engine.core.units import neat
from slackwater.measures import Measures, choose, measure_many
from slackwater.scenario import NS_PER, Guards, RunnableScenario, Table, UserError
from slackwater.scenarios import lorawan, mimic, phones, soccer
from slackwater.scenarios.lorawan import scoring as of_lorawan
from slackwater.scenarios.mimic import scoring as of_mimic
from slackwater.scenarios.orders import NOTE, on_arrival, order_table, plain
from slackwater.simulation import LOG, data_directory

HTML: Final = "recordings.html"
JSON: Final = "recordings.json"
COMPLETE: Final = 0.999
"""Share of the events that an order must release in their place to suit."""
_TITLE: Final = "Orders over real recordings"
_SECONDS: Final = (
    "none", "sequence", "sequence:timeout=r19", "sequence:latency=6s", "sequence:timeout=fixed:6s",
    "kslack:100ms", "kslack:1s", "kslack:6s", "mp-kslack", "aq-kslack:error=0.05,window=10s",
    "ldop:window=10s",
)  # fmt: skip
_LORAWAN: Final = (
    "none", "sequence", *of_lorawan.NUMBERED, *of_lorawan.SLACKS, *of_lorawan.ADAPTIVE,
)  # fmt: skip
_MIMIC: Final = ("none", *of_mimic.SLACKS, *of_mimic.ADAPTIVE)


@dataclass(frozen=True, slots=True)
class Recording:
    """A log that a scenario makes with ``options``, and the orders to measure over it.

    ``unit``: of the holds that are shown.
    """

    name: str
    title: str
    scenario: RunnableScenario
    options: Mapping[str, Any]
    orders: tuple[str, ...]
    unit: str = "ms"
    guards: Guards = field(default_factory=Guards)


RECORDINGS: Final = (
    *(
        Recording(each, f"Phones {each}: a message every 500 ms over UMTS", phones.scenario(),
                  {"sessions": each}, _SECONDS)
        for each in ("d-1", "d-2", "d-3")
    ),
    *(
        Recording(each, f"LoRaWAN {each}: {what}", lorawan.scenario(), {"files": each}, _LORAWAN,
                  "s")
        for each, what in (("ftd", "three mobile testers"), ("ems", "a sensor on a tower"),
                           ("imst", "a board indoors"))
    ),
    Recording("mimic", "Intensive care: charting of 100 patients", mimic.scenario(), {}, _MIMIC,
              "h", of_mimic.GUARD),
    Recording("soccer", "Soccer, simulated, over recorded 5G delays", soccer.scenario(),
              {"delay": "recorded"}, _SECONDS),
)  # fmt: skip


class RecordingSummary(NamedTuple):
    """A recording's part of the page, beside its verdict."""

    arrived: str
    orders: Table


def compare_recordings(
    data: Path, out: Path, chosen: Sequence[Recording] = RECORDINGS
) -> dict[str, Any]:
    """Measures every order over every chosen recording; writes the page and its numbers.

    Args:
        data: where the recordings lie.
        out: folder of ``recordings.html`` and ``recordings.json``, made if absent.
        chosen: see ``RECORDINGS``.

    Returns:
        content of ``recordings.json``: verdict and measures of each recording, or why it has none.

    Raises:
        UserError: none of the recordings is there.
    """
    summaries: dict[str, RecordingSummary] = {}
    found: dict[str, Any] = {}
    for each in chosen:
        sys.stderr.write(f"{each.title}\n")
        try:
            measured = _measured(each, data)
        except UserError as error:
            sys.stderr.write(f"  left out: {error}\n")
            found[each.name] = {"title": each.title, "left_out": str(error)}
        else:
            summaries[each.name], found[each.name] = _summary(each, measured)
    if all("left_out" in each for each in found.values()):
        raise UserError(
            f"{data}: holds none of the recordings; {found[chosen[0].name]['left_out']}"
        )
    report = {"made_with": versions(), "complete": COMPLETE, "recordings": found}
    chapters = {each.name: each.title.partition(":")[0] for each in chosen}
    template = Path(__file__).with_name(HTML)
    write_page(out, template, _TITLE, chapters, report, note=NOTE, recorded=summaries)
    return report


def _measured(recording: Recording, data: Path) -> list[Measures]:
    with TemporaryDirectory() as folder:
        made = Path(folder) / "run"
        made.mkdir()
        recording.scenario.make(made, recording.options, data)
        return measure_many(made / LOG, recording.orders, guards=recording.guards)[1]


def _summary(
    recording: Recording, measured: list[Measures]
) -> tuple[RecordingSummary, dict[str, Any]]:
    """One recording's part of the page, and of the numbers."""
    unit = recording.unit
    choice = choose(measured, COMPLETE, unit=unit, unit_ns=NS_PER[unit])
    arrived = f"{on_arrival(measured[0])}; {_guard(recording.guards)}."
    table = replace(order_table(recording.title, measured, unit), title="", note="")
    verdict = {"suits": choice.suits, "headline": choice.headline, "reason": choice.reason}
    plain_summary = {"title": recording.title, "verdict": verdict, "orders": plain(measured)}
    return RecordingSummary(arrived, table), plain_summary


def _guard(guards: Guards) -> str:
    if guards.guard_ns is None:
        return "without a future guard"
    return f"future guard {neat(guards.guard_ns)}"


def main(arguments: Sequence[str]) -> int:
    """Exit code 0: written; 2: the user's input is at fault."""
    parser = argparse.ArgumentParser(
        prog="python -m slackwater.scenarios.recordings", description=_TITLE
    )
    parser.add_argument("out", type=Path, help=f"folder for {HTML} and {JSON}")
    parser.add_argument(
        "--only", action="append", choices=[each.name for each in RECORDINGS], default=[],
        help="a recording; repeatable; default: all",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    chosen = [each for each in RECORDINGS if each.name in (options.only or [each.name])]
    try:
        compare_recordings(data_directory(os.environ), options.out, chosen)
    except UserError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(f"{options.out / HTML}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
