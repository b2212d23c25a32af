"""What the kernel holds of an interval: 150 bytes at most (issue 13), with a key and without."""

from __future__ import annotations

import pytest

from bench.intervals import bytes_held, chain, stream, timed
from engine.query import query


@pytest.mark.parametrize("keyed", [True, False])
def test_an_interval_takes_150_bytes_at_most(keyed: bool) -> None:
    _, _, matcher = timed(query(chain(3, keyed=keyed)), stream(600), "ibp", 600)
    assert matcher.table.n > 20
    assert bytes_held(matcher) <= 150
