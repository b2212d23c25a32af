"""The report of a pass over anybody's own data: what ``query --report`` and ``order`` write.

Nothing is known of what truly happened, nor of what came before the log; the rest is the page of a
scenario's run, with the answers beside it, by which a later run can be compared.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from slackwater.engine.apps.report.against import EVENTS, keep_events
from slackwater.engine.apps.report.page.document import check_page_folder
from slackwater.engine.apps.report.write import Places, write_report
from slackwater.engine.hosts.options import SEQUENCE, PassRequest
from slackwater.engine.output.export import export_jsonl
from slackwater.engine.output.part_store import PartStore
from slackwater.engine.scenario import Pass, Score

RESULTS: Final = "results.jsonl"
FILES: Final = ("report.html", "report.json", RESULTS, EVENTS, "against.html", "against.json")
"""What a folder of ``--report`` may hold."""
_NAMED: Final = 3


def check_report(into: Path) -> None:
    """Checks before the work what would fail at its end.

    Raises:
        UserError: the folder holds what is not ours.
    """
    check_page_folder(into, FILES, "--report")


def write_own_report(
    asked: PassRequest, made: PartStore, into: Path, *, arrival_given: bool
) -> Any:
    """Writes the report of the pass in ``made`` into the folder ``into``, made if absent.

    Returns:
        what ``report.json`` holds.
    """
    into.mkdir(parents=True, exist_ok=True)
    for name in FILES:
        (into / name).unlink(missing_ok=True)
    queries = {plan.name: plan.text.strip() for plan in asked.plans}
    if queries:
        export_jsonl(made, into / RESULTS, queries=list(queries))
    keep_events(made.directory / "ordered", into)
    order = asked.order or SEQUENCE
    label = order.partition(":")[0]
    name = ", ".join(
        Path(file).name if file != "-" else "standard input" for file in asked.files[:_NAMED]
    )
    if len(asked.files) > _NAMED:
        name += f" and {len(asked.files) - _NAMED} more"
    count = f"{len(queries)} quer{'y' if len(queries) == 1 else 'ies'}" if queries else "Order"
    score = Score((), facts={"excluded": list(asked.excluded)} if asked.excluded else {})
    return write_report(
        into, f"{count} over {name}", f"What is in {name}, as it came and in order.", queries,
        [Pass(label, order, barrier=asked.barrier)], score, {}, asked.command,
        Places({label: made.directory}, into, {}, arrival_given),
    )  # fmt: skip
