"""Allen's 13 relations of two intervals as orders of their end points (L10 Table 5.1, [All83]).

``before`` is ``te < ts'`` and ``after`` its mirror, as Allen has it (SPEC 4.7; L10's table prints
the order of starts).
"""

from __future__ import annotations

from typing import Final

Restricted = tuple[str, str, str]
"""An end point of the first interval (``ts``, ``te``), an operator, one of the second."""

ALLEN: Final[dict[str, tuple[Restricted, ...]]] = {
    "BEFORE": (("te", "<", "ts"),),
    "AFTER": (("ts", ">", "te"),),
    "MEETS": (("te", "=", "ts"),),
    "MET BY": (("ts", "=", "te"),),
    "OVERLAPS": (("ts", "<", "ts"), ("te", ">", "ts"), ("te", "<", "te")),
    "OVERLAPPED BY": (("ts", ">", "ts"), ("ts", "<", "te"), ("te", ">", "te")),
    "STARTS": (("ts", "=", "ts"), ("te", "<", "te")),
    "STARTED BY": (("ts", "=", "ts"), ("te", ">", "te")),
    "DURING": (("ts", ">", "ts"), ("te", "<", "te")),
    "CONTAINS": (("ts", "<", "ts"), ("te", ">", "te")),
    "FINISHES": (("ts", ">", "ts"), ("te", "=", "te")),
    "FINISHED BY": (("ts", "<", "ts"), ("te", "=", "te")),
    "EQUALS": (("ts", "=", "ts"), ("te", "=", "te")),
}

_SHORT: Final = {
    "MEET": "MEETS", "OVERLAP": "OVERLAPS", "START": "STARTS", "CONTAIN": "CONTAINS",
    "FINISH": "FINISHES", "EQUAL": "EQUALS",
}  # fmt: skip


def relation_named(word: str) -> tuple[Restricted, ...]:
    """The relation that the query language calls ``word``, in any case.

    >>> relation_named("met_by")
    (('ts', '=', 'te'),)
    """
    name = " ".join(word.replace("_", " ").upper().split())
    return ALLEN[_SHORT.get(name, name)]
