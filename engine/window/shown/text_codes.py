"""Codes of texts that windows hold in values, so that the texts are not forgotten."""

from __future__ import annotations

import numpy as np

from engine.window.held.accumulate import TEXTS, Sums
from engine.window.held.content import Held
from engine.window.held.number import TEXT
from engine.window.told import Standing


def text_codes(held: Held, standing: Standing) -> np.ndarray:
    """Codes in ``held`` and in what was told; of what is freed, too."""
    texts = np.flatnonzero(held.sums.of["typed"] == TEXTS)
    if not len(texts):
        return np.empty(0, np.int64)
    told = standing.words["low"][standing.kinds == TEXT]
    kept = held.kept.ints[:, texts][held.kept.valid[:, texts]]
    return np.concatenate([told, kept, picked_codes(held.sums, held.sums.of)])


def picked_codes(sums: Sums, of: np.ndarray) -> np.ndarray:
    """Those among picked values; ``of``: as in ``Sums``."""
    if not len(sums.picked):
        return np.empty(0, np.int64)
    texts = of["typed"][sums.picked["value"]] == TEXTS
    picks = sums.picks[texts]
    return np.asarray(picks["value"][picks["there"] != 0])
