"""Settings files (TOML): every value is checked, every error names its place.

A reader asks a ``Table`` for the settings that it knows; any other setting in the file is an error.
The effective settings, from the file or by default, can be printed.
"""

from __future__ import annotations

import importlib
import re
import tomllib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from slackwater.edge_agent.errors import SettingsError, did_you_mean
from slackwater.edge_agent.units import NS_PER, UNITS_READ, exactly, no_such_unit

# Line numbers of settings in a TOML file, for error messages.


_WORD: Final = r'(?:[A-Za-z0-9_-]+|"[^"]*"|\'[^\']*\')'
_DOTTED: Final = rf"{_WORD}(?:\s*\.\s*{_WORD})*"
_HEADING: Final = re.compile(rf"\s*(\[\[?)\s*({_DOTTED})\s*\]\]?\s*(?:#.*)?$")
_SETTING: Final = re.compile(rf"\s*({_DOTTED})\s*=")
_LONG: Final = re.compile(r'"""|\'\'\'')


def line_numbers(text: str) -> dict[str, int]:
    """Map each table and setting that begins a line to its line number, from 1.

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
    """The line of ``place``, or of the nearest enclosing table; None: there is none."""
    while place:
        if place in lines:
            return lines[place]
        place = re.sub(r"(?:^|\.)[^.\[\]]*$|\[\d+\]$", "", place)
    return None


def _words(dotted: str) -> list[str]:
    return [word.strip("\"'") for word in re.findall(_WORD, dotted)]


def _places(words: list[str], counts: dict[str, int], *, new: bool) -> list[str]:
    """Names of the tables that enclose a heading, and its own last. Each list of tables appears
    without a number and with the number of its table.
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


# Settings files (TOML): every value is checked, every error names its place.


BYTES_PER: Final[dict[str, int]] = {
    "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30,
}  # fmt: skip
INT_MAX: Final = 2**62
HIDDEN: Final = "(not shown)"
_QUANTITY: Final = re.compile(r"\s*([0-9]{1,20})(?:\.([0-9]{1,9}))?\s*([A-Za-z]+)\s*")
_REQUIRED: Final = object()


def read_toml(path: Path) -> Table:
    """Read a TOML file as a table.

    Raises:
        SettingsError: no such file, or no valid TOML; names the place.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")  # Notepad writes a byte order mark
        return Table(tomllib.loads(text), str(path), lines=line_numbers(text))
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:  # also: no UTF-8, too many digits, too deep
        raise SettingsError(f"{path}: not TOML: {error}") from error


@contextmanager
def named_in_errors(path: Path) -> Iterator[None]:
    """Add the file's name to errors that concern several settings.

    Raises:
        SettingsError: as raised within.
    """
    try:
        yield
    except SettingsError as error:
        if str(error).startswith(f"{path}:"):
            raise
        raise SettingsError(f"{path}: {error}") from error


def quantity(text: str, units: Mapping[str, int], what: str) -> int:
    """Parse a number and a unit; return a whole number of the smallest unit.

    >>> quantity("1.5 s", NS_PER, "a duration"), quantity("8MiB", BYTES_PER, "a size")
    (1500000000, 8388608)

    Raises:
        SettingsError: no number and unit, or a fraction of the smallest unit.
    """
    found = _QUANTITY.fullmatch(text)
    name = "" if found is None else found[3]
    scale = UNITS_READ.get(name.lower()) if units is NS_PER else units.get(name)
    if found is not None and scale is None and units is NS_PER:
        raise SettingsError(f"{text!r} is not {what}: {'; '.join(no_such_unit(name))}")
    if found is None or scale is None:
        known = " ".join(units)
        raise SettingsError(f"{text!r} is not {what}: a number and one of {known}")
    value = exactly(found[1], found[2] or "", scale)
    if value is None or value > INT_MAX:
        raise SettingsError(f"{text!r} is not {what}: too fine or too large")
    return value


def shown_ns(ns: int) -> str:
    """Format a duration in the largest unit that gives a whole number.

    >>> shown_ns(1_500_000_000), shown_ns(60_000_000_000), shown_ns(0)
    ('1500 ms', '1 min', '0 s')
    """
    for unit in ("h", "min", "s", "ms", "us"):
        if ns % NS_PER[unit] == 0 and (ns or unit == "s"):
            return f"{ns // NS_PER[unit]} {unit}"
    return f"{ns} ns"


class Table:
    """One table of a file: read it key by key; ``done`` refuses the keys that are left.

    Each method takes a default; without one the key is required. All raise SettingsError.
    """

    def __init__(
        self, values: Mapping[str, Any], file: str, name: str = "", *, place: str | None = None,
        lines: Mapping[str, int] | None = None,
    ) -> None:  # fmt: skip
        """``file``: for messages; ``name``: dotted name of the table; empty: the whole file.

        ``place``: ``name`` with the number of a table in a list; ``lines``: from ``line_numbers``.
        """
        self._place = name if place is None else place
        self._one_of_many = self._place.endswith("]")
        self._lines = lines or {}
        self.file = file
        self.name = name
        self.effective: dict[str, Any] = {}
        """Effective values of the settings that were read; inner tables as ``Table``."""
        self.values: Mapping[str, Any] = values
        """The values in the file, for another process that reads them again."""
        self._left = dict(values)

    def __contains__(self, key: str) -> bool:
        return key in self._left

    def keys(self) -> list[str]:
        """The keys that were not read yet."""
        return list(self._left)

    def wrong(self, key: str, problem: str) -> SettingsError:
        """Make an error about ``key``; names its line or its table's."""
        line = line_of(self._lines, self._inner_place(key))
        place = f"{self.file}:{line}: " if line else f"{self.file}: "
        within = f"[{self.name}] " if self.name else ""
        return SettingsError(f"{place}{within}{key}: {problem}")

    def text(
        self, key: str, default: Any = _REQUIRED, *, among: Collection[str] = (),
        secret: bool = False,
    ) -> str:  # fmt: skip
        """A string; ``among``: allowed values; ``secret``: not printed."""
        value = self._take(key, default)
        if type(value) is not str:
            raise self.wrong(key, f"write a text in quotes, not {value!r:.100}")
        if among and value not in among:
            raise self.wrong(key, unknown(value, among))
        self._check_texts(key, [value])
        self.effective[key] = HIDDEN if secret and value else value
        return value

    def host(self, key: str, default: Any = _REQUIRED) -> str:
        """A host name or address."""
        value = self.text(key, default)
        try:
            check_host(value)
        except SettingsError as error:
            raise self.wrong(key, str(error)) from error
        return value

    def secret(self, key: str, folder: Path) -> str:
        """A string that is not printed, from ``key`` or from the file ``KEY_file`` in
        ``folder``.
        """
        secret = self.text(key, "", secret=True)
        name = self.text(f"{key}_file", "")
        if not name:
            return secret
        if secret:
            raise self.wrong(f"{key}_file", f"give a {key} or the file that has it, not both")
        try:
            return (folder / name).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise self.wrong(f"{key}_file", f"{folder / name}: {error}") from error

    def integer(self, key: str, default: Any = _REQUIRED, low: int = 0, high: int = INT_MAX) -> int:
        """A whole number from ``low`` to ``high``."""
        value = self._take(key, default)
        if type(value) is not int or not low <= value <= high:
            raise self.wrong(key, f"write a whole number from {low} to {high}, not {value!r:.100}")
        self.effective[key] = value
        return value

    def number(self, key: str, default: Any = _REQUIRED, low: float = 0.0) -> float:
        """A number, at least ``low``."""
        value = self._take(key, default)
        if type(value) not in (int, float) or not low <= value < INT_MAX:
            raise self.wrong(key, f"write a number of at least {low}, not {value!r:.100}")
        self.effective[key] = value
        return float(value)

    def flag(self, key: str, default: Any = _REQUIRED) -> bool:
        """``true`` or ``false``."""
        value = self._take(key, default)
        if type(value) is not bool:
            raise self.wrong(key, f"write true or false, not {value!r:.100}")
        self.effective[key] = value
        return value

    def duration_ns(self, key: str, default: Any = _REQUIRED, low: int = 0) -> int:
        """A duration with its unit, for example "200 ms", at least ``low`` ns; ``default`` in
        ns.
        """
        value = self._take(key, default)
        if key in self.effective:  # it was given
            del self.effective[key]
            value = self._quantity(key, value, NS_PER, 'a duration as "200 ms"')
        if value < low:
            raise self.wrong(key, f"must be at least {shown_ns(low)}")
        self.effective[key] = shown_ns(value)
        return int(value)

    def size(self, key: str, default: Any = _REQUIRED, low: int = 0) -> int:
        """A number of bytes with its unit, for example "64 MiB"; ``default`` in bytes."""
        value = self._take(key, default)
        if key in self.effective:
            del self.effective[key]
            value = self._quantity(key, value, BYTES_PER, 'a size as "64 MiB"')
        if value < low:
            raise self.wrong(key, f"must be at least {low} B")
        self.effective[key] = f"{value} B"
        return int(value)

    def texts(self, key: str, default: Any = _REQUIRED) -> list[str]:
        """A list of strings."""
        value = self._take(key, default)
        if not isinstance(value, list | tuple) or not all(type(each) is str for each in value):
            raise self.wrong(key, f"write a list of texts in quotes, not {value!r:.100}")
        self._check_texts(key, value)
        self.effective[key] = list(value)
        return list(value)

    def sequence(self, key: str, default: Any = _REQUIRED) -> list[Any]:
        """A list of any values."""
        value = self._take(key, default)
        if not isinstance(value, list):
            raise self.wrong(key, f"write a list, not {value!r:.100}")
        self.effective[key] = value
        return value

    def table(self, key: str) -> Table:
        """An inner table; empty if it is missing."""
        value = self._left.pop(key, {})
        if not isinstance(value, dict):
            raise self.wrong(key, f"write a table, [{self._inner(key)}], not {value!r:.100}")
        found = self.effective[key] = Table(
            value, self.file, self._inner(key), place=self._inner_place(key), lines=self._lines
        )
        return found

    def tables(self, key: str) -> list[Table]:
        """A list of inner tables, ``[[key]]``; empty if it is missing."""
        value = self._left.pop(key, [])
        if not isinstance(value, list) or not all(isinstance(each, dict) for each in value):
            raise self.wrong(key, f"write tables, [[{self._inner(key)}]], not {value!r:.100}")
        name = self._inner(key)
        found = [
            Table(
                each, self.file, name, place=f"{self._inner_place(key)}[{number}]",
                lines=self._lines,
            )
            for number, each in enumerate(value)
        ]  # fmt: skip
        self.effective[key] = found
        return found

    def done(self) -> None:
        """Refuse keys that were not read, here and in inner tables."""
        for key in self._left:
            raise self.wrong(key, f"no such setting{did_you_mean(key, self.effective)}")
        for inner in self._inner_tables():
            inner.done()

    def printed(self) -> str:
        """The effective settings as TOML."""
        heading = f"[[{self.name}]]" if self._one_of_many else f"[{self.name}]"
        lines = [heading] if self.name else []
        lines += [
            f"{_key(key)} = {_toml(value)}"
            for key, value in self.effective.items()
            if not isinstance(value, Table) and not _are_tables(value)
        ]
        inner = "".join(f"\n{each.printed()}" for each in self._inner_tables() if each.effective)
        return ("\n".join(lines) + "\n" if lines else "") + inner

    def _inner_tables(self) -> list[Table]:
        found: list[Table] = []
        for value in self.effective.values():
            found += [value] if isinstance(value, Table) else value if _are_tables(value) else []
        return found

    def _inner(self, key: str) -> str:
        return f"{self.name}.{key}" if self.name else key

    def _inner_place(self, key: str) -> str:
        return f"{self._place}.{key}" if self._place else key

    def _take(self, key: str, default: Any) -> Any:
        if key in self._left:
            value = self.effective[key] = self._left.pop(key)
            return value
        if default is _REQUIRED:
            raise self.wrong(key, "must be given")
        return default

    def _check_texts(self, key: str, values: Collection[str]) -> None:
        if any("\0" in value for value in values):
            raise self.wrong(key, "has a character NUL, which no file, address or program takes")

    def _quantity(self, key: str, value: Any, units: Mapping[str, int], what: str) -> int:
        if type(value) is not str:
            raise self.wrong(key, f"write {what} in quotes, not {value!r:.100}")
        try:
            return quantity(value, units, what)
        except SettingsError as error:
            raise self.wrong(key, str(error)) from error


def check_host(text: str) -> None:
    """Raises SettingsError if ``text`` cannot be looked up (sockets encode names by IDNA)."""
    try:
        text.encode("idna")
    except UnicodeError as error:
        said = "is no name of a host: it has 1 to 63 letters, digits or - between two dots"
        raise SettingsError(f"{text!r:.100} {said}") from error


def unknown(word: str, known: Collection[str]) -> str:
    """Message about a word that is not in ``known``."""
    return f'"{word}" is not known{did_you_mean(word, known)}'


def _are_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], Table)


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _toml(key)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, str):
        quoted = value.replace("\\", "\\\\").replace('"', '\\"')
        signs = [sign if sign.isprintable() else rf"\u{ord(sign):04x}" for sign in quoted]
        return f'"{"".join(signs)}"'
    return str(value)


# Kinds that settings name, found as entry points of a group: built-in ones and those of packages.
#
# An installed package adds a kind in its pyproject.toml. Built-in kinds have the same form, so that
# they are found without package metadata (a checkout, a zip file), and so that a program that needs
# no others starts without searching all packages. A kind is loaded when settings name it; an error
# about a missing package names the extra that brings it.


class Kind(NamedTuple):
    """Entry point of the function that makes a kind."""

    maker: str
    """``module:function``"""
    extras: tuple[str, ...] = ()
    package: str = "slackwater"


class NamedMaker(NamedTuple):
    """A table, its unique ``name``, and the maker of its kind."""

    name: str
    table: Table
    maker: Any


def read_kinds(
    tables: Sequence[Table], ours: Mapping[str, Kind], group: str, what: str
) -> list[NamedMaker]:
    """Read ``kind`` and ``name`` of tables (default name: the kind, numbered from the second on).

    Args:
        tables: one table per object.
        ours: built-in kinds by name; they take precedence over packages.
        group: entry-point group of kinds from packages.
        what: plural noun of the objects, for messages.

    Raises:
        SettingsError: an unknown or unusable kind, a duplicate name, or a package that is not
            installed.
    """
    found: dict[str, NamedMaker] = {}
    count: Counter[str] = Counter()
    for table in tables:
        kind = table.text("kind")
        maker = _maker(ours.get(kind) or _of_package(kind, table, ours, group), table)
        count[kind] += 1
        name = table.text("name", kind if count[kind] == 1 else f"{kind}-{count[kind]}")
        if name in found:
            raise table.wrong("name", f'two {what} are called "{name}"')
        found[name] = NamedMaker(name, table, maker)
    return list(found.values())


def _of_package(name: str, table: Table, ours: Mapping[str, Kind], group: str) -> Kind:
    from importlib.metadata import entry_points  # noqa: PLC0415 - a third of an agent's start

    others = {
        each.name: Kind(
            f"{each.module}:{each.attr}", tuple(each.extras),
            each.name if each.dist is None else each.dist.name,
        )
        for each in entry_points(group=group)
    }  # fmt: skip
    if name not in others:
        raise table.wrong("kind", unknown(name, {**others, **ours}))
    return others[name]


def _maker(kind: Kind, table: Table) -> Any:
    module, _, name = kind.maker.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        lacking = (error.name or str(error)).partition(".")[0]
        extras = f"[{','.join(kind.extras)}]" if kind.extras else ""
        remedy = f"pip install '{kind.package}{extras}'"
        raise table.wrong("kind", f"it needs {lacking}: {remedy}") from error
    except (ImportError, AttributeError) as error:
        raise table.wrong("kind", f"{kind.maker} cannot be used: {error}") from error
