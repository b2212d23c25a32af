"""What other systems' languages have, and how it is said here.

Who comes from Flink SQL, Siddhi or Esper writes their words first; a list of what may stand in
that place would not tell them that the thing itself is there.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

_PATTERN: Final = "a pattern is EVENT SEQ(A a, B+ b[]) WHERE ... WITHIN 10 s RETURN a.v"
_LENGTH: Final = "a length of time is a number and its unit: 10 s, 1 min 30 s"
_NEXT: Final = "read its results in another statement: CREATE STREAM name AS ...; ..."
_SLIDING: Final = "windows that overlap are WINDOW SLIDING 10 s EVERY 5 s"
_TUMBLING: Final = "windows side by side are WINDOW TUMBLING 10 s, behind GROUP BY"
_ROWS: Final = "windows of so many events are WINDOW ROWS 100"
_OVER: Final = "of the last 5 events of each group: GROUP BY g WINDOW ROWS 5 EVERY 1"
_TOP: Final = "the first 3 groups of a window: ORDER BY sum(v) DESC LIMIT 3"
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
    "semi": "a row for each pair: JOIN; what has no partner: ANTI JOIN",
    "outer": "write LEFT, RIGHT or FULL before it",
    "natural": "say which attributes are equal: JOIN b ON a.x = b.x",
}
"""Kinds of join in other systems, and what to write for them."""
_SUM: Final = "sum(CASE WHEN v > 3 THEN 1 ELSE 0 END)"
_FIRST: Final = "of the first 3 groups ORDER BY sum(v) DESC LIMIT 3; of a window's events first(v)"
_BEFORE: Final = "of two events one after the other: first(v), last(v) ... WINDOW ROWS 2 EVERY 1"
_DIFFERENT: Final = "count(DISTINCT v)"
_SHARE: Final = "quantile(v, 0.9)"
_TEXTS: Final = "values are not put together: first(v), last(v), count(DISTINCT v)"
AGGREGATES_ELSEWHERE: Final = {
    "distinctcount": _DIFFERENT, "approx_count_distinct": _DIFFERENT,
    "row_number": _FIRST, "rank": _FIRST, "dense_rank": _FIRST, "top": _FIRST,
    "lag": _BEFORE, "lead": _BEFORE, "prev": _BEFORE,
    "ifthenelse": _SUM, "if": _SUM, "iif": _SUM, "countif": _SUM, "count_if": _SUM,
    "percentile": _SHARE, "percentile_cont": _SHARE, "approx_percentile": _SHARE,
    "stddev_pop": "stddev(v), which divides by n", "stddev_samp": "stddev(v), which divides by n",
    "var_pop": "var(v), which divides by n", "var_samp": "var(v), which divides by n",
    "first_value": "first(v)", "firstever": "first(v)", "any_value": "first(v)",
    "last_value": "last(v)", "lastever": "last(v)", "countever": "count(v)",
    "mean": "avg(v)", "average": "avg(v)", "rate": "count(*) / 10, of a window of 10 s",
    "listagg": _TEXTS, "group_concat": _TEXTS, "string_agg": _TEXTS, "collect": _TEXTS,
    "array_agg": _TEXTS,
}  # fmt: skip
"""Aggregates of other systems, and what to write for them."""
_CASE: Final = "CASE WHEN v > 3 THEN 1 ELSE 0 END"
_BEGINS: Final = "how a text begins: t LIKE 'ab%'"
_CLOCK: Final = "a query has no clock of its own: WITHIN and WINDOW say how long"
FUNCTIONS_ELSEWHERE: Final = {
    "prev": "of a step that repeats, as A+ a[]: a[i].v > a[i-1].v",
    "lag": "of a step that repeats, as A+ a[]: a[i].v > a[i-1].v",
    "power": "write v * v", "pow": "write v * v", "ifnull": "coalesce(v, 0)",
    "nvl": "coalesce(v, 0)", "if": _CASE, "iff": _CASE, "iif": _CASE, "ifthenelse": _CASE,
    "now": _CLOCK, "current_timestamp": _CLOCK, "substring": _BEGINS, "substr": _BEGINS,
    "concat": "texts are not put together: return both of them",
    "sqrt": "compare with the square: v > 9 for sqrt(v) > 3",
    "char_length": "length(t)", "mod": "v % 3",
    "ceiling": "ceil(v)", "ucase": "upper(t)", "lcase": "lower(t)",
    "regexp": "regexp_like(t, '^x')", "mean": "avg(v), in the SELECT list",
}  # fmt: skip
"""Functions of other systems, and what to write for them."""
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
    """A remedy where one word does not tell what is meant. All are regular expressions.

    Attributes:
        clause: which clause it stands in, by its first word; empty before the first.
        before: text of this clause before the place, without blanks at its end.
        rest: text from the place on.
        remedy: how it is said here; empty: the words around tell.
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
"""Characters: of long queries, what a clause says long before the place tells nothing of it."""
_STEP: Final = r"(^|[(,!])\s*(every\s+)?\w+(\s+\w+)?$"
_NEXT_CLAUSE: Final = r"(from|where|window|within|having|return|(group|order|partition)\s+by)\b"
_IN_PATTERN: Final = "event|within|return|partition by"
_HABITS: Final = tuple(_Habit(*each) for each in (
    ("", "^$", r"from\b", f"SELECT goes before FROM; {_PATTERN}"),
    ("", "^$", r"with\b", f"name the first one, and {_NEXT}"),
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
    """How what stands at the begin of ``rest`` is said here; empty: nothing is known of it.

    Args:
        before: the query up to there.
        rest: the text from what was not understood on; empty at the end of the query.
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
    """The first word of the clause that ``before`` ends in, and the end of what it says."""
    found = list(_CLAUSE.finditer(before))
    word, end = (found[-1].group(), found[-1].end()) if found else ("", 0)
    return " ".join(word.lower().split()), before[end:].strip().lower()[-_LOOKED_BACK:]
