"""Z10's 5-count representation: Fig 9, and nothing is lost between print and parse."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import UserError
from engine.query.endpoints.five_counts import end_points, representation

FIG_9 = {
    "(A Overlap [0,0,0,1,0] B) Overlap [0,0,0,1,0] C": {"A": (1, 4), "B": (3, 7), "C": (5, 9)},
    "(A Overlap [0,0,0,1,0] B) Overlap [0,0,0,2,0] C": {"A": (1, 6), "B": (3, 7), "C": (5, 9)},
    "(A Overlap [0,0,0,1,0] B) Overlap [0,0,1,1,0] C": {"A": (1, 5), "B": (3, 7), "C": (5, 9)},
}


@pytest.mark.parametrize("text", FIG_9)
def test_z10_fig_9(text: str) -> None:
    assert representation(FIG_9[text]) == text
    assert representation(end_points(text)) == text


@given(
    st.lists(st.tuples(st.integers(0, 8), st.integers(1, 8)), min_size=1, max_size=6).map(
        lambda spans: {"abcdef"[n]: (start, start + long) for n, (start, long) in enumerate(spans)}
    )
)
def test_what_is_printed_is_read_back(intervals: dict[str, tuple[int, int]]) -> None:
    """All end points in their order, equal ones equal."""
    points = sorted({point for span in intervals.values() for point in span})
    ranked = {name: (points.index(s), points.index(e)) for name, (s, e) in intervals.items()}
    text = representation(intervals)
    assert end_points(text) == ranked
    assert representation(ranked) == text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "begins with"),
        ("A Overlap [0,0,0,1] B", "no relation with five counts"),
        ("A Overlap [0,0,0,1,0] A", "there twice"),
        ("A Overlap [0,3,0,0,0] B", "more intervals"),
        ("A Before [0,0,0,1,0] B", "fit no intervals"),
        ("A Overlap [0,0,9,0,9] B", "fit no intervals"),
    ],
)
def test_what_is_no_representation_is_refused(text: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        end_points(text)


@pytest.mark.parametrize("intervals", [{}, {"a": (3, 3)}, {"a b": (1, 2)}])
def test_what_cannot_be_represented_is_refused(intervals: dict[str, tuple[int, int]]) -> None:
    with pytest.raises(UserError):
        representation(intervals)
