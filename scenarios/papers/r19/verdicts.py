"""Claims with our number, the paper's, and, where a claim does not hold, why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from engine.paper import Finding
from engine.report.units import number
from engine.scenario import Claim


@dataclass(frozen=True, slots=True)
class Judged(Claim):
    """A claim of the paper. ``waits``: whether it holds for sequence when it waits 500 ms.

    None where waiting makes no difference.
    """

    waits: bool | None = None


def judged(
    text: str,
    holds: bool,
    ours: str,
    paper: str,
    why: str = "",
    waits: tuple[bool, str] | None = None,
    also: str = "",
) -> Judged:
    """A claim of the paper as our data judge it; its detail is one line per number or reason.

    Args:
        text: what the paper claims.
        holds: whether it does.
        ours: what we measured.
        paper: what it printed.
        why: shown only if it does not hold: what in the data makes it so.
        waits: whether it holds when sequence waits 500 ms, and the numbers of that.
        also: shown in any case.
    """
    parts = [f"Ours: {ours}.", f"The paper: {paper}."]
    if why and not holds:
        parts.append(f"Why: {why}")
    if waits is not None:
        said = "holds" if waits[0] else "fails"
        parts.append(f"If sequence waits 500 ms: {said}, {waits[1]}.")
    if also:
        parts.append(also)
    return Judged(text, holds, "\n".join(parts), waits[0] if waits else None)


def summary(findings: Mapping[str, Finding]) -> str:
    """What the claims that do not hold have in common, in a sentence; empty if all hold."""
    failed = [claim for each in findings.values() for claim in each.claims if not claim.holds]
    waiting = sum(isinstance(claim, Judged) and bool(claim.waits) for claim in failed)
    if not waiting:
        return ""
    return (
        f"Of the {len(failed)} that do not hold, {waiting} hold when sequence waits for the "
        "paper's threshold of 500 ms. As printed (Eq 3.11), its timeout follows waits of fractions "
        "of a ms and gives up whatever comes later."
    )


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
