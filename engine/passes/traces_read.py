"""The traces of a recording: its events by the value they share, in order of time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from engine.chain import Chain, ChainSettings
from engine.errors import UserError
from engine.log.following import Log, opened
from engine.order.base import Guards
from engine.order.registry import parse_order
from engine.query.plan import Attribute
from engine.stream.frame import by_site
from engine.stream.released import Released
from engine.window.keys import GroupKeys

_ROWS: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class RecordedTraces:
    """Events sorted by trace, and in each by their time on the engine's clock.

    Attributes:
        trace: int64, which trace each event is of, from 0 on.
        symbol: what each event is, as the reader says.
        untraced: events that lack the attribute.
    """

    trace: np.ndarray
    symbol: np.ndarray
    untraced: int


class TypeNumbers:
    """Reads events by their types: ``names``, by number, in order of appearance."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def read(self, released: Released) -> np.ndarray:
        """The number of each event's type; -1 without one."""
        codes, which = np.unique(released.columns["type"], return_inverse=True)
        numbers = []
        for code in codes.tolist():
            name = released.strings.text(code)
            if name is not None and name not in self.names:
                self.names.append(name)
            numbers.append(-1 if name is None else self.names.index(name))
        return np.array(numbers, np.int64)[which.reshape(-1)]


def recorded_traces(
    log: Log, attribute: Attribute, read: Callable[[Released], np.ndarray],
    advanced: Callable[[int], None] = lambda _rows: None,
) -> RecordedTraces:  # fmt: skip
    """The traces of ``log``, each site's by themselves.

    Args:
        log: the recording.
        attribute: what the events of a trace share.
        read: gives what each event is, as a number; negative: it is not looked at.
        advanced: told how many records were read.

    Raises:
        UserError: no event has the attribute.
    """
    settings = ChainSettings(parse_order("none"), guards=Guards(None), ordered="full")
    reader = opened(log)
    chains: dict[str, Chain] = {}
    keys: dict[str, GroupKeys] = {}
    found: list[tuple[pa.Array, np.ndarray, np.ndarray]] = []
    untraced = 0
    for frames in by_site(reader.of_sites(None), _ROWS):
        for site, given in sorted(frames.items()):
            chain = chains.setdefault(site, Chain(settings, site))
            by = keys.setdefault(site, GroupKeys((attribute,), "constraint"))
            for released in chain.process(given).ordered:
                symbol = read(released)
                codes, nulls = by.codes(released)
                named = nulls == 0 if len(nulls) else np.ones(released.n, np.bool_)
                untraced += int((~named & (symbol >= 0)).sum())
                kept = named & (symbol >= 0)
                zeros = np.zeros(int(kept.sum()), np.int64)
                texts = by.columns(zeros, codes[kept])[attribute.name].cast(pa.string())
                prefix = pa.array([f"{site}\0"] * len(texts), pa.string())
                whole = pc.binary_join_element_wise(prefix, texts, "")
                found.append((whole, symbol[kept], released.columns["ref"][kept]))
            advanced(sum(frame.batch.num_rows for frame in given))
    if not any(len(texts) for texts, _, _ in found):
        raise UserError(
            f"no event of these types has an attribute {attribute.name!r}; name the one that the "
            "events of a trace share"
        )
    trace = pa.chunked_array([texts for texts, _, _ in found]).combine_chunks()
    number = trace.dictionary_encode().indices.to_numpy().astype(np.int64)
    symbol = np.concatenate([each for _, each, _ in found])
    order = np.lexsort((np.concatenate([ref for _, _, ref in found]), number))
    return RecordedTraces(number[order], symbol[order], untraced)
