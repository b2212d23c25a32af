"""Options that are a share: ``5 %`` or ``0.05``."""

from __future__ import annotations

from engine.errors import UserError


def read_share(option: str, text: str, example: str) -> float:
    """A share above 0 and at most 1; ``example``: of how to write it.

    >>> read_share("--uncertain", "5 %", "0.05"), read_share("--uncertain", "0.05", "0.05")
    (0.05, 0.05)

    Raises:
        UserError: it is none.
    """
    number, percent, rest = text.strip().partition("%")
    try:
        share = float(number) / (100 if percent else 1)
    except ValueError:
        share = -1.0
    if rest or not 0 < share <= 1:
        raise UserError(f"{option} {text}: write a share above 0 and at most 1, such as {example}")
    return share
