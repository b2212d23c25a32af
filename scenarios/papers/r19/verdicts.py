"""R19's claims, judged by sequence as printed and by what its author's code does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from slackwater.paper import Finding
from slackwater.scenario import Claim
from slackwater.scenarios.papers import verdicts


@dataclass(frozen=True, slots=True)
class CodedClaim(Claim):
    """A claim of the paper. ``code``: whether it holds by its author's code.

    None where that makes no difference.
    """

    code: bool | None = None


def judged(
    text: str,
    holds: bool,
    ours: str,
    paper: str,
    why: str,
    code: tuple[bool, str] | None = None,
    also: str = "",
    rests: str = "",
) -> CodedClaim:
    """A claim as ``scenarios.papers.verdicts`` has it.

    Args:
        text: what the paper claims.
        holds: whether it does.
        ours: what we measured.
        paper: what it printed.
        why: shown only if it does not hold: what in the data makes it so.
        code: whether it holds by its author's code, and the numbers of that.
        also: shown in any case.
        rests: as there.
    """
    lines = [also] if also else []
    if code is not None:
        said = "holds" if code[0] else "fails"
        lines.insert(0, f"By its author's code: {said}, {code[1]}.")
    claim = verdicts.judged(text, holds, ours, paper, why, "\n".join(lines), rests)
    return CodedClaim(text, holds, claim.detail, ours, paper, rests, code=code[0] if code else None)


def summary(findings: Mapping[str, Finding]) -> str:
    """What changes by its author's code, and why; empty if no verdict does."""
    claims = [claim for each in findings.values() for claim in each.claims]
    changed = [claim.holds for claim in claims if by_code(claim) != claim.holds]
    if not changed:
        return ""
    return (
        f"By its author's code {sum(map(by_code, claims))} of {len(claims)} hold: "
        f"{changed.count(False)} more, and {changed.count(True)} of these not. As printed (Eq "
        "3.11), the timeout follows waits of fractions of a ms and gives up whatever comes later; "
        "the code takes the ps between two events for ms, and so waits for the threshold, 500 ms."
    )


def by_code(claim: Claim) -> bool:
    """Whether a claim holds by its author's code."""
    if isinstance(claim, CodedClaim) and claim.code is not None:
        return claim.code
    return claim.holds
