"""Detects the columns of an unknown file and the options that read it.

Reads a sample of rows. The role of a column follows from its name and its values. Every guess has a
reason, and the user confirms it before it is used.
"""

from __future__ import annotations

import codecs
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence, Set
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct, field
from msgspec.structs import replace

from slackwater.edge_agent import records as r
from slackwater.edge_agent.units import NS_PER
from slackwater.engine.core.errors import UserError
from slackwater.engine.core.frame import ATTR_PREFIX
from slackwater.engine.core.units import INT64_MAX
from slackwater.engine.log.describe import LogSummary, describe
from slackwater.engine.log.input.csv_import import (
    FRACTIONS,
    ColumnTypes,
    converted,
    header_names,
    lines_before,
    read_form,
    text_batches,
)
from slackwater.engine.log.input.input_log import Copying, files_of, kind_of, open_input, silent
from slackwater.engine.log.input.input_read import InputForm, InputKind
from slackwater.engine.log.input.lines import open_bytes, table_files
from slackwater.engine.log.input.parquet_import import ParquetParts
from slackwater.engine.log.input.row_import import FIELDS, values_by_path
from slackwater.engine.log.input.trace import TraceRead
from slackwater.engine.log.record.times import dates_in, instants_of, is_day, is_time_of_day
from slackwater.engine.log.record.trace_record import INT64_MIN

SAMPLE_ROWS: Final = 2_000
SAMPLES: Final = 3
_TRIES: Final = 6
_NAMES: Final[dict[str, tuple[str, ...]]] = {
    r.ARRIVAL: (
        "arrival", "arrivaltime", "receivedat", "received", "receivetime", "recvtime", "rxtime",
        "ingestedat", "ingesttime", "servertime", "gatewaytime",
    ),
    r.TS: (
        "ts", "timestamp", "eventtime", "devicetime", "time", "datetime", "measuredat",
        "recordedat", "occurredat", "stamp", "when", "zeitstempel", "zeit", "datum", "date", "t",
    ),
    r.SOURCE: (
        "source", "sourceid", "deviceid", "deveui", "device", "devicename", "sensorid", "sensor",
        "sensorname", "host", "hostname", "nodeid", "node", "stationid", "station", "entityid",
        "machineid", "machine", "readerid", "reader", "vehicleid", "dev",
    ),
    r.SEQ: (
        "seq", "sequence", "seqno", "sequencenumber", "counter", "fcnt", "framecounter", "msgno",
        "messageno", "packetno", "packetnumber", "sampleno",
    ),
    r.TYPE: ("type", "event", "eventtype", "eventname", "measurement", "state"),
}  # fmt: skip
"""Names that devices, gateways and databases use for fields of a record; likelier ones first."""
_STARTS, _ENDS = ("start", "begin"), ("stop", "end", "finish")
UNFIT: Final = ("list", "mixed")
"""Types that an attribute cannot have."""
_WORDS_MAX: Final = 5
_IS_NUMBER: Final = re.compile(r"[+-]?[0-9]+([.,][0-9]*)?([eE][+-]?[0-9]+)?")
_NO_VALUE: Final = re.compile(r"(?i)unavailable|unknown|n/?a|none|err|error|offline|-+")
_TYPES_MAX: Final = 50
_WINDOWS: Final = "cp1252"
"""Latin-1 with the additional characters of Windows."""
_BLOCK_BYTES: Final = 1 << 20
_LETTER: Final = re.compile(r"[^\x00-\x7f]")
_STRANGE: Final = re.compile("[\udc80-\udcff]")
_REMEDIES: Final = re.compile(
    rf"--(time-unit(?= (?:{'|'.join(NS_PER)})\b)|sort|on-short|format|date(?= \S+ reads)) ([a-z-]+)"
)
"""Options with values in the text of an error."""
_NAMED: Final = re.compile(r'\b(?:attribute|column|key) "([^"]+)"')
"""Names of columns in the text of an error."""
_TAKES: Final = re.compile(r"--map ([a-z_]+)=([a-z_]+) takes it as")


class Column(Struct):
    """One column or key and its ``type`` (time, day, time of day, int, number, bool, text, list).

    ``attribute``: its name as an attribute. ``unit``: of times that are numbers; None: dates, or no
    times. ``nulls``: words among numbers. ``distinct``: number of different values in the sample.
    ``as_attribute``: its type as an attribute, where it differs: numbers in quotes are text in a
    file with typed values; "": the same. ``repeats``: more than a tenth of its values are repeated,
    so it is no sequence number of a single source. ``lacking``: some rows have no value.
    """

    name: str
    type: str
    samples: list[str]
    unit: str | None = None
    field: str | None = None
    why: str = ""
    nulls: tuple[str, ...] = ()
    distinct: int = 0
    attribute: str = ""
    as_attribute: str = ""
    repeats: bool = False
    lacking: bool = False


class Look(Struct):
    """The detected columns, the form that reads the input, and a summary of its events.

    ``options``: words of the command line for ``form``. ``fault``: why the input is still
    unreadable. ``skipped``: lines or rows that ``--on-bad skip`` leaves out.
    """

    kind: str
    columns: list[Column]
    form: InputForm
    options: list[str] = field(default_factory=list)
    summary: LogSummary | None = None
    fault: str | None = None
    skipped: int = 0


def look(sources: Sequence[str], options: InputForm, copying: Copying = silent) -> Look:
    """Detect columns and options of the inputs; the columns are those of all files.

    Args:
        sources: paths of files, a folder of Parquet files or an arrival log; globs and folders.
        options: the user's options; only missing ones are detected.
        copying: as for ``files_of``.

    Raises:
        UserError: the input cannot be read at all.
    """
    files = files_of(sources, copying)
    source, kind = files[0], kind_of(files[0], options)
    if kind is InputKind.LOG:
        found = Look(str(kind), [], options)
        found.summary = describe(open_input(files, options))
        return found
    form = options if options.encoding else replace(options, encoding=_encoding_of(files, kind))
    form = form if kind is not InputKind.CSV or options.header else _with_names(source, form)
    samples = [
        _samples(source, kind, form),
        *_more_samples(files[1:], form, SAMPLE_ROWS // len(files)),
    ]
    together = _merge_samples(samples)
    columns = [_column(name, together) for name in together.rows]
    shared = set[str](together.rows).intersection(*(each.rows for each in samples))
    found = Look(str(kind), columns, _assign_fields(columns, form, shared))
    if len(files) > 1 and not options.named_by_file:
        by_file = _named_by_files(columns, alike=len(shared) == len(columns))
        found.form = replace(found.form, named_by_file=by_file)
    _read_with_remedies(found, files, lambda fault: _with_remedy(found.form, fault))
    if found.form.format != form.format:
        again = look(sources, replace(options, format=found.form.format), copying)
        again.options[:0] = ["--format", str(found.form.format)]
        return again
    found.options = options_of(options, found.form)
    if found.fault and not _skip_bad(found, files):
        _read_with_remedies(found, files, lambda fault: _without_attributes(found, fault))
        found.options = options_of(options, found.form)
    return found


def _read_with_remedies(
    found: Look, files: Sequence[str], repaired: Callable[[str], InputForm]
) -> None:
    """Read the input until it is readable, with the form from ``repaired`` after each error."""
    for _ in range(_TRIES):
        try:
            found.summary, found.fault = describe(open_input(files, found.form)), None
        except UserError as error:
            found.fault = str(error)
            before, found.form = found.form, repaired(found.fault)
            if found.form == before or found.form.format != before.format:
                return
        else:
            return


def _encoding_of(files: Sequence[str], kind: InputKind) -> str | None:
    """Windows-1252 for text with more letters outside UTF-8 than in it; None: UTF-8."""
    strange = letters = 0
    texts = [file for file in files if kind is not InputKind.PARQUET and Path(file).is_file()]
    for file in texts:
        decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        with open_bytes(file) as stream:
            while block := stream.read(_BLOCK_BYTES):
                if b"\0" in block:
                    return None
                text = decoder.decode(block)
                if not text.isascii():
                    found = len(_STRANGE.findall(text))
                    strange += found
                    letters += len(_LETTER.findall(text)) - found
    return _WINDOWS if strange > letters else None


def _skip_bad(found: Look, files: Sequence[str]) -> bool:
    """Read without bad lines if good ones are more frequent; return whether they are."""
    rest = open_input(files, found.form, "skip")
    try:
        summary = describe(rest)
    except UserError:
        return False
    if rest.bad_count > summary.records:
        return False
    found.summary, found.skipped = summary, rest.bad_count
    found.options.extend(("--on-bad", "skip"))
    return True


def _without_attributes(found: Look, fault: str) -> InputForm:
    """Return the form without the attributes that the error ``fault`` names."""
    named = set(_NAMED.findall(fault))
    for each in found.columns:
        if each.field is None and named & {each.name, each.attribute}:
            each.type, each.why = UNFIT[-1], fault.partition(": ")[2]
    attrs = [each.name for each in found.columns if each.field is None and each.type not in UNFIT]
    return replace(found.form, attrs=attrs) if named else found.form


def options_of(options: InputForm, form: InputForm) -> list[str]:
    """Return the command-line words that change ``options`` to ``form``."""
    words: list[str] = []
    for option in ("header", "attrs"):
        names = getattr(form, option)
        if names is not None and names != getattr(options, option):
            words += [f"--{option}", ",".join(names)]
    for target, column in form.mapping.items():
        if options.mapping.get(target) != column:
            words += ["--map", f"{target}={column}"]
    for stream, bits in form.seq_bits.items():
        if options.seq_bits.get(stream) != bits:
            words += ["--seq-bits", f"{stream}={bits}" if stream else str(bits)]
    for each in form.named_by_file:
        if each not in options.named_by_file:
            words += [f"--{each}-from", "name"]
    if form.nulls != options.nulls:
        words += ["--null", ",".join(form.nulls)]
    plain = (
        "skip_lines",
        "on_short",
        "format",
        "date",
        "unit",
        "sort",
        "delimiter",
        "timezone",
        "encoding",
    )
    for name in plain:
        value = getattr(form, name)
        if value is not None and value != getattr(options, name):
            option = "time-unit" if name == "unit" else name.replace("_", "-")
            words += [f"--{option}", str(value)]
    return words


def _named_by_files(columns: Sequence[Column], *, alike: bool) -> tuple[str, ...]:
    """Return the fields that take the files' names: source, as each file is of one device with a
    clock of its own; and stream, if the files differ and have no types.
    """
    known = {each.field for each in columns}
    fields = (r.SOURCE,) if alike or r.TYPE in known else (r.SOURCE, r.STREAM)
    return tuple(each for each in fields if each not in known)


def _with_remedy(form: InputForm, fault: str) -> InputForm:
    """``form`` with the options that the error ``fault`` suggests."""
    for option, value in _REMEDIES.findall(fault):
        name = option.replace("time-", "").replace("-", "_")
        if getattr(form, name) in (None, "bad"):
            return replace(form, **{name: value})
    for target, key in _TAKES.findall(fault):
        return replace(form, mapping={**form.mapping, target: key})
    return form


def _with_names(source: str, form: InputForm) -> InputForm:
    """``form`` with names of columns if the first line has none, and without lines before it."""
    before = 0 if form.skip_lines else lines_before(source, form.encoding)
    form = replace(form, skip_lines=before) if before else form
    names = header_names(source, form)
    return form if names is None else replace(form, header=names)


# Samples of rows, by column or key.


class _Sample(NamedTuple):
    """``comma``: fractions may have a decimal comma (``ColumnTypes``). ``nested``: columns that are
    keys of nested objects. ``typed``: values have types; in CSV they are texts.
    """

    rows: dict[str, list[Any]]
    comma: bool = False
    nested: Set[str] = frozenset()
    typed: bool = True
    grouped: bool = False


def _merge_samples(samples: Sequence[_Sample]) -> _Sample:
    """Return the samples of several files as one; absent columns are null."""
    rows: dict[str, list[Any]] = {}
    count = 0
    for sample in samples:
        more = max(map(len, sample.rows.values()), default=0)
        for name in dict.fromkeys([*rows, *sample.rows]):
            rows.setdefault(name, [None] * count).extend(sample.rows.get(name, [None] * more))
        count += more
    return _Sample(
        rows,
        any(each.comma for each in samples),
        frozenset[str]().union(*(each.nested for each in samples)),
        all(each.typed for each in samples),
        any(each.grouped for each in samples),
    )


def _more_samples(files: Sequence[str], options: InputForm, rows: int) -> Iterator[_Sample]:
    """Samples of ``rows`` rows, at least one, of each file."""
    for file in files:
        kind = kind_of(file, options)
        if kind is InputKind.LOG:
            return  # the reader says what to do
        form = (
            _with_names(file, options) if kind is InputKind.CSV and not options.header else options
        )
        found = _samples(file, kind, form)
        yield found._replace(rows={name: each[: rows or 1] for name, each in found.rows.items()})


def _samples(source: str, kind: InputKind, form: InputForm) -> _Sample:
    rows: dict[str, list[Any]] = {}
    if kind is InputKind.CSV:
        csv = read_form(source, form)
        text = next(text_batches(source, csv))
        named = zip(csv.names, csv.keys, strict=True)
        rows = {
            name: text.columns[key].slice(0, SAMPLE_ROWS).to_pylist() for name, key in named if name
        }
        comma = csv.delimiter != ","
        types = ColumnTypes(rows, None, comma=comma)
        types.learn({name: pa.array(values, pa.string()) for name, values in rows.items()})
        return _Sample(rows, comma, typed=False, grouped=types.grouped)
    if kind is InputKind.PARQUET:
        table = ParquetParts(source, table_files(source))
        for batch in islice(table.parts(table.schema.names), 1):
            part = batch.slice(0, SAMPLE_ROWS)
            rows |= {
                each.name: _plain(column)
                for each, column in zip(part.schema, part.columns, strict=True)
            }
        return _Sample(rows, nested=table.within)
    nested = set[str]()
    for count, one in enumerate(islice(_objects(source, form), SAMPLE_ROWS)):
        for path, value in values_by_path(one):
            rows.setdefault(path, [None] * count).append(value)
            nested |= {path} - one.keys()
        for values in rows.values():
            values.extend([None] * (count + 1 - len(values)))
    return _Sample(rows, nested=nested)


def _plain(column: pa.Array) -> list[Any]:
    """Python values of a column; instants as text."""
    if pa.types.is_timestamp(column.type) or pa.types.is_date(column.type):
        naive = pa.timestamp(getattr(column.type, "unit", "ms"))
        texts = pc.strftime(column.cast(naive), "%Y-%m-%dT%H:%M:%SZ")
        return list(texts.to_pylist())
    return list(column.to_pylist())


def _objects(source: str, form: InputForm) -> Iterator[dict[str, Any]]:
    reader = open_input(source, form)
    assert isinstance(reader, TraceRead), "other kinds have columns"
    for objects, *_ in reader.parts():
        yield from (each for each in objects if isinstance(each, dict))


# Types and roles of columns.


def _column(name: str, sample: _Sample) -> Column:
    some = [_valid_value(value) for value in sample.rows[name] if value is not None]
    samples = list(dict.fromkeys(_excerpt(value) for value in some[:100]))[:SAMPLES]
    type_, unit = _type_of(some, sample)
    nulls = _words_among(some) if type_ == "text" else ()
    if nulls:
        type_, unit = _type_of([value for value in some if value not in nulls], sample)
    attribute = name.removeprefix(ATTR_PREFIX)
    attribute = attribute.replace(".", "_") if name in sample.nested else attribute
    distinct, kept = len(set(map(str, some))), ""
    if sample.typed and any(isinstance(value, str) for value in some):
        texts = all(isinstance(value, str) for value in some)
        kept = "mixed" if not texts else "text" if type_ in ("int", "number", "bool") else ""
    return Column(
        name, type_, samples, unit, nulls=nulls, distinct=distinct, attribute=attribute,
        as_attribute=kept, repeats=10 * distinct < 9 * len(some),
        lacking=len(some) < len(sample.rows[name]),
    )  # fmt: skip


def _words_among(texts: Sequence[str]) -> tuple[str, ...]:
    """The few words among texts that are otherwise numbers."""
    words = Counter(text for text in texts if not _IS_NUMBER.fullmatch(text))
    if not all(map(str.isprintable, words)):
        return ()  # damaged, and no words
    few = len(words) <= _WORDS_MAX and 2 * words.total() < len(texts)
    return tuple(words) if few or all(map(_NO_VALUE.fullmatch, words)) else ()


def _valid_value(value: Any) -> Any:
    """``value`` clipped to valid text and int64; the reader reports invalid ones."""
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if type(value) is int:
        return min(max(value, INT64_MIN), INT64_MAX)
    return value


def _excerpt(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= 32 else text[:31] + "\N{HORIZONTAL ELLIPSIS}"


def _type_of(values: Sequence[Any], of: _Sample) -> tuple[str, str | None]:
    """Return the type of the values, and the unit of times that are numbers."""
    kinds = set(map(type, values))
    if not values:
        return "empty", None
    if kinds == {bool}:
        return "bool", None
    if kinds <= {int, float}:
        return _number_type(np.array(values, np.float64), whole=kinds == {int})
    if {str} < kinds <= {int, float, str}:
        texts = [value if isinstance(value, str) else repr(value) for value in values]
        type_, unit = _type_of(texts, of)
        return ("mixed", None) if type_ == "text" else (type_, unit)
    if kinds != {str}:
        return ("list" if kinds & {list, dict} else "mixed"), None
    column = pa.array(values, pa.string())
    narrow = ColumnTypes(["x"], None, comma=of.comma, grouped=of.grouped)
    narrow.learn({"x": column})
    found = narrow.found["x"]
    if found in ("int", *FRACTIONS):
        numbers = converted(column, "float" if found == "int" else found)  # of any size
        return _number_type(numbers.to_numpy(zero_copy_only=False), whole=found == "int")
    if found == "bool":
        return "bool", None
    if is_day(column):
        return "day", None
    if is_time_of_day(column):
        return "time of day", None
    _, faults = instants_of(column, None)
    return ("time" if 2 * len(faults) < len(values) else "text"), None


def _number_type(values: np.ndarray, *, whole: bool) -> tuple[str, str | None]:
    unit = dates_in(values)
    if unit is not None:
        return "time", unit
    return ("int" if whole else "number"), None


def _assign_fields(columns: list[Column], form: InputForm, shared: Set[str]) -> InputForm:
    """Assigns fields to columns and returns the form with this mapping.

    ``shared``: columns of all files; only these can be mapped.
    """
    mapping = dict(form.mapping)
    for target, name in mapping.items():
        for each in columns:
            if each.name == name and not target.startswith(ATTR_PREFIX):
                each.field, each.why = target, "as --map says"
    names = {each.name for each in columns}
    for each in columns:
        no_field = (each.name, each.type) == (r.SEQ, "text") or (
            each.name == r.ID and r.KIND not in names  # only intervals have ids
        )
        if no_field and each.name not in mapping.values():
            mapping[ATTR_PREFIX + each.name] = each.name
        elif each.name in FIELDS and each.name not in mapping and each.field is None:
            each.field, each.why = each.name, "named so"

    def of_one() -> bool:
        return all(each.field != r.SOURCE for each in columns)

    fits: dict[str, Callable[[Column], bool]] = {
        r.ARRIVAL: lambda each: each.type == "time",
        r.TS: lambda each: each.type in ("time", "day", "int", "number"),
        r.SOURCE: lambda each: each.type in ("text", "int"),
        r.SEQ: lambda each: each.type == "int" and not (each.repeats and of_one()),
        r.TYPE: lambda each: each.type == "text" and each.distinct <= _TYPES_MAX,
    }
    for target in (r.TS, r.ARRIVAL, r.SOURCE, r.SEQ, r.TYPE):
        if target in form.mapping or any(each.field == target for each in columns):
            continue
        free = [each for each in columns if each.field is None and fits[target](each)]
        named = [
            each for each in free
            if each.name in shared and is_called(each.name, target)
        ]  # fmt: skip
        best = min(named, key=lambda each: (each.lacking, _rank(each.name, target)), default=None)
        why = "by its name"
        if best is None and target == r.TS:
            best, why = _only_time(free), "the only time"
            starts, ends = (_times_called(free, words) for words in (_STARTS, _ENDS))
            if best is None and len(starts) == len(ends) == 1:
                best, why = starts[0], "where an interval begins"
                ends[0].field, ends[0].why, mapping[r.TE] = r.TE, "where it ends", ends[0].name
        if best is None and target == r.TS:
            best, why = _like_a_time(columns), "by its name"
        if target == r.TS and (best is None or best.type == "day"):
            form = _by_time_of_day(columns, best, form, mapping)
            continue
        if best is not None:
            best.field = target
            best.why = why if best.unit is None else f"{why}, dates in {best.unit}"
            mapping[target] = best.name
    for each in columns:
        if each.as_attribute and each.field is None:
            each.type, each.nulls = each.as_attribute, ()
    units = [each.unit for each in columns if each.field in (r.TS, r.ARRIVAL) and each.unit]
    unit = form.unit or next((each for each in units if each != "ns"), None)
    attrs = form.attrs
    rest = [each for each in columns if each.field is None]
    if attrs is None and any(each.type in UNFIT for each in rest):
        attrs = [each.name for each in rest if each.type not in UNFIT]
    nulls = list(form.nulls)
    for each in columns:
        nulls += [word for word in each.nulls if each.field is None and word not in nulls]
    return replace(form, mapping=mapping, unit=unit, attrs=attrs, nulls=tuple(nulls))


def _by_time_of_day(
    columns: Sequence[Column], day: Column | None, form: InputForm, mapping: dict[str, str]
) -> InputForm:
    """The event time of a column of days and one of times of day, or of one of these alone."""
    of_day = next((each for each in columns if each.type == "time of day"), None)
    found = [each for each in (day, of_day) if each is not None]
    for each in found:
        each.field, each.why = r.TS, "day and time of day" if len(found) > 1 else "the only time"
    if found and (len(found) > 1 or found[0].name != r.TS):
        mapping[r.TS] = "+".join(each.name for each in found)
    if day is None and of_day is not None and form.date is None:
        return replace(form, date=_TODAY)
    return form


_NO_RANK: Final = 1_000
_DIGIT: Final = re.compile("[0-9]")
_TODAY: Final = "1970-01-01"
"""The date of times of day without a date."""


def _rank(name: str, target: str) -> int:
    """Return the rank of a column's name among the names of the field; 0: likeliest."""
    parts = name.split(".")
    known = _NAMES[target]
    plain = (re.sub(r"[^a-z0-9]", "", ".".join(parts[of:]).lower()) for of in (0, -2, -1))
    places = [known.index(each) for each in plain if each in known]
    return min(places, default=_NO_RANK)


def is_called(name: str, target: str) -> bool:
    """Whether ``name`` is a usual name of the field ``target``."""
    return _rank(name, target) < _NO_RANK


def _like_a_time(columns: Sequence[Column]) -> Column | None:
    """Return a column of texts with digits and a usual name of event times; the reader reports the
    values that it cannot read.
    """
    texts = [
        each for each in columns
        if each.field is None and each.type == "text" and is_called(each.name, r.TS)
        and all(map(_DIGIT.search, each.samples))
    ]  # fmt: skip
    return min(texts, key=lambda each: _rank(each.name, r.TS), default=None)


def _only_time(columns: Sequence[Column]) -> Column | None:
    """Return the only column of times that is no start or end of a range; None: none or several."""
    ranges = _times_called(columns, (*_STARTS, *_ENDS))
    times = [each for each in columns if each.type == "time" and each not in ranges]
    return times[0] if len(times) == 1 else None


def _times_called(columns: Sequence[Column], words: tuple[str, ...]) -> list[Column]:
    return [
        each for each in columns
        if each.type == "time" and each.name.lower().strip("_").startswith(words)
    ]  # fmt: skip
