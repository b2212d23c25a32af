"""Claims of a paper with our number, the paper's, and, where a claim does not hold, why."""

from __future__ import annotations

from collections.abc import Iterable

from slackwater.scenario import Claim, number


def judged(text: str, holds: bool, ours: str, paper: str, why: str = "", also: str = "") -> Claim:
    """A claim of a paper as our data judge it; its detail is one line per number or reason.

    Args:
        text: what the paper claims.
        holds: whether it does.
        ours: what we measured.
        paper: what it printed.
        why: shown only if it does not hold: what in the data makes it so.
        also: shown in any case.
    """
    parts = [f"Ours: {ours}.", f"The paper: {paper}."]
    if why and not holds:
        parts.append(f"Why: {why}")
    if also:
        parts.append(also)
    return Claim(text, holds, "\n".join(parts), ours, paper)


def times(more: float, less: float) -> str:
    """How many times ``less`` goes into ``more``.

    >>> times(30, 2), times(1, 0)
    ('15x', 'infinitely')
    """
    return f"{number(float(f'{more / less:.3g}'))}x" if less else "infinitely"


def ms(value: float) -> str:
    """Milliseconds with their unit.

    >>> ms(1234.5678), ms(0.0123)
    ('1,235 ms', '0.0123 ms')
    """
    return f"{number(value)} ms"


def percent(value: float) -> str:
    """A percentage with two decimals, as the paper has them."""
    return f"{value:.2f} %"


def share(percents: float) -> str:
    """A percentage for a table: whole only if it is exactly 0 or 100.

    >>> share(100.0), share(99.9999), share(64.3587)
    ('100', '> 99.999', '64.359')
    """
    if percents in (0, 100):
        return f"{percents:.0f}"
    return "> 99.999" if 99.999 < percents < 100 else f"{percents:.3f}"


def listed(texts: Iterable[str]) -> str:
    """Values of one row after another."""
    return " / ".join(texts)
