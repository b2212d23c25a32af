"""Which extra of the installation brings which package; one line of error for a missing one."""

from __future__ import annotations

import importlib.util
from typing import Final

from slackwater.engine.core.errors import SlackwaterError

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
