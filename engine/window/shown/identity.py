"""What makes a window's result another one, without the text that shows it.

Of a result counts what its line says, all but when it was told (``engine.results.identity``): of a
text what it says and not its code, and of numbers that are not shown nothing.
"""

from __future__ import annotations

import numpy as np

from engine.query.plan import Drift
from engine.results.identity import numbers_of_codes, numbers_of_rows
from engine.window.held.content import LEAST, MOST
from engine.window.held.number import TEXT
from engine.window.shown.results import WindowResults
from engine.window.shown.table import PLACES


def window_identities(results: WindowResults) -> np.ndarray:
    """Numbers of 128 bits, int64 (results, 2), equal where the content of ``results`` is.

    Only those of one query and site are compared with each other.
    """
    told = results.columns
    columns = [*results.extent(), told.nulls, *told.counts.T.astype(np.int64)]
    if results.plan.drift is Drift.EACH:
        columns.append(told.stage)
    for place, kind in enumerate(results.keys.types):
        absent = told.nulls >> place & 1 == 1
        if kind == "str":
            codes = np.where(absent, -1, told.keys[:, place])
            columns += list(numbers_of_codes(codes, results.keys.text).T)
        else:
            # As many columns as of texts: of a key that is null so far nobody knows what it is.
            columns += [np.where(absent, 0, told.keys[:, place]), np.zeros(len(absent))]
    for aggregate, is_bounded in enumerate(results.bounded):
        for name, place in PLACES.items():
            columns += _of_numbers(results, aggregate, place, results.shows(name))
        for place in (LEAST, MOST) if is_bounded else ():
            columns += _of_numbers(results, aggregate, place, results.last)
    return numbers_of_rows([np.ascontiguousarray(column, np.int64) for column in columns])


def _of_numbers(
    results: WindowResults, aggregate: int, place: int, shown: np.ndarray
) -> list[np.ndarray]:
    """A number of each result, 0 where it is not shown."""
    kinds, words = results.numbers(aggregate, place)
    kinds = np.where(shown, kinds, -1)
    high, low = (np.where(shown, words[:, part], 0) for part in range(2))
    is_text = kinds == TEXT
    if is_text.any():
        of_texts = numbers_of_codes(np.where(is_text, low, -1), results.keys.text)
        high, low = (
            np.where(is_text, of_texts[:, part], mine) for part, mine in enumerate((high, low))
        )
    return [kinds, high, low]
