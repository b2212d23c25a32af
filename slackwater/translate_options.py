"""Engine messages with options as Python parameters: ``time_unit``, not ``--time-unit``.

The engine names options as on the command line; here each becomes the equivalent parameter.
"""

from __future__ import annotations

import functools
import inspect
import json
import re
import shlex
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

from slackwater.engine.core.errors import UserError

_P = ParamSpec("_P")
_R = TypeVar("_R")

_OTHERWISE: Final = {"map": "mapping", "table": "tables", "set": "settings", "spark": "master"}
"""Options whose parameters have other names."""
_VALUES: Final = {
    "map": r"(?:'[\w.$]+=(?:[^']|'\"'\"')+'|[\w.$]+=\w[\w.]*)",
    "table": r"\w+=\w[\w.]*",
    "sort": r"(?:arrival|ts)\b",
    "format": r"json\b",
    "time-unit": r"(?:ns|us|ms|s|min|h|d)\b",
    "purge": r"(?:late|slack|promises)\b(?:\[:D\]|:[^\s;,)]+)?",
    "order": r"[a-z-]+:[^\s;,:)]+",
    "clock": r"(?:exact\b|'[^'=]+=[^']+'|[^\s;,=]+=[^\s;,]+)",
    "spill": r"(?:state\b|/[^\s;)]*)",
}
"""Patterns of the text after an option that is its value."""
_OPTION: Final = re.compile(
    r"(?<![\w-])--(?:"
    + "|".join(rf"(?P<{name.replace('-', '_')}>{name}) {of}" for name, of in _VALUES.items())
    + r"|(?P<bare>[a-z][a-z-]*))"
)


def in_python(message: str) -> str:
    """``message`` with parameters instead of options.

    >>> in_python("give --time-unit ms, or --map ts=WHEN; --on-bad skip leaves it out")
    'give time_unit="ms", or mapping={"ts": "WHEN"}; on_bad skip leaves it out'
    """
    return _OPTION.sub(_parameter, message)


def _parameter(found: re.Match[str]) -> str:
    option, _, value = found[0].removeprefix("--").partition(" ")
    name = _OTHERWISE.get(option, option.replace("-", "_"))
    if not value:
        return name
    if value.startswith("'"):
        (value,) = shlex.split(value)
    if option not in ("map", "table"):
        return f'{name}="{value}"'
    of, is_what = value.split("=", 1)
    return f'{name}={{"{of}": {json.dumps(is_what, ensure_ascii=False)}}}'


def translate_options(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorator: errors name parameters, and an optional argument None counts as not given."""
    optional = [
        name for name, each in inspect.signature(function).parameters.items()
        if each.default is not each.empty
    ]  # fmt: skip

    @functools.wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        for name in optional:
            if kwargs.get(name, name) is None:
                del kwargs[name]
        try:
            return function(*args, **kwargs)
        except UserError as error:
            error.args = (in_python(str(error)), *error.args[1:])
            raise

    return call
