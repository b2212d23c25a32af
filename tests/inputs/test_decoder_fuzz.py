"""Whatever bytes come: a decoder refuses them or takes them, in bounded time and memory."""

from __future__ import annotations

import contextlib
import gc
import time
import tracemalloc
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_agent.errors import AgentError
from tests.inputs.decoders import DECODERS, Decoder, mutated

SECONDS_PER_KB = 1e-3
SHORT, LONG = 16 << 10, 200 << 10
FROM_BYTES = 4096
"""Shorter inputs cost what a call costs."""
TRIES = 170_000
"""Of each of six decoders: a million of all."""


def tried(decoder: Decoder, data: bytes) -> None:
    with contextlib.suppress(AgentError):
        decoder.decode(data)


def seconds(decoder: Decoder, data: bytes) -> float:
    """Processor time of the best of some runs."""
    best = 1e9
    for _ in range(3):
        began = time.thread_time()
        tried(decoder, data)
        best = min(best, time.thread_time() - began)
    return best


@pytest.mark.parametrize("name", DECODERS)
@given(data=st.binary(max_size=300), seed=st.integers(0, 2**32))
def test_a_decoder_refuses_what_it_does_not_take(name: str, data: bytes, seed: int) -> None:
    tried(DECODERS[name], data)
    tried(DECODERS[name], mutated(Random(seed), DECODERS[name]))


@pytest.mark.parametrize("name", DECODERS)
def test_valid_messages_are_taken(name: str) -> None:
    for data in DECODERS[name].valid:
        DECODERS[name].decode(data)


@pytest.mark.parametrize("name", DECODERS)
def test_no_long_input_takes_long(name: str) -> None:
    """Against a short one in the same moment: what grows faster than the input would show."""
    decoder = DECODERS[name]
    for piece in (*decoder.special, *decoder.valid):
        for short, long in zip(
            made_long(decoder, piece, SHORT), made_long(decoder, piece, LONG), strict=True
        ):
            for _ in range(5):
                allowed = 4 * max(seconds(decoder, short) * LONG / SHORT, SECONDS_PER_KB)
                taken = seconds(decoder, long)
                if taken < allowed:
                    break
            assert taken < allowed, (piece, taken, allowed)


def made_long(decoder: Decoder, piece: bytes, size: int) -> tuple[bytes, ...]:
    """The piece over and over: alone, after a message that broke off, inside a valid one."""
    valid, many = decoder.valid[0], piece * (size // len(piece))
    return many, valid[: -1 - len(valid) // 4] + many, valid[:-2] + many + valid[-2:]


@pytest.mark.deep
@pytest.mark.parametrize("name", DECODERS)
def test_a_million_mutated_messages(name: str) -> None:
    decoder, random = DECODERS[name], Random(name)
    for number in range(TRIES):
        data = mutated(random, decoder)
        began = time.thread_time()
        tried(decoder, data)
        taken = time.thread_time() - began
        if len(data) >= FROM_BYTES and taken > SECONDS_PER_KB * len(data) / 1024:
            taken = seconds(decoder, data)
            assert taken <= SECONDS_PER_KB * len(data) / 1024, (number, len(data), taken)


@pytest.mark.slow
@pytest.mark.parametrize("name", DECODERS)
def test_memory_stays_flat(name: str) -> None:
    decoder, random = DECODERS[name], Random(name)
    used = []
    tracemalloc.start()
    try:
        for _ in range(4):
            for _ in range(5_000):
                tried(decoder, mutated(random, decoder))
            gc.collect()
            used.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert used[-1] - used[0] < 200_000, used
