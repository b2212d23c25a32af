"""Runs every property test with fresh seeds, round after round, until the time is up.

A round is one pytest of all tests that Hypothesis drives, but for the deep ones, which take hours;
with a failure goes what repeats it. ``make test`` tries the same examples on every machine. A found
example becomes a test: an ``@example`` above the property, or a regression test of its own.
"""

from __future__ import annotations

import argparse
import secrets
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NOTHING_TO_RUN = 5
"""What pytest ends with when no test was selected."""
SECONDS_MAX = 3600
"""Of one test: what fails is made small, which takes longer than the test."""


def round_of(seed: int, tests: list[str]) -> tuple[int, list[str]]:
    """Exit code of one round, and the failures as pytest names them."""
    command = [
        sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadgroup", "-q",
        "-p", "no:cacheprovider", "-m", "hypothesis and not deep", "--hypothesis-profile=fuzz",
        "-o", f"timeout={SECONDS_MAX}", "-o", "faulthandler_timeout=0",
        f"--hypothesis-seed={seed}", *tests,
    ]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, check=False, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        print(done.stdout, flush=True)
    lines = done.stdout.splitlines()
    print(f"fuzz: seed {seed}: {lines[-1] if lines else 'nothing printed'}", flush=True)
    return done.returncode, [line for line in lines if line.startswith(("FAILED", "ERROR"))]


def main() -> None:
    """Rounds until the time is up; exit code 1 if any of them failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="begin no round after that")
    parser.add_argument("--seed", type=int, help="one round, with this seed")
    parser.add_argument("tests", nargs="*", help="files or tests, as for pytest (default: all)")
    options = parser.parse_args()
    until = time.monotonic() + options.minutes * 60
    found: list[str] = []
    while True:
        seed = options.seed if options.seed is not None else secrets.randbelow(2**32)
        code, failures = round_of(seed, options.tests)
        if code == NOTHING_TO_RUN:
            sys.exit("fuzz: no property test there")
        if code:
            words = " ".join(options.tests)
            again = f"make fuzz SEED={seed}" + (f" TESTS='{words}'" if words else "")
            found += [f"{again}   # {line}" for line in failures or [f"pytest ended with {code}"]]
        if options.seed is not None or time.monotonic() > until:
            break
    print("\n".join(found) if found else "fuzz: nothing found", flush=True)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
