"""The state of a chain, made smaller for the JVM, and states that were not."""

from __future__ import annotations

import pytest

from engine.errors import ContractViolation
from engine.spark.chain_state import packed, unpacked


def test_what_was_packed_comes_back_and_is_smaller() -> None:
    state = b"events and stacks " * 10_000
    assert unpacked(packed(state)) == state
    assert len(packed(state)) < len(state) // 20
    assert unpacked(packed(b"")) == b""


def test_a_checkpoint_of_an_earlier_version_is_refused() -> None:
    with pytest.raises(ContractViolation, match="start again with a new checkpoint directory"):
        unpacked(b"\x80\x05a pickle")
