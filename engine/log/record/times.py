"""Convert times in user input to int64 ns: numbers of a unit, ISO 8601, timestamp columns.

Whole numbers and fractions count units since 1970; fractions are rounded to the nearest ns, and
text is converted digit by digit. Texts and timestamps are instants and need no unit; without a zone
they are in ``zone``. A wrong unit gives wrong results without any sign, so if the user names no
unit, the reader refuses numbers that are dates only in a unit other than the default.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from slackwater.edge_agent import records as r
from slackwater.edge_agent.units import NS_PER
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.units import DATES_NS, INT64_MAX, check_zone, unit_ns
from slackwater.engine.log.record.record_rules import beyond_said
from slackwater.engine.log.record.trace_record import BEYOND, INT64_MIN

# Instants as text, mostly ISO 8601, converted by column to ns since 1970 UTC.


_NAIVE: Final = pa.timestamp("ns")
_UTC: Final = pa.timestamp("ns", "UTC")
_GERMAN: Final = r"^([0-3][0-9])\.([01][0-9])\.([0-9]{4})(?:[ T]+|$)"
"""Day, month and year with dots, as in German logs; with slashes the order is ambiguous."""
_ISO: Final = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"([T ][0-9]{2}:[0-9]{2}(:[0-5][0-9](\.[0-9]{1,9})?)?(Z|[+-][0-9]{2}(:?[0-9]{2})?)?)?$"
)
_ZONED: Final = r"(Z|:[0-9]{2}(\.[0-9]+)?[+-][0-9]{2}(:?[0-9]{2})?)$"
_BASIC: Final = r"^([0-9]{4})([0-9]{2})([0-9]{2})T?([0-9]{2})([0-9]{2})([0-9]{2})"
_NAMED_DAY: Final = (
    r"^[A-Z][a-z]{2} [A-Z][a-z]{2} +[0-9]{1,2} ([0-9:.]+) +([0-9]{4}-[0-9]{2}-[0-9]{2})$"
)
_AMERICAN: Final = (
    (r"^([0-9]{1,2})/([0-9]{1,2})/([0-9]{4}),? +([0-9].*[AaPp]\.?[Mm]\.?)$", r"\3-\1-\2 \4"),
)
"""Month, day and year with AM or PM, as in American notation."""
_HALVES: Final = (
    r"^(?P<day>[0-9-]{10})[ T]+(?P<hour>[0-9]{1,2})"
    r"(?P<rest>:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]+)?)?) ?(?P<half>[AaPp])\.?[Mm]\.?$"
)
_NAMES: Final = (
    "jan(?:uary)?", "feb(?:ruary)?", "mar(?:ch)?", "apr(?:il)?", "may", "june?", "july?",
    "aug(?:ust)?", "sept?(?:ember)?", "oct(?:ober)?", "nov(?:ember)?", "dec(?:ember)?",
)  # fmt: skip
_MONTH: Final = rf"(?i)(^|[ /-])(?:{'|'.join(_NAMES)})\.?([ /-])"
_WITH_MONTH: Final = (
    (_NAMED_DAY, r"\2 \1"),
    *(
        (_MONTH.replace("|".join(_NAMES), name), rf"\1@{number:02}\2")
        for number, name in enumerate(_NAMES, 1)
    ),
    (r"^(?:[A-Za-z]+,? +)?([0-9]{1,2})[ /-]@([0-9]{2})[ /-]([0-9]{4})(?:[ ,:T]+|$)", r"\3-\2-\1 "),
    (r"^(?:[A-Za-z]+,? +)?@([0-9]{2}) +([0-9]{1,2}),? +([0-9]{4})(?:[ ,T]+|$)", r"\3-\1-\2 "),
    (r"^[A-Za-z]+ +@([0-9]{2}) +([0-9]{1,2}) +([0-9:.]+) +([0-9]{4})$", r"\4-\1-\2 \3"),
)
"""Names of months in English: 01-Mar-2026, Sun, 01 Mar 2026, March 1, 2026, Sun Mar  1 ... 2026."""
_DIGITS: Final = (
    r"^(19|20)[0-9]{2}(0[1-9]|1[0-2])([0-2][0-9]|3[01])([01][0-9]|2[0-3])([0-5][0-9]){2}$"
)
"""20260301083000; as a number it would be hours since 1970."""
_LEAP: Final = r"(:[0-5][0-9]):60"
_ROUNDED_UP: Final = r"\.[0-9]{9}[5-9]"
_TIME_OF_DAY: Final = r"^([0-9]{1,2}:[0-9]{2}(:[0-9]{2}([.,][0-9]+)?)?)$"
_DAY_ALONE: Final = r"^([0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{2}\.[0-9]{2}\.[0-9]{4})$"
_REWRITTEN: Final = (
    (r"^ +| +$", ""),
    (_GERMAN, r"\3-\2-\1 "),
    (r"^([0-9]{4})[/.]([0-9]{1,2})[/.]([0-9]{1,2})([ T]|$)", r"\1-\2-\3\4"),
    (r"^([0-9]{4}-)([0-9]-)", r"\10\2"),
    (r"^([0-9]{4}-[0-9]{2}-)([0-9])([ T]|$)", r"\10\2\3"),
    (_BASIC, r"\1-\2-\3T\4:\5:\6"),
    (r"^([0-9-]+[T ])([0-9]:)", r"\10\2"),
    (_LEAP, r"\1:59"),
    (r"^([0-9-]+) $", r"\1"),
    (r"(:[0-9]{2}),([0-9]+)", r"\1.\2"),
    (r"(\.[0-9]{9})[0-9]+", r"\1"),
    (r"(:[0-9]{2}(?:\.[0-9]+)?) ?(?:z|UTC|GMT)$", r"\1Z"),
    (r"(:[0-9]{2}(?:\.[0-9]+)?) ([+-][0-9]{2})", r"\1\2"),
)
_PADDED: Final = (
    (r"^([0-9][/-])", r"0\1"),
    (r"^([0-9]{2}[/-])([0-9][/-])", r"\10\2"),
    (r"^([0-9]{2}[/-][0-9]{2}[/-])([0-9]{2})( |T|,|$)", r"\120\2\3"),
)
_SLASHED: Final = {
    order: (*_PADDED, (r"^([0-9]{2})[/-]([0-9]{2})[/-]([0-9]{4})(?:,? +|T|$)", written))
    for order, written in (("month-first", r"\3-\1-\2 "), ("day-first", r"\3-\2-\1 "))
}
"""Rewrites of dates with slashes, by the value of ``--date``."""
Faults = dict[int, str]


def instants_of(
    texts: pa.Array, zone: str | None, date: str | None = None
) -> tuple[pa.Array, Faults]:
    """Convert texts to instants [ns since 1970 UTC]; null stays null.

    Args:
        texts: ISO 8601 with a blank or T, up to ns, with or without zone or time of day; or
            ``31.12.2026 23:59:59``, ``12/31/2026 11:59:59 PM``. A second 60 becomes the first
            second of the next minute.
        zone: time zone of texts without one; None: UTC.
        date: date for texts that are a time of day; or the order in dates with slashes,
            ``month-first`` or ``day-first``; None: such texts are not instants.

    Returns:
        the ns, and a reason for each row that cannot be converted; ``""``: not an instant.
    """
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), pa.int64()), {}
    plain, more = _as_iso(texts, date)
    right = pc.fill_null(pc.match_substring_regex(plain, _ISO), fill_value=True)
    faults = dict.fromkeys(
        map(int, np.flatnonzero(~np.asarray(right.to_numpy(zero_copy_only=False)))), ""
    )
    nothing = pa.scalar(None, pa.string())
    plain = pc.if_else(right, plain, nothing)
    zoned = pc.fill_null(pc.match_substring_regex(plain, _ZONED), fill_value=False)
    absolute, wrong = _cast(pc.if_else(zoned, plain, nothing), _UTC)
    local, also = _cast(pc.if_else(zoned, nothing, plain), _NAIVE)
    ns, doubted = utc_ns(local, zone)
    found = pc.coalesce(absolute.cast(pa.int64()), ns)
    found = found if more is None else pc.add(found, more)
    return found, faults | wrong | also | doubted


def _as_iso(texts: pa.Array, date: str | None) -> tuple[pa.Array, pa.Array | None]:
    """Rewrite texts as ISO 8601; return the ns to add to each, for seconds of 60 and rounding."""
    if pc.all(pc.match_substring_regex(texts, _ISO)).as_py() is not False:
        return texts, None
    plain = texts
    if date is not None and date not in _SLASHED:
        plain = pc.replace_substring_regex(plain, _TIME_OF_DAY, rf"{date} \1")
    added = [
        pc.multiply(pc.match_substring_regex(plain, pattern).cast(pa.int64()), ns)
        for pattern, ns in ((_LEAP, _NS_PER_S), (_ROUNDED_UP, 1))
    ]
    months = _WITH_MONTH if pc.any(pc.match_substring_regex(plain, _MONTH)).as_py() else ()
    for pattern, written in (*_SLASHED.get(date or "", _AMERICAN), *months, *_REWRITTEN):
        plain = pc.replace_substring_regex(plain, pattern, written)
    return _of_24_hours(plain), pc.add(*added)


def is_time_of_day(texts: pa.Array) -> bool:
    """Whether all texts are a time of day without a date."""
    return pc.all(pc.match_substring_regex(texts, _TIME_OF_DAY)).as_py() is True


def is_day(texts: pa.Array) -> bool:
    """Whether all texts are a date without a time of day."""
    return pc.all(pc.match_substring_regex(texts, _DAY_ALONE)).as_py() is True


def _numbers_alone(texts: pa.Array) -> tuple[pa.Array, Faults]:
    """Replace texts that are not numbers by null, with a fault for each."""
    fine = _matches(texts, _NUMBER)
    return _only(texts, fine), dict.fromkeys(np.flatnonzero(~fine).tolist(), "is not a number")


def _of_24_hours(texts: pa.Array) -> pa.Array:
    """Convert times with AM and PM to 24 hours; leave others unchanged."""
    parts = pc.extract_regex(texts, _HALVES)
    if parts.null_count == len(parts):
        return texts
    hour = pc.if_else(parts.is_valid(), parts.field("hour"), None).cast(pa.int64())
    right = pc.and_(pc.greater(hour, 0), pc.less_equal(hour, 12)).fill_null(fill_value=False)
    later = pc.if_else(pc.equal(pc.utf8_lower(parts.field("half")), "p"), 12, 0)
    hour = pc.add(pc.if_else(pc.equal(hour, 12), 0, hour), later)
    hours = pc.utf8_lpad(hour.cast(pa.string()), 2, "0")
    time = pc.binary_join_element_wise(hours, parts.field("rest"), "")
    return pc.if_else(right, pc.binary_join_element_wise(parts.field("day"), time, " "), texts)


def _cast(texts: pa.Array, kind: pa.DataType) -> tuple[pa.Array, Faults]:
    """Cast to ``kind``; a text with the form of an instant but an invalid value is a fault."""
    try:
        return texts.cast(kind), {}
    except pa.ArrowInvalid:
        pass
    values, faults = [], {}
    for row, text in enumerate(texts.to_pylist()):  # only where some text of the chunk is wrong
        value = None
        if text is not None:
            try:
                value = pa.array([text], pa.string()).cast(kind).cast(pa.int64())[0].as_py()
            except pa.ArrowInvalid:
                faults[row] = ""
        values.append(value)
    return pa.array(values, pa.int64()).cast(kind), faults


def utc_ns(local: pa.Array, zone: str | None) -> tuple[pa.Array, Faults]:
    """Convert local timestamps [ns] in ``zone`` to ns since 1970 UTC; a local time that occurs
    twice or never, at a clock change, is a fault.
    """
    if zone is None or local.null_count == len(local):
        return local.cast(pa.int64()), {}
    first, last = (
        pc.assume_timezone(local, zone, ambiguous=which, nonexistent=which).cast(pa.int64())
        for which in ("earliest", "latest")
    )
    doubtful = pc.fill_null(pc.not_equal(first, last), fill_value=False)
    rows = np.flatnonzero(np.asarray(doubtful.to_numpy(zero_copy_only=False)))
    why = (
        f"is there twice or never in {zone}, as clocks are turned then; write its offset, as in "
        "2026-10-25T02:30:00+01:00"
    )
    return pc.if_else(doubtful, pa.scalar(None, pa.int64()), first), dict.fromkeys(
        map(int, rows), why
    )


# Times of one input.


DEFAULT_UNIT: Final = "ns"
_FLOAT_EXACT: Final = 2**53
_NS_PER_S: Final = 10**9
_NUMBER: Final = r"^[+-]?([0-9]+([.,][0-9]*)?|[.,][0-9]+)([eE][+-]?[0-9]+)?$"
_EXACT: Final = pa.decimal256(46, 18)
"""18 digits after the decimal point, twice the digits of 1 ns in s."""
_DIGITS_MAX: Final = 100
_TOO_FINE: Final = r"(\.[0-9]{18})[0-9]+$"
_PLACES: Final = range(-18, 28)
"""Places of the first digit that ``_EXACT`` can hold."""
_NS: Final = pa.decimal256(19, 0)
_DATES_S: Final = tuple(ns // _NS_PER_S for ns in DATES_NS)
"""1990 and 2100 in seconds since 1970; recorded times are expected between them."""
_MOSTLY: Final = 0.9
"""Share of numbers that must be dates. For times that count evenly from 0 it is at most 85 %."""
_CLOSE: Final = 0.05
"""Largest spread of the dates in one recording, relative to the smallest."""
_DATE_UNITS: Final = ("ns", "us", "ms", "s")
_LINES_SHOWN: Final = 3
INSTANTS: Final = (r.TS, r.TE, r.ARRIVAL)
"""Time fields that are instants; the others are durations."""
NOT_TIME: Final = "is not an integer, nor a time such as 2026-03-01T12:00:00Z"
_EITHER_WAY: Final = re.compile(r"([0-9]{1,2})[/-]([0-9]{1,2})[/-]([0-9]{4}|[0-9]{2})\b.*")
FRACTION_OF_NS: Final = (
    "write whole numbers in a finer --time-unit, or give the --time-unit that it is in"
)


class Times:
    """Converts the times of one input.

    Args:
        name: name of the input, for messages.
        unit: unit of numbers; None: ns, unless the first numbers look like dates in another unit.
        zone: zone of texts and timestamps without one, such as ``Europe/Berlin``; None: UTC.
        date: date for texts that are a time of day, such as ``2026-03-01``; or ``month-first`` or
            ``day-first``, the order in dates with slashes.

    Raises:
        UserError: the unit, zone or date is not valid.
    """

    def __init__(
        self, name: str, unit: str | None, zone: str | None, date: str | None = None
    ) -> None:
        self.name = name
        self.unit_ns = unit_ns(unit) if unit else NS_PER[DEFAULT_UNIT]
        self.zone = zone
        self.date = date
        if date is not None and date not in _SLASHED and not _is_day(date):
            raise UserError(
                f"--date {date}: write year, month and day, as in --date 2026-03-01; or of dates "
                f"with slashes {' or '.join(_SLASHED)}"
            )
        self.dated = False
        """Whether any time so far was a text or timestamp, not a number."""
        self._unit_given = unit is not None
        self._in_digits = set[str]()
        self.units: dict[str, str | None] = {}
        """By field, the unit in which most numbers so far are dates; None: no unit."""
        if zone is not None:
            check_zone(zone, "--timezone")

    def numbers(self, field: str, column: pa.Array, lines: np.ndarray) -> tuple[pa.Array, Faults]:
        """Convert integers or floats of the unit to ns; NaN becomes null.

        Raises:
            UserError: no unit was given and the numbers look like dates in another unit.
        """
        if pa.types.is_null(column.type):
            return pa.nulls(len(column), pa.int64()), {}
        if pa.types.is_floating(column.type):
            values = pc.fill_null(column.cast(pa.float64()), np.nan).to_numpy(zero_copy_only=False)
            odd = self._check_unit(field, values, ~np.isnan(values), lines)
            ns, faults = _of_floats(field, values, self.unit_ns)
            return ns, faults | odd
        long = (pc.max(column).as_py() or 0) // 10**13 in range(1, 10)
        if field in self._in_digits or (long and self._are_digits(field, column)):
            return self._dates(column.cast(pa.string()))
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        values = pc.fill_null(column, 0).to_numpy(zero_copy_only=False)
        odd = self._check_unit(field, values, valid, lines)
        ns, faults = _scaled(field, values, valid, self.unit_ns)
        return ns, faults | odd

    def _are_digits(self, field: str, column: pa.Array) -> bool:
        """Whether the first numbers of ``field`` are all dates of 14 digits."""
        others = self._unit_given or field not in INSTANTS or field in self.units
        if not others and _matches(column.cast(pa.string()), _DIGITS).all():
            self._in_digits.add(field)
        return field in self._in_digits

    def _dates(self, texts: pa.Array) -> tuple[pa.Array, Faults]:
        found, wrong = instants_of(texts, self.zone, self.date)
        self.dated = self.dated or found.null_count < len(found)
        said = {row: texts[row].as_py() for row, why in wrong.items() if not why}
        orders = set(_SLASHED).intersection(*map(_orders_of, said.values()))
        return found, {row: why or _no_time(said[row], orders) for row, why in wrong.items()}

    def instants(self, field: str, column: pa.Array) -> tuple[pa.Array, Faults]:
        """Convert a column of Arrow timestamps or dates to ns since 1970 UTC."""
        kind = column.type
        if pa.types.is_date(kind):
            kind = pa.timestamp("s" if pa.types.is_date32(kind) else "ms")
            column = column.cast(kind)
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        self.dated = self.dated or bool(valid.any())
        values = pc.fill_null(column.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
        ns, faults = _scaled(field, values, valid, NS_PER[kind.unit])
        if kind.tz is None and self.zone is not None:
            ns, doubted = utc_ns(ns.cast(pa.timestamp("ns")), self.zone)
            faults |= doubted
        return ns, faults

    def texts(self, field: str, column: pa.Array, lines: np.ndarray) -> tuple[pa.Array, Faults]:
        """Convert texts, numbers of the unit or ISO 8601, to ns since 1970 UTC."""
        is_number = _matches(column, _NUMBER)
        if is_number.all():
            try:
                return self.numbers(field, column.cast(pa.int64()), lines)
            except pa.ArrowInvalid:
                pass  # some are fractions, or too large
        ns, faults = self._number_texts(field, _only(column, is_number), lines)
        found, wrong = self._dates(_only(column, ~is_number))
        return pc.coalesce(ns, found), faults | wrong

    def values(
        self, field: str, values: Sequence[Any], lines: np.ndarray
    ) -> tuple[pa.Array, Faults]:
        """Convert JSON numbers and, for instants, ISO 8601 texts; other values are faults."""
        kinds = set(map(type, values))
        try:
            if kinds <= {int, type(None)}:
                return self.numbers(field, pa.array(values, pa.int64()), lines)
        except OverflowError:
            pass
        found: list[pa.Array] = []
        faults: Faults = {}
        for kind, of in ((int, pa.int64()), (float, pa.float64()), (str, pa.string())):
            if kind not in kinds:
                continue
            mine: list[Any] = [value if type(value) is kind else None for value in values]
            if kind is int:
                for row, value in enumerate(mine):
                    if value is not None and not INT64_MIN <= value <= INT64_MAX:
                        faults[row], mine[row] = BEYOND, None
            if kind is str:
                texts = pa.array(mine, of)
                wrong: Faults = {}
                if field not in INSTANTS:
                    texts, wrong = _numbers_alone(texts)
                column, more = self.texts(field, texts, lines)
                wrong |= more
            else:
                column, wrong = self.numbers(field, pa.array(mine, of), lines)
            found.append(column)
            faults |= wrong
        others = kinds - {int, float, str, type(None)}
        for row, value in enumerate(values) if others else ():
            if type(value) in others:
                faults[row] = NOT_TIME
        found.append(pa.nulls(len(values), pa.int64()))
        return pc.coalesce(*found), faults

    def _number_texts(
        self, field: str, column: pa.Array, lines: np.ndarray
    ) -> tuple[pa.Array, Faults]:
        """Convert numbers digit by digit: a float of seconds since 1970 has a resolution of 200
        ns.
        """
        if column.null_count == len(column):
            return pa.nulls(len(column), pa.int64()), {}
        exact, faults = _decimals(column)
        valid = exact.is_valid().to_numpy(zero_copy_only=False)
        about = exact.cast(pa.float64()).to_numpy(zero_copy_only=False)
        faults |= self._check_unit(field, about, valid, lines)
        scaled = pc.multiply(exact, pa.scalar(self.unit_ns, _NS))
        ns = pc.round(scaled, 0, "half_towards_infinity")
        if self.unit_ns == 1:
            odd = _rows(pc.not_equal(ns, scaled))
            faults |= dict.fromkeys(odd, f"is not an integer; {FRACTION_OF_NS}")
        for values, said in ((exact, BEYOND), (ns, beyond_said(field))):
            large = pc.greater(pc.abs(values), pa.scalar(INT64_MAX, values.type))
            faults = dict.fromkeys(_rows(large), said) | faults
            ns = pc.if_else(large, pa.scalar(None, ns.type), ns)
        return ns.cast(pa.int64()), faults

    def _check_unit(
        self, field: str, values: np.ndarray, valid: np.ndarray, lines: np.ndarray
    ) -> Faults:
        """Return faults for dates in another unit than most dates here and before.

        Raises:
            UserError: no unit was given and the first values of ``field`` are dates in another one,
                or the unit differs from that of earlier values.
        """
        rows = np.flatnonzero(valid)
        if field not in (r.TS, r.ARRIVAL) or not len(rows):
            return {}
        numbers = values[rows].astype(np.float64)
        unit_name = next(name for name, ns in NS_PER.items() if ns == self.unit_ns)
        units = {unit: _are_dates(numbers, unit) for unit in _DATE_UNITS}
        if unit_name not in units:
            return {}
        most = next((unit for unit in units if 2 * units[unit].sum() >= len(rows)), None)
        before = self.units.get(field)
        if most != unit_name and not self._unit_given and field not in self.units:
            self._refuse_unit(field, values[rows], units, lines[rows])
        self.units[field] = before or most
        if most == unit_name and before not in (None, unit_name):
            raise UserError(
                f'{self.name}:{lines[rows[0]]}: "{field}" {values[rows[0]]} is '
                f"{_date(values[rows[0]], unit_name)} in {unit_name}, but those before it are "
                f"dates in {before}; write all times in one unit"
            )
        if unit_name not in (before, most):
            return {}
        return {
            int(rows[place]): f"would be {_date(values[rows[place]], unit_name)} in {unit_name}, "
            f"in which most are dates, and is {_date(values[rows[place]], unit)} in {unit}; write "
            "all times in one unit, or leave it out with --on-bad skip"
            for unit, dates in units.items() if unit != unit_name
            for place in np.flatnonzero(dates)
        }  # fmt: skip

    def _refuse_unit(
        self, field: str, values: np.ndarray, units: dict[str, np.ndarray], lines: np.ndarray
    ) -> None:
        """Raise an error if most values are dates in a unit other than the default."""
        close = {
            unit: dates for unit, dates in units.items()
            if dates.any() and np.ptp(values[dates]) <= _CLOSE * values[dates].min()
        }  # fmt: skip
        share = sum(float(dates.mean()) for dates in close.values())
        several = max((int(dates.sum()) for dates in close.values()), default=0) > 1
        for unit, dates in units.items():
            together = unit in close and several and 2 * share >= 1
            if unit == DEFAULT_UNIT or not (dates.mean() >= _MOSTLY or together):
                continue
            if dates.sum() < max(int(each.sum()) for each in units.values()):
                continue
            first = int(np.flatnonzero(dates)[0])
            others = [
                f"{_lines(lines[each])} {'is a date' if each.sum() == 1 else 'are dates'} in {name}"
                for name, each in close.items() if name != unit and each.any()
            ]  # fmt: skip
            odd = ~np.logical_or.reduce(list(units.values()))
            if odd.any():
                are = "is no date" if odd.sum() == 1 else "are no dates"
                others.append(f"{_lines(lines[odd])} {are} in any unit")
            kinds = f"; {_lines(lines[dates])} {'is' if dates.sum() == 1 else 'are'} such, but "
            value = values[first]
            raise UserError(
                f'{self.name}:{lines[first]}: "{field}" {value} would be '
                f"{_date(value, DEFAULT_UNIT)} in {DEFAULT_UNIT}, the default, and is "
                f"{_date(value, unit)} in {unit}: give --time-unit {unit} (or --time-unit "
                f"{DEFAULT_UNIT}, if that is what it is)"
                + (kinds + ", ".join(others) if others else "")
            )


def _decimals(texts: pa.Array) -> tuple[pa.Array, Faults]:
    """Convert texts with a point or comma to decimals; numbers beyond ``_EXACT`` are faults."""
    plain = pc.replace_substring(texts, ",", ".")
    plain = pc.replace_substring_regex(plain, _TOO_FINE, r"\1")
    try:
        # Arrow counts the digits in one byte, so it misreads numbers of more than 256 digits.
        if pc.max(pc.binary_length(plain)).as_py() <= _DIGITS_MAX:
            return plain.cast(_EXACT), {}
    except pa.ArrowInvalid:
        pass
    known: list[str | None] = []
    faults: Faults = {}
    for row, text in enumerate(plain.to_pylist()):  # only if some number is too large or fine
        number = Decimal(text or 0)
        if number and number.adjusted() >= _PLACES.stop:
            faults[row] = BEYOND
        digits = f"{number:f}" if number.adjusted() in _PLACES else "0"
        known.append(None if text is None or row in faults else digits)
    cut = pc.replace_substring_regex(pa.array(known, pa.string()), _TOO_FINE, r"\1")
    return cut.cast(_EXACT), faults


def _rows(flags: pa.Array) -> list[int]:
    """Return the indices of true values."""
    found = flags.fill_null(False).to_numpy(zero_copy_only=False)
    return list(map(int, np.flatnonzero(found)))


def _orders_of(text: str) -> set[str]:
    """Return the orders of day and month that a date with slashes allows."""
    slashed = _EITHER_WAY.fullmatch(text)
    months = "11" if slashed is None else slashed.groups()
    return {order for order, month in zip(_SLASHED, months, strict=False) if int(month) <= 12}


def _no_time(text: str, orders: set[str]) -> str:
    """Return why ``text`` is not an instant; ``orders``: allowed by all such texts."""
    if _EITHER_WAY.fullmatch(text) is None:
        return NOT_TIME
    known = sorted(orders or _orders_of(text), reverse=True)
    remedy = (
        f"--date {known[0]} reads it"
        if len(known) == 1
        else f"--date says it: {' or '.join(known)}"
    )
    return f"{NOT_TIME}: day and month come in either order; {remedy}"


def _lines(numbers: np.ndarray) -> str:
    listing = ", ".join(str(number) for number in numbers[:_LINES_SHOWN])
    more = f" and {len(numbers) - _LINES_SHOWN} more" if len(numbers) > _LINES_SHOWN else ""
    return f"line{'s' * (len(numbers) > 1)} {listing}{more}"


def dates_in(numbers: np.ndarray) -> str | None:
    """Return the unit in which most numbers are dates since 1970, or None."""
    for unit in _DATE_UNITS:
        if len(numbers) and _are_dates(numbers, unit).mean() >= _MOSTLY:
            return unit
    return None


def instant_text(ns: int) -> str:
    """Return an instant as text in UTC.

    >>> instant_text(1_772_352_000_250_000_000)
    '2026-03-01T08:00:00.25Z'
    """
    text = str(np.datetime64(ns, "ns"))
    return text.rstrip("0").rstrip(".") + "Z"


def is_date(text: str) -> bool:
    """Whether a number written as text is a date in some unit.

    >>> is_date("1772352000.25"), is_date("17")
    (True, False)
    """
    try:
        return dates_in(np.array([float(text.replace(",", "."))])) is not None
    except ValueError:
        return False


def _are_dates(numbers: np.ndarray, unit: str) -> np.ndarray:
    seconds = numbers * (NS_PER[unit] / _NS_PER_S)
    return np.asarray((seconds >= _DATES_S[0]) & (seconds < _DATES_S[1]))


def _date(value: float, unit: str) -> str:
    seconds = np.int64(float(value) * NS_PER[unit] / _NS_PER_S)
    return str(seconds.astype("datetime64[s]")).replace("T", " ")


def _is_day(text: str) -> bool:
    try:
        return str(np.datetime64(text, "D")) == text
    except ValueError:
        return False


def _matches(column: pa.Array, pattern: str) -> np.ndarray:
    """Return where a text matches; null counts as a match."""
    found = pc.fill_null(pc.match_substring_regex(column, pattern), fill_value=True)
    return np.asarray(found.to_numpy(zero_copy_only=False))


def _only(column: pa.Array, which: np.ndarray) -> pa.Array:
    return pc.if_else(pa.array(which), column, pa.scalar(None, column.type))


def _scaled(
    field: str, values: np.ndarray, valid: np.ndarray, unit: int
) -> tuple[pa.Array, Faults]:
    """Convert whole numbers of ``unit`` [ns] to ns; a value beyond 64 bits is a fault."""
    if values.dtype == np.uint64:
        large = values > INT64_MAX
        values = np.where(large, 0, values).astype(np.int64)
    else:
        values = values.astype(np.int64, copy=False)
        large = np.zeros(len(values), bool)
    limit = INT64_MAX // unit
    beyond = valid & (large | (values > limit) | (values < -limit))
    faults = {}
    if beyond.any():
        values = np.where(beyond, 0, values)
        faults = dict.fromkeys(np.flatnonzero(beyond).tolist(), beyond_said(field))
    return pa.array(values * unit, mask=~valid | beyond), faults


def _of_floats(field: str, values: np.ndarray, unit: int) -> tuple[pa.Array, Faults]:
    """Convert floats of ``unit`` [ns] to ns, NaN to null, by the shortest decimal of each float;
    half a ns is rounded away from 0, as for texts.
    """
    valid = ~np.isnan(values)
    limit = INT64_MAX // unit
    beyond = valid & ~(np.abs(values) < limit)
    faults = dict.fromkeys(map(int, np.flatnonzero(beyond)), beyond_said(field))
    good = valid & ~beyond
    values = np.where(good, values, 0.0)
    sign, values = np.where(values < 0, -1, 1), np.abs(values)
    whole = np.floor(values)
    if unit == 1:
        fine = good & (values != whole)
        said = f"is not an integer; {FRACTION_OF_NS}"
        faults |= dict.fromkeys(map(int, np.flatnonzero(fine)), said)
        return pa.array(sign * whole.astype(np.int64), mask=~good | fine), faults
    ns = whole.astype(np.int64) * unit + np.rint((values - whole) * unit).astype(np.int64)
    left = good & (values != whole)
    for digits in range(1, 10):
        if not left.any():
            break
        power = 10**digits
        scaled = np.rint(values * power)
        fits = left & (np.abs(scaled) < _FLOAT_EXACT) & (scaled / power == values)
        units, rest = np.divmod(np.where(fits, scaled, 0).astype(np.int64), power)
        if unit >= _NS_PER_S:
            rest = rest * (unit // _NS_PER_S) * (_NS_PER_S // power)
        else:
            rest = (2 * rest * unit + power) // (2 * power)
        ns = np.where(fits, units * unit + rest, ns)
        left &= ~fits
    return pa.array(sign * ns, mask=~good), faults
