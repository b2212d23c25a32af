"""Which state a reading shows: the band of a number, or the state that it names."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Any, Final

from edge_agent.abstraction.settings import BANDS, PRESENCE, AbstractSettings
from edge_agent.messages import NAME_MAX

Label = Callable[[Any, str | None], str | None]
"""From a reading's value and the type of the open interval (None: there is none) to the type that
the reading shows; None: it has no value."""
_TRUTH: Final = {True: "true", False: "false"}


def label_of(settings: AbstractSettings) -> Label:
    """How readings are told apart.

    >>> settings = AbstractSettings(stream="r", into="i", kind="bands", value="v",
    ...                             bands=("LOW", 50, "HIGH"), hysteresis=5)
    >>> label = label_of(settings)
    >>> label(50, None), label(51, None), label(51, "LOW"), label(56, "LOW"), label(46, "HIGH")
    ('LOW', 'HIGH', 'LOW', 'HIGH', 'HIGH')
    """
    if settings.kind == BANDS:
        return _band(settings)
    if settings.kind == PRESENCE:
        return lambda _, __: settings.type
    return _state(settings.type)


def _band(settings: AbstractSettings) -> Label:
    names, edges, width = settings.names, settings.edges, settings.hysteresis
    floors = (float("-inf"), *(edge - width for edge in edges))
    tops = (*(edge + width for edge in edges), float("inf"))
    within = {name: (floors[place], tops[place]) for place, name in enumerate(names)}

    def band(value: Any, current: str | None) -> str | None:
        try:
            if current is not None:
                floor, top = within[current]
                if floor < value <= top:
                    return current
            # NaN is below and above nothing.
            return names[bisect_left(edges, value)] if value == value else None  # noqa: PLR0124
        except TypeError:
            return None  # nothing, or a text

    return band


def _state(prefix: str) -> Label:
    room = NAME_MAX - len(prefix)

    def state(value: Any, _: str | None) -> str | None:
        if value is None or value != value:  # noqa: PLR0124 - NaN
            return None
        text = _TRUTH[value] if value is True or value is False else str(value)
        return prefix + text if 0 < len(text) <= room else None

    return state
