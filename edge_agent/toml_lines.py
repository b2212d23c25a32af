"""Where in a TOML file a setting stands, so that a mistake is told with its line.

>>> text = '''seed = 1
... [[sources]]
... name = "a"
... [[sources]]
... clock = { offset = "1 s" }
... [sources.link.up]
... loss = 2
... '''
>>> lines = line_numbers(text)
>>> line_of(lines, "sources[1].clock.offset"), line_of(lines, "sources[1].link.up.loss")
(5, 7)
>>> line_of(lines, "sources[0].workload"), line_of(lines, "sources"), line_of(lines, "duration")
(2, 2, None)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

_WORD: Final = r'(?:[A-Za-z0-9_-]+|"[^"]*"|\'[^\']*\')'
_DOTTED: Final = rf"{_WORD}(?:\s*\.\s*{_WORD})*"
_HEADING: Final = re.compile(rf"\s*(\[\[?)\s*({_DOTTED})\s*\]\]?\s*(?:#.*)?$")
_SETTING: Final = re.compile(rf"\s*({_DOTTED})\s*=")
_LONG: Final = re.compile(r'"""|\'\'\'')


def line_numbers(text: str) -> dict[str, int]:
    """Place of each table and setting that begins a line -> its line, from 1 on."""
    found: dict[str, int] = {}
    counts: dict[str, int] = {}
    table, inside = "", False
    for number, line in enumerate(text.splitlines(), 1):
        marks = len(_LONG.findall(line))
        if inside:
            inside = marks % 2 == 0
            continue
        heading = _HEADING.match(line)
        setting = _SETTING.match(line)
        if heading:
            around = _places(_words(heading[2]), counts, new=heading[1] == "[[")
            table = around[-1]
            for place in around:
                found.setdefault(place, number)
        elif setting:
            place = table
            for word in _words(setting[1]):
                place = f"{place}.{word}" if place else word
                found.setdefault(place, number)
            inside = marks % 2 == 1
    return found


def line_of(lines: Mapping[str, int], place: str) -> int | None:
    """The line of ``place``, or of the nearest table around it; None: there is none."""
    while place:
        if place in lines:
            return lines[place]
        place = re.sub(r"(?:^|\.)[^.\[\]]*$|\[\d+\]$", "", place)
    return None


def _words(dotted: str) -> list[str]:
    return [word.strip("\"'") for word in re.findall(_WORD, dotted)]


def _places(words: list[str], counts: dict[str, int], *, new: bool) -> list[str]:
    """Names of the tables around a heading, itself the last; a list of them without a number and
    with that of its table.
    """
    places = []
    place = ""
    for depth, word in enumerate(words):
        place = f"{place}.{word}" if place else word
        places.append(place)
        if new and depth == len(words) - 1:
            counts[place] = counts.get(place, -1) + 1
        if place in counts:
            place = f"{place}[{counts[place]}]"
            places.append(place)
    return places
