"""Words of other query languages, and the remedies that messages suggest for them.

Users of Flink SQL, Siddhi or Esper often write that syntax first; a list of expected tokens does
not show them the equivalent here.
"""

from __future__ import annotations

import re
from calendar import timegm
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Final, NamedTuple

_PATTERN: Final = "a pattern is EVENT SEQ(A a, B+ b[]) WHERE ... WITHIN 10 s RETURN a.v"
_LENGTH: Final = "a length of time is a number and its unit: 10 s, 1 min 30 s"
_NEXT: Final = "read its results in another statement: CREATE STREAM name AS ...; ..."
_SLIDING: Final = "windows that overlap are WINDOW SLIDING 10 s EVERY 5 s"
_TUMBLING: Final = "windows side by side are WINDOW TUMBLING 10 s, behind GROUP BY"
_ROWS: Final = "windows of so many events are WINDOW ROWS 100"
_OVER: Final = "of the last 5 events of each group: GROUP BY g WINDOW ROWS 5 EVERY 1"
_LATEST: Final = "of each key the latest event: SELECT last(v) AS v GROUP BY k WINDOW TUMBLING 10 s"
_TOP: Final = "the first 3 groups of a window: ORDER BY sum(v) DESC LIMIT 3"
_LISTED: Final = "name the attributes that rows shall have: SELECT a, b AS c"
_EARLY: Final = "EMIT ON CHANGE, EMIT EARLY EVERY 1 s or, as without EMIT, ON CLOSE"
_EVERY: Final = "each event begins a match of its own anyway"
_SKIP: Final = "SKIP PAST LAST EVENT or SKIP TO NEXT"
_BETWEEN: Final = "what may lie between events is said by CONTIGUITY STRICT, NEXT or ANY"
_REGULAR: Final = "regexp_like(t, '^x')"
_WHERE: Final = "conditions go in WHERE, by alias: SEQ(A a, B b) WHERE a.v > 3"
_ALIAS: Final = "an alias goes after its type: SEQ(A a, B b)"
_ANYWAY: Final = "a match is one result anyway: leave it out"
_SIGNS: Final = "+ inserts and - takes back: leave it out"
_LATE: Final = (
    "how late events come is said beside the query: --order kslack:5s, --window horizon=1min"
)
_ONE_EACH: Final = "one statement for each grouping; all are answered in one pass"
_KEYS: Final = "the same value in all events of a match is PARTITION BY x"
JOINS_ELSEWHERE: Final = {
    "cross": "a JOIN without ON has every pair within its time",
    "asof": "the last one before: EVENT SEQ(B b, !B n, A a) WHERE b.k = a.k AND n.k = a.k",
    "semi": "a row for each pair: JOIN; what has no partner: ANTI JOIN",
    "outer": "write LEFT, RIGHT or FULL before it",
    "natural": "say which attributes are equal: JOIN b ON a.x = b.x",
}
"""Kinds of join in other systems, with remedies."""
_SUM: Final = "sum(CASE WHEN v > 3 THEN 1 ELSE 0 END)"
_FIRST: Final = "of the first 3 groups ORDER BY sum(v) DESC LIMIT 3; of a window's events first(v)"
_BEFORE: Final = "of two events one after the other: first(v), last(v) ... WINDOW ROWS 2 EVERY 1"
_DIFFERENT: Final = "count(DISTINCT v)"
_TEXTS: Final = "values are not put together: first(v), last(v), count(DISTINCT v)"
RENAMED: Final = {
    "approx_quantile": "quantile", "quantile_cont": "quantile", "quantile_disc": "quantile",
    "percentile": "quantile", "percentile_cont": "quantile", "approx_percentile": "quantile",
    "arg_max": "max_by", "arg_min": "min_by", "argmax": "max_by", "argmin": "min_by",
    "first_value": "first", "firstever": "first", "any_value": "first",
    "last_value": "last", "lastever": "last", "latest_by_offset": "last", "countever": "count",
    "mean": "avg", "average": "avg", "stddev_pop": "stddev", "var_pop": "var",
    "ifnull": "coalesce", "nvl": "coalesce", "isnull": "coalesce", "ceiling": "ceil",
    "char_length": "length", "len": "length", "ucase": "upper", "lcase": "lower",
    "regexp_matches": "regexp_like", "regexp_match": "regexp_like",
}  # fmt: skip
"""Functions and aggregates of other systems, with the name used here."""
_BY_N: Final = "(v), which divides by n"
_CALLS: Final = {
    "quantile": "(v, 0.9)", "stddev": _BY_N, "var": _BY_N, "max_by": "(x, v)",
    "min_by": "(x, v)", "coalesce": "(v, 0)",
    "length": "(t)", "upper": "(t)", "lower": "(t)", "regexp_like": "(t, '^x')",
}  # fmt: skip
"""Arguments in the suggested call, if they are not ``(v)``."""
_OURS: Final = {other: name + _CALLS.get(name, "(v)") for other, name in RENAMED.items()}
_ROWS_HAVE: Final = ("coalesce", "ceil", "length", "upper", "lower", "regexp_like")
_SQUARE: Final = "compare with the square: v > 9 for sqrt(v) > 3"
AGGREGATES_ELSEWHERE: Final = {
    **{other: call for other, call in _OURS.items() if RENAMED[other] not in _ROWS_HAVE},
    "distinctcount": _DIFFERENT, "approx_count_distinct": _DIFFERENT,
    "row_number": _FIRST, "rank": _FIRST, "dense_rank": _FIRST, "top": _FIRST,
    "lag": _BEFORE, "lead": _BEFORE, "prev": _BEFORE,
    "ifthenelse": _SUM, "if": _SUM, "iif": _SUM, "countif": _SUM, "count_if": _SUM,
    "stddev_samp": f"stddev{_BY_N}", "variance": f"var{_BY_N}", "var_samp": f"var{_BY_N}",
    "sqrt": _SQUARE,
    "rate": "count(*) / 10, of a window of 10 s",
    "listagg": _TEXTS, "group_concat": _TEXTS, "string_agg": _TEXTS, "collect": _TEXTS,
    "collect_list": _TEXTS, "array_agg": _TEXTS,
}  # fmt: skip
"""Aggregates of other systems, with remedies."""
_CASE: Final = "CASE WHEN v > 3 THEN 1 ELSE 0 END"
_BEGINS: Final = "how a text begins: t LIKE 'ab%'"
_CLOCK: Final = "a query has no clock of its own: WITHIN and WINDOW say how long"
_CURVES: Final = (
    "of numbers there are + - * / and abs, round, floor, ceil: work it out of the results"
)
_DAY: Final = "year(raw_ts), month(raw_ts), day(raw_ts); a range is ts BETWEEN two times"
FUNCTIONS_ELSEWHERE: Final = _OURS | {
    "prev": "of a step that repeats, as A+ a[]: a[i].v > a[i-1].v",
    "lag": "of a step that repeats, as A+ a[]: a[i].v > a[i-1].v",
    "power": "write v * v", "pow": "write v * v",
    "if": _CASE, "iff": _CASE, "iif": _CASE, "ifthenelse": _CASE, "sign": _CASE,
    "now": _CLOCK, "current_timestamp": _CLOCK, "date": _DAY, "to_date": _DAY,
    "substring": _BEGINS, "substr": _BEGINS, "left": _BEGINS, "starts_with": _BEGINS,
    "contains": "what a text has within: t LIKE '%ab%'",
    "concat": "texts are not put together: return both of them",
    "sqrt": _SQUARE,
    **dict.fromkeys(("ln", "log", "log2", "log10", "exp", "sin", "cos", "tan", "atan2"), _CURVES),
    "trunc": "floor(v)", "mod": "v % 3", "mean": "avg(v), in the SELECT list",
    "regexp": "regexp_like(t, '^x')", "regexp_extract": "regexp_like(t, '^x')",
}  # fmt: skip
"""Functions of other systems, with remedies."""
_REMEDIES: Final = {
    "cross": JOINS_ELSEWHERE["cross"], "semi": JOINS_ELSEWHERE["semi"],
    "hopping": _SLIDING, "hop": _SLIDING, "tumble": _TUMBLING, "table": _TUMBLING,
    "cumulate": "EMIT EARLY EVERY 1 s tells a window before it closes",
    "length": _ROWS, "length_batch": _ROWS, "lengthbatch": _ROWS,
    "time": _SLIDING, "time_batch": _TUMBLING, "timebatch": _TUMBLING,
    "using": "say ON a.x = b.x", "natural": "say ON a.x = b.x",
    "over": _OVER,
    "filter": f"count what holds: {_SUM}",
    "match_recognize": _PATTERN, "pattern": _PATTERN, "measures": _PATTERN, "define": _PATTERN,
    "top": _TOP,
    "except": _LISTED, "exclude": _LISTED, "replace": _LISTED,
    "interval": _LENGTH, "timestamp": "a time is so many units since 1970: ts > 1700000000 s",
    "insert": "CREATE STREAM name AS SELECT ... gives results a name",
    "ilike": "upper(t) LIKE 'X%'", "rlike": _REGULAR, "similar": _REGULAR,
    "regexp": _REGULAR, "~": _REGULAR,
    "escape": "\\ goes before a literal % or _: LIKE 'a\\%'",
    "skip": _SKIP, "strict": _BETWEEN, "relaxed": _BETWEEN, "contiguity": _BETWEEN,
    "output": _EARLY,
    "allowed": _LATE, "watermark": _LATE, "one": _ANYWAY, "all": _ANYWAY,
    "offset": "windows begin at multiples of their size since 1970",
    "irstream": _SIGNS, "istream": _SIGNS, "rstream": _SIGNS,
    "cube": _ONE_EACH, "rollup": _ONE_EACH, "sets": _ONE_EACH,
    "join": "a join has two sides; " + _NEXT,
    "union": "FROM a, b reads both streams",
    "followed": "one after another is SEQ(A a, B b)",
    "||": "OR joins conditions; texts are not put together",
    "|": "OR joins conditions; texts are not put together",
    "&&": "AND joins conditions", "&": "AND joins conditions",
    "->": "one after another is SEQ(A a, B b)",
    "^": "write v * v",
    "#": "a comment begins with --", "/*": "a comment begins with --, and ends with its line",
    ".": "a fraction begins with a digit: 0.5",
}  # fmt: skip


class _Habit(NamedTuple):
    """A remedy for words whose meaning depends on their place; all fields but the last are regexes.

    Attributes:
        clause: the first word of the clause; empty before the first clause.
        before: text of the clause before the place, without blanks at its end.
        rest: text from the place on.
        remedy: the syntax to use; empty: the words around it decide.
    """

    clause: str
    before: str
    rest: str
    remedy: str


_AT_THE_END: Final = (
    "windows go at the end: WINDOW TUMBLING 10 s, SLIDING 10 s EVERY 5 s, SESSION 10 s or ROWS 9"
)
_GROUPS: Final = (
    "groups are attributes: CREATE STREAM t AS SELECT floor(v) AS g FROM s; "
    "SELECT count(*) FROM t GROUP BY g ..."
)
_CLAUSE: Final = re.compile(
    r"\b(event|select|from|where|group\s+by|having|order\s+by|window|within|return|emit(\s+(on|at\s+most))?|on|partition\s+by)\b",
    re.IGNORECASE,
)
_LOOKED_BACK: Final = 200
"""Characters of a clause that are considered; text far before the place is not relevant."""
_STEP: Final = r"(^|[(,!])\s*(every\s+)?\w+(\s+\w+)?$"
_NEXT_CLAUSE: Final = r"(from|where|window|within|having|return|(group|order|partition)\s+by)\b"
_IN_PATTERN: Final = "event|within|return|partition by"
_HABITS: Final = tuple(_Habit(*each) for each in (
    ("", "^$", r"from\b", f"SELECT goes before FROM; {_PATTERN}"),
    ("", "^$", r"with\b", f"name the first one, and {_NEXT}"),
    ("", "^$", r"(show|desc|describe|summarize|pragma)\b",
     "slackwater look FILE says what there is: attributes, sources and times"),
    ("", "^$", r"(delete|update|alter|drop|truncate|merge)\b",
     "events stay as they came; WHERE says which a query takes"),
    ("", "^$", r"define\b", "streams and attributes are those of the input: leave it out"),
    ("", "^$", r"partition\b", "of a pattern it is PARTITION BY x, of a window GROUP BY x"),
    ("", "^$", r"(return|where|within|window)\b",
     "EVENT or SELECT comes first, and ; only behind the last clause"),
    ("(?!event).*", r"[\w)]\s*,$", _NEXT_CLAUSE, "a comma before it is too many"),
    ("event", r"\)\s*,$", _NEXT_CLAUSE, "a comma before it is too many"),
    (".*", r"\b(and|or|not)$", _NEXT_CLAUSE, "a condition is missing before it"),
    ("where|having|on|within|return", "^$", _NEXT_CLAUSE, "what belongs before it is missing"),
    ("event", r"\([^()]*$", "$", "a parenthesis is open; between steps are commas: SEQ(A a, B b)"),
    ("event", r"\([^()]*\w$", r"(within|where)\b", "it goes after: SEQ(A a, B b) WITHIN 10 s"),
    ("event", r"^(seq|and|or|pal)$", r"\[", "steps go in parentheses: SEQ(A a, B b)"),
    ("event", "^$", "!", "what must not occur goes beside what does: SEQ(A a, !B b) WITHIN 10 s"),
    ("event", r"\)$", r"in\s+\d", "a match takes at most so long: WITHIN 10 s"),
    ("event", r"\)$", r"on\b", "conditions go after WHERE"),
    ("event", r"^$", r"\(", "one after another is SEQ(A a, B b)"),
    ("event", _STEP, "=", f"{_ALIAS}; {_EVERY}"),
    ("event", _STEP, r"as\b", f"{_ALIAS}, without AS"),
    ("event", _STEP, r"\[\s*\]", "[] is of a step that repeats: A+ a[]"),
    ("event", _STEP, r"\[", _WHERE),
    ("event", r"[(,]\s*\w+\s*\($", r"[a-z_][\w.]*\s*([=<>!]|(in|like|between|is)\b)", _WHERE),
    ("event", _STEP, r"<?\s*\d", "the count goes in braces: B{3} b[], B{2,5} b[]"),
    ("event", _STEP, r"for\b", "a scope has the length of WITHIN: SEQ(A a, !B b) WITHIN 10 s"),
    ("event", r"[+*?}]$", r"[?+]", f"CONTIGUITY NEXT, {_SKIP} choose among matches"),
    ("event", r"\bor\s*\([^()]*\)$", r"[+*?{]", "OR(A, B) x occurs once; B+ b[] repeats"),
    ("event", r"\)$", r"[+*?{]", "single steps repeat: B+ b[]"),
    ("event", r"[(,]$", r"not\b", "what must not occur is !B b: SEQ(A a, !B b, C c)"),
    ("event", _STEP, r"and\b", "both, in any order, are AND(A a, B b)"),
    ("event", _STEP, r"or\b", "either is OR(A a, B b)"),
    ("event", r"\bevery\s+\w+$", r"\w", _EVERY),
    ("select", "", r"over\s*\([^()]*\brange\b",
     "of the last 10 s, once a second: GROUP BY g WINDOW SLIDING 10 s EVERY 1 s"),
    ("select", "", r"over\s*\([^()]*\bunbounded\b",
     "of all so far, in a day: GROUP BY g WINDOW TUMBLING 1 d EMIT ON CHANGE"),
    ("select|from", "", r"(over\b.*)?qualify\b", _LATEST), ("from", r"\bqualify$", "", _LATEST),
    ("where|having|on", r"\bis(\s+not)?$", r"(true|false)\b", "v = true, v = false"),
    ("select", "^distinct$", "", "of each value one row: SELECT x, count(*) GROUP BY x"),
    ("select", r"^[ir]+stream$", "", _SIGNS),
    ("select", r"\b(sum|avg|min|max|count)$", r"\w", "its argument is in parentheses: sum(v)"),
    ("select|from|where|group by|having|window", "", r"limit\b",
     "ORDER BY sum(v) DESC LIMIT 3 gives the first groups of a window; the first rows: | head -3"),
    ("select", r"\)$", r"[a-z_]\w*\s*(,|from\b|group\b|window\b)",
     "a name goes after AS: sum(v) AS total"),
    ("from", r"\w$", r"as\b", "a pattern's streams have no alias, its steps have: SEQ(A a, B b)"),
    ("from", r"\b(tumbling|sliding|session|rows|tumble|hop|every|range)$", r"\d",
     "WINDOW goes before it: WINDOW TUMBLING 10 s"),
    ("from", r"^pattern$", r"\[", _PATTERN),
    ("from|on", r"\w$", r"\.?\s*(win|std|ext)\b|#\s*\w", _AT_THE_END),
    ("from", r"^\w+$", r"\[", "conditions go in WHERE: FROM s WHERE v > 3"),
    ("from", r"(^|\bjoin)$", r"\(", f"name the inner one, and {_NEXT}"),
    ("where|having|on", r"\(\s*$", r"select\b",
     "what has no partner: FROM a ANTI JOIN b ON a.x = b.x WITHIN 10 s"),
    ("where", r"^$", r"\[", _KEYS),
    ("where", r"\)$", r"\{", f"{_BETWEEN}; conditions follow WHERE"),
    ("where", r"\bbetween\s*\([^()]*$", ",", "BETWEEN 3 AND 5"),
    ("where|having|on", r"\bnot$", r"null\b", "a.v IS NOT NULL"),
    ("where|having|on", r"\w$", r"exists\b", "a.v IS NOT NULL"),
    ("where", r"[\w')]$", ",", "AND joins conditions"),
    ("where|having|on", "", r"!", "NOT (v > 3)"),
    ("where|having|on", r"\bis(\s+not)?$", r"distinct\b", "a = b OR a IS NULL AND b IS NULL"),
    ("group by", r"(^|,)\s*session$", r"\(", "sessions are WINDOW SESSION 10 s"),
    ("group by", r"(^|,)\s*(?!hop$|tumble$|cube$|rollup$)\w+$", r"\(", _GROUPS),
    ("group by", r"(^|,)$", r"\d", "name the attributes: GROUP BY x"),
    ("order by", "", "$|[a-z]", f"{_TOP}; results have no other order than that of time"),
    ("window", "^$", r"\d", "WINDOW TUMBLING 10 s, SLIDING 10 s EVERY 5 s, SESSION 10 s, ROWS 9"),
    ("window", "^$", r"(count|events)\b", _ROWS),
    ("window", r"^(tumbling|sliding|session)$", r"(with\b|gap\b|size\b|of\b|\()",
     "only its length goes after it: WINDOW SESSION 10 s"),
    ("window", r"^sliding\b", r"(slide|by|hop|advance|step)\b", _SLIDING),
    ("window", r"^rows\s+\d+$", r"(slide|by|hop|advance|step)\b", _OVER),
    ("window|within", "", "'", f"{_LENGTH}, without quotes"),
    ("window", r"\w$", r"into\b", _REMEDIES["insert"]),
    ("emit( on)?", "", "", _EARLY),
    ("emit at most", "", "", "as in EMIT AT MOST 1 EVERY 1 h BY k, or without BY"),
    ("window", r"^rows$", r"between\b", _OVER),
    ("window", r"^sliding\b(?!.*\bevery\b)", "$|,", _SLIDING),
    ("window|within", r"(^|tumbling|sliding|session|rows|every)$", r"\(",
     "no parentheses here: WINDOW TUMBLING 10 s"),
    ("window", "", r"with\s+watermark\b", _LATE),
    (_IN_PATTERN, "", r"select\b", "what a match gives is RETURN a.v, b.v - a.v AS gain"),
    (_IN_PATTERN, "", r"group\s+by\b", _KEYS),
    (_IN_PATTERN, "", r"order\s+by\b", "by time they come with --barrier punctuation,ordered"),
    (_IN_PATTERN, "", r"having\b", "conditions go in WHERE, of all events too: count(b) > 3"),
    (_IN_PATTERN, "", r"window\b", f"WITHIN 10 s bounds a match; to count matches {_NEXT}"),
    (_IN_PATTERN, "", r"(allowed|with)\b",
     "how late events come is said beside the query: --order kslack:5s, --purge late:1min"),
    ("event", "", r"for\b", "a match takes at most so long: WITHIN 10 s"),
    ("within|partition by", "", r"(and|or)\b", "conditions go after WHERE"),
    (".*", r"\($", r"select\b", _NEXT),
    (".*", r"\.$", r"\*", "all attributes are RETURN * of a pattern, SELECT * of rows and joins"),
    (".*", r"\[\s*i$", r"\+", "pairs are a[i - 1] and a[i]"),
    (".*", "", r"(after\s+match\s+)?skip\b", _SKIP),
    (".*", "", r"for\s+system_time\b",
     "the last one before: EVENT SEQ(RATE r, !RATE n, ORDER o) WHERE r.k = o.k AND n.k = o.k"),
    (".*", r"\binterval$", "'", _LENGTH),
    (".*", r"\btimestamp$", "'", _REMEDIES["timestamp"]),
    (".*", r"\bunion$", r"all\b", _REMEDIES["union"]),
    (".*", r"\bcast\s*\([^()]*$", r"as\b",
     "leave CAST out: attributes have the types that they come with"),
    (".*", r"\bextract\s*\(\s*\w+$", r"from\b", "hour(raw_ts), minute(raw_ts), year(raw_ts)"),
    (".*", r"\btimer$", r":\s*interval", "nothing for so long is SEQ(A a, !B b) WITHIN 10 s"),
    (".*", r"\btimer$", ":", "a match takes at most so long: WITHIN 10 s"),
    ("return", r"[\w)]$", "[a-z_']", "a name goes after AS: a.v AS name"),
    (".*", r"\w$", r":\s*\w+\s*\(", "functions have no prefix: abs(v)"),
))  # fmt: skip


def said_here(before: str, rest: str) -> str:
    """Return the remedy for the text at the start of ``rest``; empty if none is known.

    Args:
        before: the query before that place.
        rest: the text from the first unexpected token on; empty at the end of the query.
    """
    clause, inside, here = *_clause(before), rest[:_LOOKED_BACK].lower()
    for habit in _HABITS:
        if (
            re.fullmatch(habit.clause, clause)
            and re.search(habit.before, inside)
            and re.match(habit.rest, here)
        ):
            return habit.remedy
    behind = re.search(r"(\w+)$", inside)
    if behind is not None and re.match(r"[(\[0-9]", rest):
        return _REMEDIES.get(behind.group(1), "")
    word = re.match(r"\w+|->|\|\||&&|/\*|#\s|\.[0-9]|[|&^~]", here)
    said = word.group() if word else ""
    return _REMEDIES.get(said[:1] if said[:1] in "#." else said, "")


def _clause(before: str) -> tuple[str, str]:
    """Return the first word of the last clause in ``before``, and the end of that clause's text."""
    found = list(_CLAUSE.finditer(before))
    word, end = (found[-1].group(), found[-1].end()) if found else ("", 0)
    return " ".join(word.lower().split()), before[end:].strip().lower()[-_LOOKED_BACK:]


# Rewrites of whole statements of other languages, for cases without ambiguity.


_REWRITTEN_MAX: Final = 2_000
"""Most characters of a rewritten text; the regular expressions are slow on long texts."""
_TIME: Final = r"(\d+\s*[a-z]+)"
_TABLE: Final = r"(?:\bTABLE\s*\(\s*)?\b"
_DESCRIBED: Final = (
    r"\s*\(\s*TABLE\s+(\w+)(\s+PARTITION\s+BY\s+\w+)?\s*,\s*DESCRIPTOR\s*\(\s*\w+\s*\)"
    rf"\s*,\s*{_TIME}"
)
"""Windows in Flink: the table, its partition key, and a length."""
_NUMBERED: Final = (
    r"(?:date_trunc\s*\(\s*'(?P<unit>\w+)'|time_bucket\s*\(\s*'?(?P<length>\d+\s*\w+)'?)"
    r"\s*,\s*[\w.]+\s*\)"
)
"""The unit that a time is truncated to."""
_BY: Final = r"\bGROUP\s+BY\s+(?P<keys>(?:\w+\s*,\s*)*)"
_NO_FROM: Final = r"(?:(?!\bFROM\b).)*?"
_FROM: Final = rf"(?:\s+FROM\s+(?P<stream>\w+)(?P<where>{_NO_FROM}))?\s*"
_OVER_OF: Final = r"\s*OVER\s*\(\s*(?:PARTITION\s+BY\s+(?P<key>\w+)\s*)?(?:ORDER\s+BY\s+\w+\s*)?"
_WHOLE: Final = r"(?:(?:tiny|small|big)?int(?:eger)?\d*|long)\b"
_CAST: Final = r"\b(?:TRY_)?CAST\s*\(\s*([\w.]+)\s+AS\s+"
_THREE: Final = r"\s*\(([^(),]*),([^(),]*),([^(),]*)\)"
_TWO: Final = r"\s*\(([^(),]*),([^(),]*)\)"


def _window(found: re.Match[str]) -> str:
    """Return a GROUP BY on a truncated time as a window."""
    of = found.groupdict()
    length = of["length"] or f"1 {of['unit']}"
    return f"{of.get('between', '')}GROUP BY {of['keys']} WINDOW TUMBLING {length}"


def _of_group(found: re.Match[str]) -> str:
    return f" GROUP BY {found['key']}" if found["key"] else ""


def _seconds(found: re.Match[str]) -> str:
    """Return an instant in UTC as a number with a unit."""
    try:
        return f"{timegm(datetime.fromisoformat(found[1]).timetuple())} s"
    except ValueError:
        return found[0]  # no date


def _neighbours(found: re.Match[str]) -> str:
    """Return LAG or LEAD as windows of two rows."""
    of, lags = found["of"], found["word"].lower() != "lead"
    names = ("previous", of) if lags else (of, "next")
    values = (
        f"first({of}) AS {names[0]}, last({of}) AS {names[1]}, last({of}) - first({of}) AS change"
    )
    stream = found["stream"] or "events"
    return " ".join(("SELECT", values, "FROM", stream, _of_group(found), "WINDOW ROWS 2 EVERY 1"))


def _similar(found: re.Match[str]) -> str:
    """Return SIMILAR TO as a regular expression over the whole text."""
    plain = found[3].replace(".", "\\.").replace("%", ".*").replace("_", ".")
    return f"{found[2] or ''}regexp_like({found[1]}, '^({plain})$')"


def _stream(found: re.Match[str]) -> str:
    """Return a GROUP BY on an expression as a stream that computes it."""
    of = found.groupdict()
    name = of.get("name") or "g"
    items = of["items"].replace(of["value"], name)
    known = rf"(?:{name}\b|\w+\((?:\*|\w+)\)|\s*,\s*|\s+AS\s+\w+)+\s*"
    if not re.fullmatch(known, items, re.IGNORECASE):
        return found[0]  # who knows which attributes it takes
    taken = dict.fromkeys(re.findall(r"\((\w+)\)", items + of["tail"]))
    made = ", ".join((*taken, f"{of['value']} AS {name}"))
    stream = f"FROM {of['stream'] or 'events'}{of['where'] or ''}".rstrip()
    return f"CREATE STREAM t AS SELECT {made} {stream}; " + " ".join(
        ("SELECT", items, "FROM t GROUP BY", name, of["tail"])
    )


_WORDS_OF: Final[tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...]] = (
    (r"(?:\b(?:TIMESTAMP|DATE)\s*)?'(\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d)?)?)Z?'", _seconds),
    (r"\bINTERVAL\s+'?(\d+)'?\s*([a-z]+)'?", r"\1 \2"),
    (rf"\b(TUMBLING|SESSION|SLIDING|EVERY|WITHIN)\s*'{_TIME}'", r"\1 \2"),
    (rf"\b(TUMBLING|SESSION)\s*\(\s*(?:SIZE|GAP|OF)?\s*{_TIME}\s*\)", r"\1 \2"),
    (r"\b(TUMBLING|SESSION)\s+(?:SIZE|(?:WITH\s+)?GAP|OF)\s+(\d)", r"\1 \2"),
    ((rf"\b(?:HOPPING|SLIDING)\s*\(?\s*(?:SIZE\s+)?{_TIME}\s*,?\s*"
      rf"(?:ADVANCE\s+BY|ADVANCE|SLIDE|HOP|BY|STEP|EVERY)?\s*{_TIME}\s*\)?"),
     r"SLIDING \1 EVERY \2"),
    (r"^SELECT\s+window\s*,", "SELECT "),
    ((r"\b(GROUP\s+BY\s+)((?:window|time|date_trunc|time_bucket)\s*\([^()]*\))\s*,\s*"
      r"([\w, ]+?)(?=\s*$|\s+\w+\s+BY\b)"), r"\1\3, \2"),
    (rf"{_BY}window\s*\(\s*\w+\s*,\s*'{_TIME}'\s*\)", r"GROUP BY \g<keys> WINDOW TUMBLING \2"),
    (rf"{_BY}window\s*\(\s*\w+\s*,\s*'{_TIME}'\s*,\s*'{_TIME}'\s*\)",
     r"GROUP BY \g<keys> WINDOW SLIDING \2 EVERY \3"),
    (rf"{_BY}time\s*\(\s*{_TIME}\s*\)", r"GROUP BY \g<keys> WINDOW TUMBLING \2"),
    (rf"\bSAMPLE\s+BY\s+{_TIME}", r"WINDOW TUMBLING \1"), (r"\b(TUMBLING\s+\d+)m\b", r"\1 min"),
    (rf"{_TABLE}TUMBLE{_DESCRIBED}\s*\)\s*\)?", r"\1 WINDOW TUMBLING \3"),
    (rf"{_TABLE}HOP{_DESCRIBED}\s*,\s*{_TIME}\s*\)\s*\)?", r"\1 WINDOW SLIDING \4 EVERY \3"),
    (rf"{_TABLE}SESSION{_DESCRIBED}\s*\)\s*\)?", r"\1 WINDOW SESSION \3"),
    (rf"\bTUMBLE\s*\(\s*(?:\w+\s*,\s*)?{_TIME}\s*\)", r"WINDOW TUMBLING \1"),
    (rf"\bSESSION\s*\(\s*\w+\s*,\s*{_TIME}\s*\)", r"WINDOW SESSION \1"),
    (rf"\bHOP\s*\(\s*\w+\s*,\s*{_TIME}\s*,\s*{_TIME}\s*\)", r"WINDOW SLIDING \2 EVERY \1"),
    (rf"{_NUMBERED}\s+AS\s+(?P<name>\w+)\s*,?\s*(?P<between>.*?){_BY}(?:(?P=name)|1)\b", _window),
    ((rf"{_NUMBERED}\s*,?\s*(?P<between>\S.*?){_BY}"
      r"(?:(?:date_trunc|time_bucket)\s*\([^()]*\)|1\b)"), _window),
    (rf"{_BY}{_NUMBERED}", _window),
    (r"\bwindow_(?:start|end)\b\s*,?", ""),
    (r",\s*(?=WINDOW\b|HAVING\b|FROM\b|$)", " "),
    (r"\bGROUP\s+BY\s*(?=$|WINDOW\b|HAVING\b)", ""),
    (rf"{_CAST}{_WHOLE}\s*\)", r"round(\1)"),
    (rf"{_CAST}[\w ]+(?:\([\d, ]+\))?\s*\)", r"\1"),
    (rf"([\w.]+)::{_WHOLE}", r"round(\1)"),
    (r"([\w.]+)::\w+", r"\1"),
    ((r"\bpercentile_(?:cont|disc)\s*\(\s*([\d.]+)\s*\)\s*WITHIN\s+GROUP\s*\(\s*ORDER\s+BY\s+"
      r"([\w.]+)(?:\s+ASC)?\s*\)"), r"quantile(\2, \1)"),
    ((rf"^SELECT\b{_NO_FROM}\b(?P<word>LAG|PREV|LEAD)\s*\(\s*(?P<of>\w+)\s*(?:,\s*1\s*)?\)"
      rf"(?:{_OVER_OF}\))?{_NO_FROM}(?:\s+FROM\s+(?P<stream>\w+))?\s*$"), _neighbours),
    ((rf"{_OVER_OF}ROWS\s+(?:BETWEEN\s+)?(?P<rows>\d{{1,4}})\s+PRECEDING"
      r"(?:\s+AND\s+CURRENT\s+ROW)?\s*\)(?P<rest>.*)$"),
     lambda found: (
         f"{found['rest']}{_of_group(found)} WINDOW ROWS {int(found['rows']) + 1} EVERY 1")),
    (rf"\b(?:if|iif|iff|ifThenElse){_THREE}", r"CASE WHEN \1 THEN \2 ELSE \3 END"),
    (r"\b(?:power|pow)\s*\(\s*([\w.]+)\s*,\s*2\s*\)", r"(\1 * \1)"),
    (r"\b(?:power|pow)\s*\(\s*([\w.]+)\s*,\s*3\s*\)", r"(\1 * \1 * \1)"),
    (r"([\w.]+)\s*(?:\*\*|\^)\s*2\b", r"(\1 * \1)"),
    (rf"\bmod{_TWO}", r"(\1 % \2)"),
    (rf"\bnullif{_TWO}", r"CASE WHEN \1 = \2 THEN NULL ELSE \1 END"),
    (r"\bcount\s*\(\s*\*\s*\)\s*FILTER\s*\(\s*WHERE\s+([^()]*)\)",
     r"sum(CASE WHEN \1 THEN 1 ELSE 0 END)"),
    (r"\bcount_?if\s*\(([^(),]*)\)", r"sum(CASE WHEN \1 THEN 1 ELSE 0 END)"),
    (r"\b(sum|avg|min|max|count)\s*\(([\w.]+)\)\s*FILTER\s*\(\s*WHERE\s+([^()]*)\)",
     r"\1(CASE WHEN \3 THEN \2 ELSE NULL END)"),
    (rf"\b({'|'.join(RENAMED)})(?=\s*\()", lambda found: RENAMED[found[1].lower()]),
    (r"\bEXTRACT\s*\(\s*(\w+)\s+FROM\s+ts\s*\)", r"\1(raw_ts)"),
    (r"\bdate_part\s*\(\s*'(\w+)'\s*,\s*ts\s*\)", r"\1(raw_ts)"),
    (r"([\w.]+)\s+(?:~|RLIKE|REGEXP)\s*('[^']*')", r"regexp_like(\1, \2)"),
    (r"([\w.]+)\s+(NOT\s+)?SIMILAR\s+TO\s+'([^']*)'", _similar),
    (r"\bsqrt\s*\(([^()]+)\)\s*(>=?)\s*(\d+(?:\.\d+)?)(?![\w.]|\s*[-+*/%])",
     lambda found: f"{found[1]} {found[2]} {Decimal(found[3]) ** 2}"),
    (r"\bFROM\s+(\w+)\s*,\s*(\w+)\s+WHERE\b(?=.*\b(?:\1\.\w+\s*=\s*\2|\2\.\w+\s*=\s*\1)\.)",
     r"FROM \1 JOIN \2 ON"),
    (rf"(\bJOIN\b(?!.*\bWITHIN\b).*\bAND\s+[\w.]+\s*\+\s*{_TIME})\s*$", r"\1 WITHIN \2"),
    (r"([\w.]+)\s+ILIKE\s+('[^']*')",
     lambda found: f"upper({found[1]}) LIKE {found[2].upper()}"),
    (r"\bFROM\s+(\w+)\s+JOIN\s+(\w+)\s+USING\s*\(\s*(\w+)\s*\)",
     r"FROM \1 JOIN \2 ON \1.\3 = \2.\3"),
    ((r"\bFROM\s+(\w+)\s+(?:AS\s+)?(\w+)((?:\s+(?:INNER|LEFT|RIGHT|FULL|ANTI))?\s+JOIN)\s+(\w+)\s+"
      r"(?:AS\s+)?(\w+)\s+USING\s*\(\s*(\w+)\s*\)"), r"FROM \1 \2\3 \4 \5 ON \2.\6 = \5.\6"),
    (r"\bFROM\s+(\w+)\s+(?:AS\s+)?(\w+)\s*,\s*(\w+)\s+(?:AS\s+)?(\w+)\s+WHERE\b",
     r"FROM \1 \2 JOIN \3 \4 ON"),
    (r"\(\(([\w.]+(?: \* [\w.]+)+)\)\)", r"(\1)"),
    (r"\bbool_or\s*\(([^()]*)\)", r"max(CASE WHEN \1 THEN 1 ELSE 0 END)"),
    (r"\bbool_and\s*\(([^()]*)\)", r"min(CASE WHEN \1 THEN 1 ELSE 0 END)"),
    (r"\bAS\s+'(\w+)'", r"AS \1"),
    (r"^SELECT\s+(\w+)\s*,(.*\bGROUP\s+BY\s+)(?:1|ALL)\b", r"SELECT \1,\2\1"),
    (r"^SELECT\s+DISTINCT\s+(\w+)(.*)$", r"SELECT \1, count(*)\2 GROUP BY \1"),
    (r"\b(?!END\b)(\w+)\s+AS\s+(\w+)\b(.*\bGROUP\s+BY\s+(?:\w+\s*,\s*)*)\2\b", r"\1\3\1"),
    ((r"^SELECT\s+(?P<value>CASE\b.*?\bEND|[\w.]+\s*[-+*/%]\s*[\w.]+|\w+\s*\([^()]*\))\s+AS\s+"
      rf"(?P<name>\w+)\s*,\s*(?P<items>{_NO_FROM}){_FROM}\bGROUP\s+BY\s+(?P=name)\b(?P<tail>.*)$"),
     _stream),
    ((rf"^SELECT\s+(?P<items>{_NO_FROM}){_FROM}\bGROUP\s+BY\s+"
      r"(?P<value>CASE\b.*?\bEND|\w+\s*\([^()]*\))(?P<tail>.*)$"), _stream),
)  # fmt: skip


def in_our_words(text: str) -> str:
    """Return ``text`` with the syntax of other languages replaced, where that is unambiguous.

    >>> in_our_words("SELECT avg(v::int) FROM s WINDOW TUMBLING (SIZE 5 MINUTES)")
    'SELECT avg(round(v)) FROM s WINDOW TUMBLING 5 MINUTES'
    """
    text = " ".join(text.split())
    plain = len(text) <= _REWRITTEN_MAX and "--" not in text  # a comment ends with its line
    for pattern, made in _WORDS_OF if plain else ():
        text = " ".join(re.sub(pattern, made, text, flags=re.IGNORECASE).split())
    return text
