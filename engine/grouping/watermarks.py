"""The watermark of a chain's dataflow: which times are passed, row by row, and since when."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from engine.kernels.integers import INT_MAX, INT_MIN
from engine.stream.timeline import ALL, LONG_AGO, Moved, Steps


@dataclass(frozen=True, slots=True)
class Watermark:
    """Steps of the watermark in one batch: no later record counts with a ref below ``value``."""

    value: np.ndarray
    at: np.ndarray
    moment: np.ndarray

    @classmethod
    def behind(cls, steps: Steps, less: int) -> Watermark:
        """The clock of ``steps``, less ``less``."""
        value = np.where(steps.value < LONG_AGO + less + 2, INT_MIN, steps.value - less)
        return cls(value, steps.at, steps.moment)

    def before(self, moments: np.ndarray) -> np.ndarray:
        """What it was just before each of ``moments``."""
        place = np.searchsorted(self.moment, moments) - 1
        return np.asarray(np.where(place < 0, INT_MIN, self.value[place]))

    def last(self) -> int:
        """What it is after the batch."""
        return int(self.value.max(initial=INT_MIN))

    def since(self, ref: np.ndarray) -> np.ndarray:
        """When it passed each of ``ref`` [ns]; INT_MAX: not yet."""
        place = np.searchsorted(self.value, ref, "right")
        return np.append(self.at, INT_MAX)[place]


def promised(moved: Moved, types: tuple[str, ...]) -> Watermark | None:
    """What is promised of all ``types``, by the order or by punctuations; None: nothing can be."""
    told = moved.told.promised
    whole = [told[ALL]] if ALL in told else []
    own = [told[name] for name in types if name in told]
    if whole or not own or len(own) < len(types):
        return Watermark.behind(whole[0], 0) if whole else None
    kind = np.repeat(np.arange(len(own)), [len(each.value) for each in own])
    value, at, moment = (
        np.concatenate([getattr(each, name) for each in own]) for name in ("value", "at", "moment")
    )  # fmt: skip
    order = np.lexsort((at, moment))
    so_far = [
        np.maximum.accumulate(np.where(kind[order] == each, value[order], LONG_AGO))
        for each in range(len(own))
    ]
    return Watermark.behind(Steps(np.min(so_far, axis=0), at[order], moment[order]), 0)
