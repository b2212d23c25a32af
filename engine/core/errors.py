"""The kinds of error of the engine; never mixed.

``UserError``: the input is at fault; says where and how to mend it; the CLI exits with 2.
``ContractViolation``: our own bug; crashes with a traceback.
A peer's bad message is neither: it is refused, counted and kept (see ``engine.gateway``).
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Final


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


# Which extra of the installation brings which package; one line of error for a missing one.


_PAGES: Final = ("plotly", "jinja2", "markupsafe")
EXTRAS: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    "engine": (
        ("lark", "llvmlite", "msgspec", "numba", "numpy", "packaging", "pyarrow", "rich", "typer"),
        "every command but agent and doctor",
    ),
    "report": (_PAGES, "pages of compare and paper"),
    "mqtt": (("paho",), "input mqtt of agents, sink mqtt of servers"),
    "page": (("aiohttp", "prometheus_client"), "page and metrics of serve"),
    "postgres": (("psycopg",), "sink postgres of servers"),
    "sim": (("simpy", *_PAGES), "run and simulate"),
    "spark": (("pyspark", "pandas"), "hosts on Spark; the same commands run without"),
}
"""Extra -> the packages that it brings, those of ``[engine]`` left out, and what they are for."""


_OPTIONAL: Final = {"pandas", "polars"}
"""Packages that are asked for by themselves: only what a caller wants as such a table needs one."""


def missing_package(error: ModuleNotFoundError) -> SlackwaterError:
    """What to say instead of ``error``; raises it again where a module of ours is not found."""
    if error.name is None or error.name.partition(".")[0] == "slackwater":
        raise error
    return missing(error.name)


def missing(module: str) -> SlackwaterError:
    """What to say when ``module`` is not there: which extra has it."""
    package = module.partition(".")[0]
    if package in _OPTIONAL:
        return SlackwaterError(f"this needs {package}; type: pip install {package}")
    extra = next((name for name, (has, _) in EXTRAS.items() if package in has), "engine")
    return SlackwaterError(f"this needs {package}; type: pip install 'slackwater[{extra}]'")


def need(*names: str) -> None:
    """Asks for packages before the work that only in the end uses them.

    Args:
        names: packages, or extras, which stand for all of theirs.

    Raises:
        SlackwaterError: one is not installed; names its extra.
    """
    for name in names:
        for package in EXTRAS[name][0] if name in EXTRAS else (name,):
            if importlib.util.find_spec(package) is None:
                raise missing(package)
