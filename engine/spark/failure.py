"""From what Spark says of a failed query to the one cause at its end."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from engine.errors import SlackwaterError, SparkFailure, UserError

_OURS: Final = re.compile(
    r"^(?:\S*: )?engine\.errors\.(UserError|ContractViolation): (.+)$", re.MULTILINE
)
"""An error of ours as a worker's traceback ends."""
_RAISED: Final = re.compile(
    r"^(?:Caused by: )?((?:[\w$]+\.)*[\w$]*(?:Error|Exception)): (.+)$", re.MULTILINE
)
"""The last line of a Python traceback, or the head of a Java one."""


def spark_failure(said: str, log: Path) -> SlackwaterError:
    """The error to raise for a query that failed.

    Args:
        said: by Spark, tracebacks of workers among it.
        log: file that gets it, too.

    Returns:
        ``UserError`` where a worker found the input at fault, else ``SparkFailure``.
    """
    with log.open("a", encoding="utf-8") as file:
        file.write(said)
    ours = _OURS.findall(said)
    if ours:
        kind, message = ours[-1]
        if kind == "UserError":
            return UserError(message)
        return SparkFailure(message, log)
    raised = _RAISED.findall(said)
    if raised:
        return SparkFailure(": ".join(raised[-1]), log)
    return SparkFailure(said.strip().partition("\n")[0], log)
