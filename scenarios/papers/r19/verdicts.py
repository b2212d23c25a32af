"""R19's claims, which are also judged for sequence when it waits for the threshold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slackwater.paper import Finding
from slackwater.scenario import Claim
from slackwater.scenarios.papers import verdicts


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
    why: str,
    waits: tuple[bool, str] | None = None,
    also: str = "",
    rests: str = "",
) -> Judged:
    """A claim as ``scenarios.papers.verdicts`` has it.

    Args:
        text: what the paper claims.
        holds: whether it does.
        ours: what we measured.
        paper: what it printed.
        why: shown only if it does not hold: what in the data makes it so.
        waits: whether it holds when sequence waits 500 ms, and the numbers of that.
        also: shown in any case.
        rests: as there.
    """
    lines = [also] if also else []
    if waits is not None:
        said = "holds" if waits[0] else "fails"
        lines.insert(0, f"If sequence waits 500 ms: {said}, {waits[1]}.")
    claim = verdicts.judged(text, holds, ours, paper, why, "\n".join(lines), rests)
    return Judged(text, holds, claim.detail, ours, paper, rests, waits=waits[0] if waits else None)


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
