"""The kinds of errors of the engine.

``UserError``: invalid input; the message has the place and the remedy; the CLI exits with 2.
``ContractViolation``: a bug of this program; the CLI crashes with a traceback.
A bad message from a peer is neither: it is refused, counted and kept (see ``engine.gateway``).
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Final


class SlackwaterError(Exception):
    """Base of every error that slackwater raises intentionally. The CLI exits with 1."""


class Interrupted(SlackwaterError):  # noqa: N818 - nobody's error
    """Ctrl-C with the work so far saved; says how to continue. The CLI exits with 130."""


class UserError(SlackwaterError):
    """The user's input is invalid. The message names the place and the remedy."""


class OverBudget(UserError):  # noqa: N818 - what it is
    """A query exceeds its limit of matches or of withheld results; other queries can continue.

    ``query``: its name. The message names it and the remedies.
    """

    def __init__(self, message: str, query: str = "") -> None:
        super().__init__(message)
        self.query = query

    @classmethod
    def of(cls, query: str, does: str, most: int) -> OverBudget:
        """Return the error; ``does``: what the query does, ``most``: the limit of its matches."""
        return cls(
            f"query {query!r}: {does}. Ask for fewer: a shorter WITHIN, PARTITION BY or a "
            "condition that joins the steps, and for steps that repeat CONTIGUITY NEXT, SKIP or "
            f"LIMIT n; or let it have more memory: --matches-max {2 * most} (of a server: "
            "matches_max of [engine])",
            query,
        )


class SparkFailure(SlackwaterError):  # noqa: N818 - Spark's word for it
    """A run on Spark failed. ``cause``: the last cause in one line; ``log``: file with all
    output.
    """

    def __init__(self, cause: str, log: Path) -> None:
        super().__init__(f"the run on Spark failed: {cause}; all of it is in {log}")
        self.cause = cause
        self.log = log


class ContractViolation(SlackwaterError):  # noqa: N818 - the house word for it
    """A contract inside the program is broken: a bug, or a damaged log."""


# The extra of the installation that provides each package, for errors about missing ones.


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
"""Extra -> the packages that it adds to those of ``[engine]``, and their purpose."""


_OPTIONAL: Final = {"pandas", "polars"}
"""Packages that are named themselves: only callers that want such tables need them."""


def missing_package(error: ModuleNotFoundError) -> SlackwaterError:
    """Return the error to raise instead of ``error``; raise that if a module of ours is missing."""
    if error.name is None or error.name.partition(".")[0] == "slackwater":
        raise error
    return missing(error.name)


def missing(module: str) -> SlackwaterError:
    """Return the error for the missing ``module``, with the extra that has it."""
    package = module.partition(".")[0]
    if package in _OPTIONAL:
        return SlackwaterError(f"this needs {package}; type: pip install {package}")
    extra = next((name for name, (has, _) in EXTRAS.items() if package in has), "engine")
    return SlackwaterError(f"this needs {package}; type: pip install 'slackwater[{extra}]'")


def need(*names: str) -> None:
    """Check for packages before work that uses them only at its end.

    Args:
        names: packages, or extras, which stand for all of their packages.

    Raises:
        SlackwaterError: a package is missing; the message names its extra.
    """
    for name in names:
        for package in EXTRAS[name][0] if name in EXTRAS else (name,):
            if importlib.util.find_spec(package) is None:
                raise missing(package)
