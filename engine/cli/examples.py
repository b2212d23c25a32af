"""Examples below each command's help. A test runs every one of them."""

from __future__ import annotations

from typing import Final

EXAMPLES: Final[dict[str, tuple[str, ...]]] = {
    "slackwater": (
        "slackwater run soccer --in-process",
        "slackwater query 'SELECT count(*) FROM events WINDOW TUMBLING 1 s' --input trace.jsonl",
    ),
    "run": (
        "slackwater run soccer",
        "slackwater run bookstore --in-process --set duration=12h --out out/shop",
        "slackwater run soccer --resume",
        "slackwater run shop.toml --in-process --set duration=30s --out out/mine",
    ),
    "simulate": ("slackwater simulate soccer --set duration=5s --out short.log",),
    "new": ("slackwater new mine.toml",),
    "check": (
        "slackwater check shop.toml",
        "slackwater check shop.toml --set link.loss=0.1",
        "slackwater check --metrics",
    ),
    "look": ("slackwater look rows.csv",),
    "query": (
        "slackwater query 'EVENT SEQ(A a, B b) WITHIN 5 s' --input trace.jsonl --time-unit ms",
        "slackwater query 'SELECT avg(v) FROM events WINDOW TUMBLING 1 s' --input rows.csv",
        "slackwater query 'EXPLAIN EVENT SEQ(A a, !C c, B b) WITHIN 5 s' --barrier bounded:1s",
        "slackwater query @query.txt --input short.log --spark",
    ),
    "order": (
        "slackwater order --input trace.jsonl --time-unit ms --out ordered.jsonl",
        "slackwater order --input rows.csv --order kslack:200ms --late late.jsonl",
        "slackwater order --input rows.csv --report story --out ordered.jsonl",
    ),
    "compare": (
        "slackwater compare --input short.log",
        "slackwater compare --input short.log --order none --order kslack:200ms --out compared",
    ),
    "paper": (
        "slackwater paper",
        "slackwater paper r19/table-5.13",
    ),
    "agent": ("slackwater agent check agent.toml",),
    "serve": ("slackwater serve --config site.toml --check",),
    "emulate": ("slackwater emulate links.toml --check",),
    "validate": (
        "slackwater validate --log short.log --query 'EVENT SEQ(A a, B b) WITHIN 5 s'",
        "slackwater validate --two-logs short.log short.log",
    ),
    "clocks": (
        "slackwater clocks short.log",
        "slackwater clocks trace.jsonl --time-unit ms --out clocks",
    ),
    "log": (
        "slackwater log import rows.csv --time-unit us --out rows.log",
        "slackwater log show rows.log",
    ),
    "log import": ("slackwater log import rows.csv --map ts=when --time-unit us --out rows.log",),
    "log export": ("slackwater log export short.log --out short.csv",),
    "log merge": (
        "slackwater log export short.log --out copy.jsonl",
        "slackwater log import copy.jsonl --out copy.log",
        "slackwater log merge short.log copy.log --apart 5ms --out both.log",
    ),
    "log forget": (
        "slackwater log import rows.csv --time-unit us --out door.log",
        "slackwater log forget door.log main/s1",
    ),
    "log show": ("slackwater log show trace.jsonl --time-unit ms",),
    "doctor": ("slackwater doctor",),
    "docs": ("slackwater docs",),
    "warm": ("slackwater warm",),
}


def epilog(command: str) -> str:
    """The examples of ``command`` as shown below its help."""
    return "\b\n" + "\n".join(["Examples:", *(f"  {line}" for line in EXAMPLES[command])])
