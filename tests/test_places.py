"""Places to touch for a new order, barrier, operator or kind of results: its file and one line.

What names a class of plan, an order's settings, a barrier or a kind of results elsewhere would have
to be touched, too. ``docs/how-to.md`` shows each.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from slackwater.engine.barrier.registry import BARRIERS
from slackwater.engine.hosts.chain.operators import OPERATORS
from slackwater.engine.order.registry import ORDERS, settings_named
from slackwater.engine.output.result_kinds import KINDS

ROOT = Path(__file__).resolve().parent.parent
OPERATOR_ROOMS = tuple(
    f"engine/operators/{room}/" for room in ("cascade", "constraint", "grouping", "match", "window")
)
"""Operators know their own plan."""
CHOOSES = {
    "engine/apps/compare/comparison.py": "sequence's default latency is the family's",
}
"""Who picks one on purpose, as a user does."""


@cache
def trees() -> dict[str, ast.Module]:
    files = [file for top in ("engine", "slackwater") for file in (ROOT / top).rglob("*.py")]
    return {
        file.relative_to(ROOT).as_posix(): ast.parse(file.read_text(encoding="utf-8"))
        for file in sorted(files)
    }


def imported(tree: ast.Module) -> set[str]:
    """Names that a module imports from others."""
    return {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def naming(names: set[str], *own: str) -> dict[str, set[str]]:
    """Files that import one of ``names``, but for those of ``own`` folders and files."""
    found = {file: imported(tree) & names for file, tree in trees().items()}
    return {file: used for file, used in found.items() if used and not file.startswith(own)}


def compared(texts: set[str]) -> Iterator[str]:
    """Places that compare something called a name with one of ``texts``."""
    for file, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Compare) and "name" in ast.unparse(node.left):
                said = [each for side in node.comparators for each in ast.walk(side)]
                if texts & {each.value for each in said if isinstance(each, ast.Constant)}:
                    yield f"{file}:{node.lineno}"


def test_plans_are_known_to_the_query_language_and_their_operators_alone() -> None:
    plans = {plan.__name__ for plan in OPERATORS}
    public = "slackwater/grouping.py"  # Python code builds this plan
    own = ("engine/query/", "engine/hosts/chain/operators.py", public, *OPERATOR_ROOMS)
    assert naming(plans, *own) == {}


def test_nobody_but_the_registry_asks_what_class_a_plan_is() -> None:
    plans = {plan.__name__ for plan in OPERATORS}
    asking = [
        f"{file}:{node.lineno}"
        for file, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in {"isinstance", "issubclass"}
        and plans & {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        and not file.startswith(("engine/query/", "engine/hosts/chain/operators.py"))
    ]
    assert asking == []


def test_an_order_is_named_in_its_file_and_the_registry() -> None:
    made = {settings_named(name) for name in ORDERS}
    settings = {each.__name__ for each in made}
    own = {each.__module__.removeprefix("slackwater.").replace(".", "/") + ".py" for each in made}
    others = naming(settings, "engine/order/registry.py", *own)
    assert {file for file in others if not file.startswith("engine/order/slack/aq_")} == {*CHOOSES}
    assert len(made) == len(ORDERS)


def test_a_barrier_is_named_in_its_file_and_the_registry() -> None:
    own = {"registry", "base", "changes", "stage"}
    others = {
        (file, node.module)
        for file, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith("slackwater.engine.barrier.")
        and (node.module or "").split(".")[-1] not in own
        and not file.startswith("engine/barrier/")
    }  # fmt: skip
    assert others == set()
    places = {place.partition(":")[0] for place in compared({*BARRIERS})}
    assert places == {"engine/barrier/registry.py"}


def test_a_kind_of_results_is_named_in_its_registry_and_by_its_operator() -> None:
    kinds = {f"{name}".upper() for name in KINDS}
    own = ("engine/output/", *OPERATOR_ROOMS)
    # The DataFrame step has one schema for all kinds; an alert's columns are in it if asked for.
    assert naming(kinds, *own) == {"engine/hosts/spark/dataframe.py": {"ALERTS", "ITEMS"}}
