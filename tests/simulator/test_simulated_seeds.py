"""Named generators: from the root seed and the name alone."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from engine.errors import ContractViolation, UserError
from simulator.seeds import Seeds

NAMES = ["clock/s0", "clock/s1", "link/s0/up/0/delay", "link/s0/down/0/delay"]
DRAW = "from simulator.seeds import Seeds; print(Seeds(5).generator('clock/s1').integers(2**62))"


def test_the_order_of_making_and_the_others_do_not_matter() -> None:
    alone = {name: Seeds(5).generator(name).integers(2**62) for name in NAMES}
    seeds = Seeds(5)
    together = {name: seeds.generator(name).integers(2**62) for name in reversed(NAMES)}
    assert together == alone
    assert len(set(alone.values())) == len(NAMES)


def test_another_root_gives_others() -> None:
    first = Seeds(5).generator("clock/s0").integers(2**62)
    assert first != Seeds(6).generator("clock/s0").integers(2**62)


def test_the_hash_of_text_of_this_process_does_not_matter() -> None:
    drawn = {
        subprocess.run(
            [sys.executable, "-c", DRAW],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("0", "1", "random")
    }
    assert drawn == {f"{Seeds(5).generator('clock/s1').integers(2**62)}\n"}


def test_a_name_is_given_out_once() -> None:
    seeds = Seeds(5)
    seeds.generator("clock/s0")
    with pytest.raises(ContractViolation, match="'clock/s0' was handed out twice"):
        seeds.generator("clock/s0")


def test_a_negative_seed_is_the_users_error() -> None:
    with pytest.raises(UserError, match="seed: -1 is negative"):
        Seeds(-1)
