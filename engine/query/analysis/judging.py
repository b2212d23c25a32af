"""The aggregates that HAVING and ORDER BY name, whether a query selects them or not."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from engine.query.analysis.typed import Context
from engine.query.language import syntax as s
from engine.query.plan import Aggregate


class JudgingAggregates:
    """Those that are selected, by their calls or their names, and what else is called.

    Args:
        selected: in the query's SELECT list.
        hidden: others that are worked out and not shown, labelled by their calls.
        context: of the query.
        made: the aggregate that a call writes.
    """

    def __init__(
        self,
        selected: Sequence[Aggregate],
        hidden: Sequence[Aggregate],
        context: Context,
        made: Callable[[s.Call], Aggregate],
    ) -> None:
        self.selected = tuple(selected)
        self.hidden = list(hidden)
        self.context = context
        self._made = made

    def label(self, node: s.Call | s.Reference, clause: str) -> str:
        """The label of what ``node`` names in ``clause``; a call that is not selected is hidden
        from now on.

        Raises:
            UserError: it is no aggregate, or another one is named as it would be.
        """
        if isinstance(node, s.Call):
            return self._of_call(node, clause)
        name = node.parts[-1].text
        if len(node.parts) > 1 or name not in [one.label for one in self.selected]:
            hint = "conditions on events and groups stand in WHERE"
            if clause != "HAVING":
                hint = f"{clause} takes aggregates, as in sum(v), or the names of selected ones"
            raise self.context.refuse(node.at, f"{name!r} is none of the aggregates", hint)
        return name

    def _of_call(self, call: s.Call, clause: str) -> str:
        asked = self._made(call)
        for one in (*self.selected, *self.hidden):
            if replace(one, label=asked.label) == asked:
                return one.label
        if asked.label in [one.label for one in (*self.selected, *self.hidden)]:
            message = f"another result is named {asked.label!r}, too"
            hint = f"give it another name with AS, or {clause} could mean either"
            raise self.context.refuse(call.at, message, hint)
        self.hidden.append(asked)
        return asked.label
