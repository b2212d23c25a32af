"""The hash of a log: what counts and what does not, whatever an Arrow column is made of."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from engine.stream.frame import Frame
from simulator.arrow_views import null_rows, plain_values
from simulator.digest import FrameDigest

NUMBERS = [3, None, -7, 2**40, None, 0, 1, 2, 3]
COLUMNS = {
    "int64": pa.array(NUMBERS, pa.int64()),
    "int8": pa.array([1, 2, 3, None, 5, 6, 7, 8, 9], pa.int8()),
    "float": pa.array([0.5, None, -0.0, 1e300, 2.0, 3.0, None, 4.0, 5.0]),
    "bool": pa.array([True, None, False, True, True, False, None, False, True]),
    "text": pa.array(["b", None, "a", "b", "c", "", "b", "a", None]).dictionary_encode(),
}


def digest(*columns: pa.Array) -> str:
    names = [f"column{number}" for number in range(len(columns))]
    found = FrameDigest()
    found.add(Frame("site", pa.RecordBatch.from_arrays(list(columns), names)))
    return found.hexdigest()


def test_it_is_what_it_always_was() -> None:
    assert (
        digest(*COLUMNS.values())
        == "51ee0a0b6ea4fb31fc045b2fe21d71e6c8201a8cc0c2240dbb0a7e025a0a71e2"
    )


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_a_slice_is_as_a_column_of_its_own(column: pa.Array) -> None:
    for low, high in ((0, 9), (1, 9), (3, 8), (8, 9), (4, 4)):
        cut = column.slice(low, high - low)
        own = pa.concat_arrays([cut])  # copied: begins at its own first byte
        assert digest(cut) == digest(own)


@pytest.mark.parametrize("name", [name for name in COLUMNS if name != "text"])
def test_views_say_what_arrow_says(name: str) -> None:
    for cut in (COLUMNS[name], COLUMNS[name].slice(2, 5), COLUMNS[name].slice(9)):
        nulls = null_rows(cut)
        absent = np.zeros(len(cut), bool) if nulls is None else nulls
        assert absent.tolist() == [value is None for value in cut.to_pylist()]
        given = plain_values(cut).tolist()
        told = [None if null else value for null, value in zip(absent, given, strict=True)]
        assert told == cut.to_pylist()


def test_unused_words_and_their_order_do_not_count_but_a_null_does() -> None:
    def words(codes: list[int | None], names: list[str]) -> pa.Array:
        texts = pa.array(names, pa.string())
        return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), texts)

    assert digest(words([0, 1, 0], ["b", "a"])) == digest(words([2, 0, 2], ["a", "unused", "b"]))
    assert digest(words([0, None], ["b"])) != digest(words([0, 0], ["b"]))
    assert digest(words([None, None], ["b"])) == digest(words([None, None], []))
