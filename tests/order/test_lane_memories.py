"""A memory that is packed comes back as it was; whoever takes a place finds it cleared."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from engine.order.sequence.lane_memories import LaneMemories
from engine.order.sequence.state import MEMORY

WORDS = MEMORY.itemsize // 8
contents = st.dictionaries(
    st.integers(0, WORDS - 1) | st.sampled_from([0, 63, 64, WORDS - 1]),
    st.integers(-(2**63), 2**63 - 1), max_size=9,
)  # fmt: skip


def words(memories: LaneMemories) -> np.ndarray:
    return memories.pool.view(np.int64).reshape(-1, WORDS)


@given(st.lists(st.tuples(st.sampled_from(["come", "pack", "wake", "close up"]),
                          st.lists(contents, max_size=3)), max_size=9))  # fmt: skip
def test_memories_are_what_they_were_wherever_they_lie(
    steps: list[tuple[str, list[dict[int, int]]]],
) -> None:
    memories = LaneMemories()
    here: list[tuple[int, np.ndarray]] = []
    away: list[tuple[bytes, np.ndarray]] = []
    for what, new in steps:
        if what == "come":
            places = memories.take(len(new))
            assert not words(memories)[places].any()
            for place, content in zip(places.tolist(), new, strict=True):
                for word, value in content.items():
                    words(memories)[place, word] = value
                here.append((place, words(memories)[place].copy()))
        elif what == "pack":
            going, here = here[::2], here[1::2]
            places = np.array([place for place, _ in going], np.int64)
            kept = memories.kept(places)
            memories.free(places)
            away += zip(kept, [content for _, content in going], strict=True)
        elif what == "wake":
            places = memories.again([kept for kept, _ in away])
            here += zip(places.tolist(), [content for _, content in away], strict=True)
            away = []
        else:
            memories.close_up(np.array([place for place, _ in here], np.int64))
            here = [(place, content) for place, (_, content) in enumerate(here)]
        assert len({place for place, _ in here}) == len(here)
        for place, content in here:
            assert np.array_equal(words(memories)[place], content)


def test_an_empty_memory_packs_to_little() -> None:
    memories = LaneMemories()
    (kept,) = memories.kept(memories.take(1))
    assert len(kept) < 100
