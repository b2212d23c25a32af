"""Commands whose texts and paths are taken as they are typed.

Typer has pydantic convert every value, also a text, and one that was not given. Importing pydantic
and making its validators took a sixth of a short query's time. Numbers still go that way, as does
whatever is missing or cannot be read: Typer has the words for it.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from typing import Any, Final

from typer.core import TyperCommand, TyperGroup

_TAKEN: Final[dict[Any, Any]] = {str: str, Path: Path, list[str]: str, list[Path]: Path}
_CONVERTED: Final = object()
"""Stands for a value that Typer is to convert."""


class PlainCommand(TyperCommand):
    """A command that asks Typer to convert only what has to be converted."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _plain(super().get_params(ctx))


class PlainGroup(TyperGroup):
    """The same for what stands before the command."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _plain(super().get_params(ctx))


def _plain(parameters: list[Any]) -> list[Any]:
    for each in parameters:
        each.process_value = partial(_value, each)
    return parameters


def _value(parameter: Any, context: Any, typed: Any) -> Any:
    """What the command's function gets."""
    found = _taken(parameter, typed)
    if found is _CONVERTED:
        return type(parameter).process_value(parameter, context, typed)
    callback = parameter.callback
    return found if callback is None else callback(context, parameter, found)


def _taken(parameter: Any, typed: Any) -> Any:
    many = parameter.multiple or parameter.nargs != 1
    if typed is None or (many and not typed):
        if parameter.required or parameter.nargs > 1:  # of a pair, none is no empty list
            return _CONVERTED
        return () if many else None
    described = getattr(parameter, "type_descriptor", None)  # an older Typer has no need of this
    of = _TAKEN.get(getattr(described, "annotation", None))
    texts = list(typed) if many else [typed]
    if of is None or not all(isinstance(text, str) for text in texts):
        return _CONVERTED
    found = [of(text) for text in texts]
    if of is Path and any(path.exists() and not os.access(path, os.R_OK) for path in found):
        return _CONVERTED
    return found if many else found[0]
