"""slackwater in Python: read events, put them in order, ask, compare orders, run a scenario.

>>> import slackwater
>>> with slackwater.read({"type": ["A", "B"], "ts": [1, 3]}, time_unit="s") as events:
...     found = slackwater.query(events, "EVENT SEQ(A a, B b) WITHIN 5")
>>> [match["certainty"] for match in found]
['confirmed']

Importing it loads nothing else: a name loads its modules at its first use. If a package for it is
missing, the error names the extra of the installation that has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

__all__ = [
    "Comparison",
    "Input",
    "Results",
    "Run",
    "SlackwaterError",
    "SlackwaterWarning",
    "UserError",
    "clocks",
    "compare",
    "explain",
    "follow",
    "order",
    "query",
    "read",
    "run",
    "validate",
]

if TYPE_CHECKING:
    from slackwater.answers import explain, order, query
    from slackwater.clock_estimates import clocks
    from slackwater.comparison import Comparison, compare
    from slackwater.engine.core.errors import SlackwaterError, UserError
    from slackwater.following import follow
    from slackwater.inputs import Input, read
    from slackwater.results import Results
    from slackwater.runs import Run, run
    from slackwater.validation import validate
    from slackwater.warning import SlackwaterWarning
else:
    _HOMES: Final = {
        "slackwater.engine.core.errors": ("SlackwaterError", "UserError"),
        "slackwater.answers": ("explain", "order", "query"),
        "slackwater.clock_estimates": ("clocks",),
        "slackwater.comparison": ("Comparison", "compare"),
        "slackwater.following": ("follow",),
        "slackwater.warning": ("SlackwaterWarning",),
        "slackwater.inputs": ("Input", "read"),
        "slackwater.results": ("Results",),
        "slackwater.runs": ("Run", "run"),
        "slackwater.validation": ("validate",),
    }

    def __getattr__(name: str) -> Any:
        """The public ``name``, loaded at its first use."""
        from importlib import import_module  # noqa: PLC0415 - importing us is to cost nothing

        home = next((module for module, names in _HOMES.items() if name in names), None)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        try:
            found = globals()[name] = getattr(import_module(home), name)
        except ModuleNotFoundError as error:
            from slackwater.engine.core.errors import missing_package  # noqa: PLC0415

            raise missing_package(error) from None
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
