"""Claims of a paper with our number, the paper's, and, where a claim does not hold, why."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from itertools import pairwise

from slackwater.paper import Finding, PaperRun
from slackwater.scenario import Claim, number


def judged(
    text: str, holds: bool, ours: str, paper: str, why: str, also: str = "", rests: str = ""
) -> Claim:
    """A claim of a paper as our data judge it; its detail is one line per number or reason.

    Args:
        text: what the paper claims.
        holds: whether it does.
        ours: what we measured.
        paper: what it printed.
        why: shown only if it does not hold: what in the data makes it so, made of numbers of the
            run (``failing``, ``turns``, or of what was measured besides).
        also: shown in any case.
        rests: on which values that the paper does not print the verdict rests, and with which
            others it is the same.

    Raises:
        ValueError: it does not hold and no reason is given.
    """
    if not holds and not why:
        raise ValueError(f"a claim that does not hold needs its reason: {text}")
    parts = [f"Ours: {ours}.", f"The paper: {paper}."]
    if why and not holds:
        parts.append(f"Why: {why}")
    if also:
        parts.append(also)
    if rests:
        parts.append(f"Rests on our choice: {rests}")
    return Claim(text, holds, "\n".join(parts), ours, paper, rests)


@dataclass(frozen=True, slots=True)
class NotJudged:
    """A claim that a run cannot decide, and why."""

    text: str
    why: str


def unless(why: str, claim: Claim) -> Claim | NotJudged:
    """``claim``, but for a reason ``why`` the run cannot decide it, if there is one."""
    return NotJudged(claim.text, why) if why else claim


def split_judged(claims: Iterable[Claim | NotJudged]) -> tuple[tuple[Claim, ...], dict[str, str]]:
    """``Finding.claims`` and ``Finding.not_judged``."""
    every = list(claims)
    return (
        tuple(each for each in every if isinstance(each, Claim)),
        {each.text: each.why for each in every if isinstance(each, NotJudged)},
    )


def decided(make: Callable[[PaperRun], Finding]) -> Callable[[PaperRun], Finding]:
    """``make``, but below scale 1 what does not hold is not judged: fewer events than its figure
    needs may be all that is against it. Its numbers are kept as the reason.
    """

    @wraps(make)
    def found(run: PaperRun) -> Finding:
        finding = make(run)
        if run.scale >= 1:
            return finding
        few = f"With {run.scale:g} of the data it does not hold, which may be for want of data."
        left = {claim.text: f"{few}\n{claim.detail}" for claim in finding.claims if not claim.holds}
        kept = tuple(claim for claim in finding.claims if claim.holds)
        return replace(finding, claims=kept, not_judged={**finding.not_judged, **left})

    return found


def failing(parts: Iterable[tuple[str, bool, str]]) -> str:
    """Which parts of a claim do not hold, each with its numbers; empty if all do.

    >>> failing([("set 1", True, "3 > 2"), ("set 2", False, "1 < 2"), ("set 3", False, "0 < 2")])
    'it fails in 2 of 3: set 2 (1 < 2); set 3 (0 < 2).'

    Args:
        parts: name, whether it holds, and its numbers.
    """
    every = list(parts)
    failed = [f"{name} ({said})" for name, holds, said in every if not holds]
    if not failed:
        return ""
    return f"it fails in {len(failed)} of {len(every)}: {'; '.join(failed)}."


def turns(names: Sequence[str], values: Sequence[float], unit: str, *, rises: bool = True) -> str:
    """Where a curve does not rise (or fall) from one place to the next; empty if nowhere.

    >>> turns(("a", "b", "c"), (1, 3, 2), "ms")
    'it goes from 3 to 2 ms from b to c.'
    """
    pairs = pairwise(zip(names, values, strict=True))
    steps = [
        f"from {number(before)} to {number(after)} {unit} from {first} to {second}"
        for (first, before), (second, after) in pairs
        if (after <= before if rises else after >= before)
    ]
    return f"it goes {', '.join(steps)}." if steps else ""


def same_with(holds: bool, others: Mapping[str, bool]) -> str:
    """With which other choices a verdict is the same, and with which it is not.

    >>> same_with(True, {"1 s": True, "2 s": False})
    'the same with 1 s, the other with 2 s'
    >>> same_with(True, {"1 s": True, "2 s": True})
    'the same with all that were tried: 1 s, 2 s'
    """
    alike = [name for name, other in others.items() if other == holds]
    unlike = [name for name, other in others.items() if other != holds]
    if not unlike:
        return f"the same with all that were tried: {', '.join(alike)}"
    parts = [f"{word} with {', '.join(names)}"
            for word, names in (("the same", alike), ("the other", unlike)) if names]  # fmt: skip
    return ", ".join(parts)


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
