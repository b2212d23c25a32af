"""What other systems' languages have, and how it is said here.

Who comes from Flink SQL, Siddhi or Esper writes their words first; a list of what may stand in
that place would not tell them that the thing itself is there.
"""

from __future__ import annotations

import re
from typing import Final

_PATTERN: Final = "a pattern is EVENT SEQ(A a, B+ b[]) WHERE ... WITHIN 10 s RETURN a.v"
_LENGTH: Final = "a length of time is a number and its unit: 10 s, 1 min 30 s"
_NEXT: Final = "read its results in another statement: CREATE STREAM name AS ...; ..."
_SLIDING: Final = "windows that overlap are WINDOW SLIDING 10 s EVERY 5 s"
_TUMBLING: Final = "windows side by side are WINDOW TUMBLING 10 s, behind GROUP BY"
_EARLY: Final = "EMIT ON CHANGE, EMIT EARLY EVERY 1 s or, as without EMIT, ON CLOSE"
_REMEDIES: Final = {
    "hopping": _SLIDING, "hop": _SLIDING, "tumble": _TUMBLING, "table": _TUMBLING,
    "cumulate": "EMIT EARLY EVERY 1 s tells a window before it closes",
    "length": "windows of so many events are WINDOW ROWS 100",
    "using": "say ON a.x = b.x",
    "over": "of the last 5 events of each group: GROUP BY g WINDOW ROWS 5 EVERY 1",
    "filter": "count what holds: sum(CASE WHEN v > 3 THEN 1 ELSE 0 END)",
    "match_recognize": _PATTERN, "pattern": _PATTERN, "measures": _PATTERN, "define": _PATTERN,
    "every": "each event begins a match of its own anyway",
    "top": "the first 3 groups of a window: ORDER BY sum(v) DESC LIMIT 3",
    "semi": "a row for each pair: JOIN; what has no partner: ANTI JOIN",
    "interval": _LENGTH,
    "insert": "CREATE STREAM name AS SELECT ... gives results a name",
    "ilike": "upper(t) LIKE 'X%'", "rlike": "regexp_like(t, '^x')",
    "escape": "\\ stands before a % or _ that is meant itself: LIKE 'a\\%'",
    "skip": "SKIP PAST LAST EVENT or SKIP TO NEXT",
    "changes": _EARLY, "final": _EARLY, "after": _EARLY,
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


def said_here(before: str, rest: str) -> str:
    """How what stands at the begin of ``rest`` is said here; empty: nothing is known of it.

    Args:
        before: the query up to there.
        rest: what was not understood, and what stands behind it.
    """
    behind = re.search(r"(\w+)\s*$", before)
    if behind is not None and re.match(r"[(\[0-9]", rest):
        return _REMEDIES.get(behind.group(1).lower(), "")
    word = re.match(r"\w+|->|\|\||&&|/\*|#\s|\.[0-9]|[|&^]", rest)
    said = word.group().lower() if word else ""
    if said == "limit" and re.match(r"\s*select\b", before, re.IGNORECASE):
        return "ORDER BY sum(v) DESC LIMIT 3 gives the first groups of a window"
    if said == "as" and re.search(r"\bcast\s*\([^()]*$", before, re.IGNORECASE):
        return "leave CAST out: attributes have the types that they come with"
    if said == "after" and not re.search(r"\bemit\s*$", before, re.IGNORECASE):
        return ""
    return _REMEDIES.get(said[:1] if said[:1] in "#." else said, "")
