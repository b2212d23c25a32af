"""The kinds of error of the engine; never mixed.

``UserError``: the input is at fault; says where and how to mend it; the CLI exits with 2.
``ContractViolation``: our own bug; crashes with a traceback.
A peer's bad message is neither: it is refused, counted and kept (see ``engine.gateway``).
"""

from __future__ import annotations

from pathlib import Path


class SlackwaterError(Exception):
    """Base of every error that slackwater raises on purpose. The CLI exits with 1."""


class Interrupted(SlackwaterError):  # noqa: N818 - nobody's error
    """Ctrl-C where the work done so far is kept; says how to go on. The CLI exits with 130."""


class UserError(SlackwaterError):
    """The user's input is at fault. The message names the place and the remedy."""


class OverBudget(UserError):  # noqa: N818 - what it is
    """A query finds more matches than it may, or holds back more; other queries can go on.

    ``query``: its name. The message names it and the remedies.
    """

    def __init__(self, message: str, query: str = "") -> None:
        super().__init__(message)
        self.query = query

    @classmethod
    def of(cls, query: str, does: str, most: int) -> OverBudget:
        """``does``: what the query does; ``most``: the bound on its matches."""
        return cls(
            f"query {query!r}: {does}. Ask for fewer: a shorter WITHIN, PARTITION BY or a "
            "condition that joins the steps, and for steps that repeat CONTIGUITY NEXT, SKIP or "
            f"LIMIT n; or let it have more memory: --matches-max {2 * most} (of a server: "
            "matches_max of [engine])",
            query,
        )


class SparkFailure(SlackwaterError):  # noqa: N818 - Spark's word for it
    """A run on Spark failed. ``cause``: the last one in one line; ``log``: file of all that was
    said.
    """

    def __init__(self, cause: str, log: Path) -> None:
        super().__init__(f"the run on Spark failed: {cause}; all of it is in {log}")
        self.cause = cause
        self.log = log


class ContractViolation(SlackwaterError):  # noqa: N818 - the house word for it
    """A promise inside the program was broken: a bug of ours, or a damaged log."""
