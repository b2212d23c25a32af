"""Which faults do the tests find? Plants small ones in the cores, one by one, and runs their tests.

``python -m scripts.mutants`` chooses the faults of ``ROOMS`` (scripts/faults.py says how), plants
each in a copy of this checkout, and runs the quick tests of its room until one fails. A fault that
no test finds is a gap, or changes nothing that a test could see: scripts/mutants.txt lists those
with the reason, and others are planted in their place. Results are JSON lines (``--out``): a second
run with the same file goes on where the first ended, and ``--compare`` names what an earlier run
found and this one does not.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
import tempfile
import threading
from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Mapping
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from scripts.fault_runs import TIME_LIMIT, Copy, KernelCache, UnfitError, Verdict
from scripts.faults import PlantedFault, chosen, faults_of

ROOT: Final = Path(__file__).resolve().parent.parent
EQUIVALENT: Final = ROOT / "scripts/mutants.txt"
UNMUTATED_LIMIT: Final = 1800


@dataclass(frozen=True)
class MutantRoom:
    """Where the code of a room is, what tests judge it, and how many faults are planted."""

    folders: tuple[str, ...]
    tests: tuple[str, ...]
    number: int


PRODUCTS: Final = "tests/products"
ROOMS: Final = {
    "order": MutantRoom(("engine/order",), ("tests/order", PRODUCTS), 10),
    "clocks": MutantRoom(("engine/core/clocks",), ("tests/order", "tests/barrier", PRODUCTS), 6),
    "pattern": MutantRoom(("engine/operators/match",), ("tests/pattern", PRODUCTS), 9),
    "repetition": MutantRoom(
        ("engine/operators/match/repetition",), ("tests/pattern/repetition", PRODUCTS), 6
    ),
    "interval": MutantRoom(
        ("engine/operators/match/interval",), ("tests/interval", "tests/pattern/trees", PRODUCTS), 4
    ),
    "window": MutantRoom(("engine/operators/window",), ("tests/window", PRODUCTS), 10),
    "constraint": MutantRoom(("engine/operators/constraint",), ("tests/constraint",), 5),
    "cascade": MutantRoom(("engine/operators/cascade",), ("tests/cascade",), 4),
    "grouping": MutantRoom(("engine/operators/grouping",), ("tests/grouping",), 5),
    "barrier": MutantRoom(
        ("engine/barrier",), ("tests/barrier", "tests/pattern/test_barriers.py", PRODUCTS), 5
    ),
    "log": MutantRoom(("engine/log",), ("tests/log",), 6),
    "gateway": MutantRoom(("engine/gateway",), ("tests/gateway",), 5),
}  # fmt: skip


def in_order(
    root: Path, tests: Iterable[str], fault: PlantedFault, seconds: dict[str, float]
) -> list[str]:
    """A room's test files, by folder: those near the fault's module first, then the quick ones."""
    files: set[str] = set()
    for path in tests:
        at = root / path
        found = at.rglob("test_*.py") if at.is_dir() else [at] if at.is_file() else []
        files.update(file.relative_to(root).as_posix() for file in found)
    module = fault.file.removesuffix(".py").replace("/", ".")
    words = {word for word in Path(fault.file).stem.split("_") if len(word) > 2}

    def rank(file: str) -> tuple[str, bool, bool, float, str]:
        imports = module in (root / file).read_text(encoding="utf-8")
        resembles = bool(words & set(Path(file).stem.split("_")))
        # By folder, as pytest loses the fixtures of one that it comes back to.
        folder = Path(file).parent.as_posix()
        return folder, not imports, not resembles, seconds.get(file, 0.0), file

    return sorted(files, key=rank)


class MutantRun:
    """The faults that are to be planted, and what is known of each."""

    def __init__(self, options: argparse.Namespace, plan: list[PlantedFault]) -> None:
        self.options, self.plan = options, plan
        self.known = {line["id"]: line for line in read_lines(options.out) if "id" in line}
        self.seconds: dict[str, float] = {}  # of each test file, unmutated
        self.limits: dict[str, float] = {}
        self.stopped = threading.Event()
        self._lock = threading.Lock()

    def report(self, fault: PlantedFault, verdict: Verdict) -> None:
        line = asdict(fault) | {
            "found": verdict.found, "by": verdict.by, "seconds": verdict.seconds,
        }  # fmt: skip
        with self._lock:
            self.known[fault.id] = line
            if self.options.out is not None:
                with self.options.out.open("a", encoding="utf-8") as out:
                    out.write(json.dumps(line) + "\n")
            print(f"{_words(line)}: {verdict.words} ({verdict.seconds} s)", flush=True)

    def without_fault(self, copy: Copy, room: str) -> None:
        """Run a room's tests as they are: they pass, and their seconds set limits and order."""
        done = copy.test(ROOMS[room].tests, UNMUTATED_LIMIT, "--durations=0")
        if self.stopped.is_set():
            return
        if done.found:
            raise UnfitError(f"{room}: without a fault, {done.by} fails\n{done.output}")
        copy.kernels.keep(copy.cache)
        for seconds, file in re.findall(r"^([\d.]+)s \w+ +([^:\s]+)::", done.output, re.MULTILINE):
            self.seconds[file] = self.seconds.get(file, 0.0) + float(seconds)
        self.limits[room] = max(self.options.limit, 2.5 * done.seconds + 60)
        print(f"{room}: passes without a fault ({done.seconds} s)", flush=True)

    def work(self, copy: Copy, jobs: Jobs) -> None:
        """Take rooms and faults until none is left."""
        while not self.stopped.is_set() and (job := jobs.take()) is not None:
            if isinstance(job, str):
                self.without_fault(copy, job)
                jobs.begin(job)
                continue
            tests = in_order(copy.root, ROOMS[job.room].tests, job, self.seconds)
            with copy.planted(job):
                verdict = copy.test(tests, self.limits[job.room])
            if not self.stopped.is_set():
                self.report(job, verdict)


class Jobs:
    """What is left to do: rooms to run without a fault, and faults of rooms that passed."""

    def __init__(self, faults: Iterable[PlantedFault]) -> None:
        self._waiting: dict[str, list[PlantedFault]] = defaultdict(list)
        for fault in faults:
            self._waiting[fault.room].append(fault)
        self._rooms = deque(self._waiting)
        self._ready: deque[PlantedFault] = deque()
        self._lock = threading.Lock()

    def take(self) -> str | PlantedFault | None:
        with self._lock:
            if self._ready:
                return self._ready.popleft()
            return self._rooms.popleft() if self._rooms else None

    def begin(self, room: str) -> None:
        """The room's faults can be planted."""
        with self._lock:
            self._ready.extend(self._waiting[room])


def _words(line: Mapping[str, Any]) -> str:
    place = f"{line['id']} {line['room']}: {line['file']}:{line['line']} {line['function']}"
    return f"{place}, {line['kind']}: {line['edit_text'][:160]}"


def read_lines(file: Path | None) -> list[dict[str, Any]]:
    """The lines of an earlier run; a file that is not there has none."""
    if file is None or not file.is_file():
        return []
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def equivalent(file: Path = EQUIVALENT) -> set[str]:
    """The ids of mutants.txt: faults that change nothing that a test could see."""
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return {line.split()[0] for line in lines if line.strip() and not line.startswith("#")}


def planned(
    room: str, number: int, seed: int, left_out: set[str], earlier: set[str], root: Path = ROOT
) -> list[PlantedFault]:
    """A room's faults: those of an earlier run that are still there, filled up by rank."""
    every = faults_of(room, root, ROOMS[room].folders)
    faults = [fault for fault in every if fault.id not in left_out]
    again = [fault for fault in faults if fault.id in earlier]
    kept = {fault.id for fault in again}
    more = [fault for fault in chosen(faults, number, seed) if fault.id not in kept]
    return again + more[: max(number - len(again), 0)]


def conclude(run: MutantRun, earlier: list[dict[str, Any]]) -> int:
    """Print the sums, the gaps, and what is worse than in an earlier run; the exit code."""
    done = [run.known[fault.id] for fault in run.plan if fault.id in run.known]
    by_room: dict[str, Counter[str]] = defaultdict(Counter)
    for line in done:
        by_room[line["room"]]["found" if line["found"] else "not found"] += 1
        by_room[line["room"]]["time limit"] += line["by"] == TIME_LIMIT
    total: Counter[str] = sum(by_room.values(), Counter())
    for room, counts in [*by_room.items(), ("all", total)]:
        print(
            f"{room}: {counts['found']} found ({counts['time limit']} by the time limit), "
            f"{counts['not found']} not found"
        )
    for line in done:
        if not line["found"]:
            print(f"not found: {_words(line)}")
    gone = {line["id"] for line in earlier} - {fault.id for fault in run.plan} - equivalent()
    if gone:
        print(f"{len(gone)} faults of the earlier run are no longer in the code")
    lost = [
        line for line in earlier
        if line["found"] and not run.known.get(line["id"], {"found": True})["found"]
    ]  # fmt: skip
    for line in lost:
        print(f"found earlier by {line['by']}, and not now: {_words(line)}")
    return 1 if lost else 0


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="mutants", description=__doc__.split("\n\n")[0])
    parser.add_argument("--room", action="append", choices=ROOMS, help="these alone")
    parser.add_argument("--number", type=int, help="faults of each room (default: see ROOMS)")
    parser.add_argument("--seed", type=int, default=0, help="another choice of faults")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--limit", type=float, default=240, help="seconds of a fault, at least")
    parser.add_argument("--tests", type=Path, default=ROOT, help="a checkout whose tests judge")
    parser.add_argument("--out", type=Path, help="JSON lines; what they hold is not run again")
    parser.add_argument("--compare", type=Path, help="JSON lines of an earlier run")
    parser.add_argument("--list", action="store_true", help="print the faults, and run nothing")
    return parser.parse_args()


def main() -> int:
    """Plant the faults that were asked for."""
    options = arguments()
    rooms = options.room or list(ROOMS)
    earlier = [line for line in read_lines(options.compare) if line["room"] in rooms]
    left_out, ids = equivalent(), {line["id"] for line in earlier}
    plan = [
        fault for room in rooms for fault in planned(
            room, options.number or ROOMS[room].number, options.seed, left_out, ids)
    ]  # fmt: skip
    run = MutantRun(options, plan)
    if options.list:
        for fault in plan:
            print(_words(asdict(fault)))
        return 0
    left = [fault for fault in plan if fault.id not in run.known]
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        try:
            plant(run, left, Path(folder))
        except KeyboardInterrupt:
            conclude(run, earlier)
            sys.exit("mutants: interrupted; with the same --out the next run goes on from here")
        except UnfitError as error:
            sys.exit(f"mutants: {error}")
    return conclude(run, earlier)


def plant(run: MutantRun, left: list[PlantedFault], folder: Path) -> None:
    """Room by room: its tests without a fault, then with each."""
    kernels, jobs = KernelCache(folder / "kernels"), Jobs(left)
    tests = run.options.tests.resolve()
    copies = [Copy(folder / f"worker{n}", tests, kernels) for n in range(run.options.workers)]
    with ThreadPoolExecutor(len(copies)) as pool:
        workers = [pool.submit(run.work, copy, jobs) for copy in copies]
        try:
            wait(workers, return_when=FIRST_EXCEPTION)
        finally:  # also when interrupted
            run.stopped.set()
            for copy in copies:
                copy.stop()
    for worker in workers:
        worker.result()


if __name__ == "__main__":
    sys.exit(main())
