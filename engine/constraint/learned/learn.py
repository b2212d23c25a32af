"""From the traces of a recording to a constraint, as it is written."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

import numpy as np

from engine.constraint.learned.miner import Traces, learned
from engine.errors import UserError
from engine.query.regular import Regular
from engine.query.render import quote, render_regular

END: Final = ";\n"
_MOST_TYPES: Final = 200
"""Of which something is learned; a graph of more says nobody anything, and takes long."""


@dataclass(frozen=True, slots=True)
class Learned:
    """``expression`` allows ``of`` traces, of ``variants`` kinds, and maybe others."""

    expression: Regular
    of: int
    variants: int


def variants_of(trace: np.ndarray, symbol: np.ndarray, names: list[str]) -> Traces:
    """How many traces there are of each kind.

    Args:
        trace: int64, of each event, sorted.
        symbol: its number.
        names: of numbers.
    """
    starts = np.flatnonzero(np.diff(trace, prepend=-1))
    texts = np.array(names, object)
    found: Counter[tuple[int, ...]] = Counter(
        tuple(each.tolist()) for each in np.split(symbol, starts[1:])
    )
    return Counter({tuple(texts[list(kind)]): n for kind, n in found.items()})


def learn(variants: Traces, ends: frozenset[str], rare: float) -> Learned:
    """A constraint that allows ``variants``.

    Args:
        variants: kinds of traces, and how many there are of each.
        ends: types of which a whole trace's last event is; none: every trace is whole.
        rare: the rarest kinds are left out, up to this share of the traces.

    Raises:
        UserError: no trace is whole, or there are too many types.
    """
    whole = Counter({kind: n for kind, n in variants.items() if not ends or kind[-1] in ends})
    if not whole:
        raise UserError(f"no trace ends with {', '.join(sorted(ends))}; name what ends them")
    types = {event for kind in whole for event in kind}
    if len(types) > _MOST_TYPES:
        raise UserError(
            f"the traces have {len(types)} types of events; at most {_MOST_TYPES} are learned of. "
            "Leave out what is of no process"
        )
    left = rare * sum(whole.values())
    for kind, n in sorted(whole.items(), key=lambda item: (item[1], item[0])):
        if n > left or len(whole) == 1:
            break
        left -= n
        del whole[kind]
    return Learned(learned(whole), sum(whole.values()), len(whole))


def constraint_text(name: str, trace: str, expression: Regular) -> str:
    """As a file or a query has it, from CONSTRAINT on."""
    return (
        f"CONSTRAINT {quote(name)} FOR TRACE BY {quote(trace)} AS\n  {render_regular(expression)}"
    )
