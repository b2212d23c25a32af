"""The testbed against real sockets: ``python -m bench.real_sockets [--seconds N] [--keep FOLDER]``.

Runs the set-up (``setup.py``) with real agents and a real gateway behind emulated links, with
clocks bent by libfaketime; simulates it meanwhile, and prints both worlds side by side. Exit code
0: they agree; 1: they do not, or something is not true; 3: this machine lacks something, which it
names.
"""

from __future__ import annotations

import argparse
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass, fields, replace
from pathlib import Path
from statistics import fmean

from bench.real_sockets.device_clock import Bend, ClockPair
from bench.real_sockets.measures import (
    MeasuredWorld,
    UntrueLogError,
    WorldChecks,
    WorldMeasures,
    measure_world,
)
from bench.real_sockets.real_run import RealWorld, lacks
from bench.real_sockets.setup import DEVICES, SocketsSetup
from slackwater.simulator.run import LOG, simulate_to

AGREE = 0.20
"""So far a prediction may be off, as a share of what was measured."""
BEYOND_MAX = 0.001
"""Share of syncs whose offset may be wrong by more than their bound."""
SECONDS = 45
MEMORY = Path("/dev/shm")
"""Where the logs are written: the disk, which other work keeps busy, is not part of the set-up."""
SIMULATIONS = 3
"""Simulated runs, each with other draws of the links, of whose measures the means are taken."""
LACKING = 3


def real_world(setup: SocketsSetup, folder: Path) -> MeasuredWorld:
    """The set-up on real sockets."""
    folder.mkdir(parents=True)
    done = RealWorld(setup, folder).run()
    return MeasuredWorld(done.log, done.start_ns, done.bends)


def simulated_world(setup: SocketsSetup, folder: Path, seed: int) -> MeasuredWorld:
    """The set-up on virtual time; ``seed``: of what links do (the events are the set-up's own)."""
    scenario = replace(setup.scenario(), seed=seed)
    simulate_to(scenario, folder, folder)
    on = scenario.start_ns
    clocks = {d.name: Bend(ClockPair(on, on + d.fast_ns, 0), d.rate) for d in DEVICES}
    return MeasuredWorld(folder / LOG, on + scenario.warm_up_ns, clocks)


@dataclass(frozen=True)
class WorldComparison:
    """What came of both worlds; of the simulated one means, and sums, over ``SIMULATIONS`` runs."""

    real: WorldMeasures
    truth: WorldChecks
    simulated: WorldMeasures
    theirs: WorldChecks


def scratch() -> tempfile.TemporaryDirectory[str]:
    """A folder in memory, where there is one."""
    return tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None)


def run_both(setup: SocketsSetup, folder: Path) -> WorldComparison:
    """Runs the real world, which has precedence on this machine, and simulates it meanwhile.

    Raises:
        UntrueLogError: an event was lost, doubled or changed, in either world.
        RuntimeError: a program failed.
    """
    with ThreadPoolExecutor(1) as real_thread:
        running = real_thread.submit(real_world, setup, folder / "real")
        runs = [
            measure_world(setup, simulated_world(setup, folder / f"simulated{seed}", seed))
            for seed in range(1, SIMULATIONS + 1)
        ]
        real, truth = measure_world(setup, running.result())
    simulated = WorldMeasures(
        *(fmean(values) for values in zip(*(astuple(m) for m, _ in runs), strict=True))
    )
    theirs = WorldChecks(
        *(sum(values) for values in zip(*(astuple(c) for _, c in runs), strict=True))
    )
    return WorldComparison(real, truth, simulated, theirs)


def disagreements(real: WorldMeasures, simulated: WorldMeasures) -> dict[str, float]:
    """Predictions that are further off than ``AGREE``, and how far."""
    off = {
        each.name: getattr(simulated, each.name) / getattr(real, each.name) - 1
        for each in fields(WorldMeasures)
    }
    return {name: by for name, by in off.items() if abs(by) > AGREE}


def untrue(checked: WorldChecks) -> list[str]:
    """What must not be, and is."""
    found = []
    if checked.beyond > BEYOND_MAX * checked.syncs:
        found.append(f"{checked.beyond} of {checked.syncs} offsets are beyond their bound")
    if checked.wrong:
        found.append(f"{checked.wrong} confirmed matches are none")
    return found


def both_tables(both: WorldComparison) -> str:
    """Measures and checks of both worlds, for people."""
    lines = [f"{'':14}{'measured':>12}{'simulated':>12}{'difference':>12}"]
    for each in fields(WorldMeasures):
        there, predicted = getattr(both.real, each.name), getattr(both.simulated, each.name)
        share = 100 * (predicted / there - 1)
        unit = "%" if each.name in {"disorder", "uncertain"} else "ms"
        lines.append(f"{each.name:14}{there:9.2f} {unit:2}{predicted:9.2f} {unit:2}{share:+11.1f}%")
    lines += ["", f"{'':14}{'measured':>12}{f'in {SIMULATIONS} runs':>12}"]
    lines += [
        f"{each.name:14}{getattr(both.truth, each.name):12}{getattr(both.theirs, each.name):12}"
        for each in fields(WorldChecks)
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.real_sockets", description=__doc__)
    parser.add_argument("--seconds", type=int, default=SECONDS, help="how long events happen")
    parser.add_argument("--seed", type=int, default=SocketsSetup.seed)
    parser.add_argument("--keep", type=Path, help="a new folder for logs and settings")
    options = parser.parse_args()
    reason = lacks()
    if reason is not None:
        print(reason)
        return LACKING
    with scratch() as temporary:
        try:
            both = run_both(
                SocketsSetup(options.seconds, options.seed), options.keep or Path(temporary)
            )
        except (UntrueLogError, RuntimeError) as error:
            print(error)
            return 1
    print(both_tables(both))
    problems = untrue(both.truth) + [
        f"{name} is predicted {100 * by:+.0f} % off"
        for name, by in disagreements(both.real, both.simulated).items()
    ]
    print("\n".join(["", *problems] if problems else ["\nthe simulator agrees"]))
    return 1 if problems else 0
