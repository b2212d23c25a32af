"""From the parts of an EVENT query to its plan, and the way into the analysis of both kinds.

Whatever the grammar reads but this version has no operator for is refused here, with its place.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from engine.errors import UserError
from engine.query import syntax as s
from engine.query.clauses import only, unsupported
from engine.query.conditions import Context, duration_ns
from engine.query.fields import OWN, attribute_name
from engine.query.parse import parse
from engine.query.place import Span, closest, listed, refuse
from engine.query.plan import Attribute, Plan, SeqPlan, Step
from engine.query.selection import select_plan
from engine.query.split import split
from engine.units import unit_ns


def query(text: str, time_unit: str = "ns", name: str | None = None) -> Plan:
    """The plan of the query ``text``, named ``name`` (default ``q1``).

    Numbers without a unit that stand for times are in ``time_unit``.

    >>> plan = query("EVENT SEQ(A a, B b) WHERE a.id = b.id WITHIN 5 s")
    >>> plan.equalities
    ((Attribute(name='id', alias='a'), Attribute(name='id', alias='b')),)

    Raises:
        UserError: the query is at fault; the message has its line, a caret and a remedy.
    """
    return analyse(parse(text), text, time_unit, "q1" if name is None else name)


def analyse(parsed: s.Query, text: str, time_unit: str = "ns", name: str = "q1") -> Plan:
    """The plan of a parsed query.

    Raises:
        UserError: names, clauses or conditions are at fault.
    """
    unit_ns(time_unit)
    if isinstance(parsed, s.SelectQuery):
        return select_plan(parsed, text, time_unit, name)
    return _Pattern(parsed, text, time_unit).plan(name)


STEPS_MAX: Final = 60
"""An operator keeps one bit per step in 64 bits."""


class _Pattern:
    """The analysis of one EVENT query."""

    def __init__(self, parsed: s.EventQuery, text: str, time_unit: str) -> None:
        self.parsed = parsed
        self.text = text
        self.context = Context(text, time_unit, self._resolve)
        self.steps: dict[str, Step] = {}
        self.negated_at: dict[str, Span] = {}

    def plan(self, name: str) -> SeqPlan:
        """Checks names before conditions: a wrong alias is the commoner mistake."""
        where, within, realtime, returns = self._clauses()
        self._collect(self.parsed.pattern, negated=False)
        steps = list(self.steps.values())
        if all(step.negated for step in steps):
            hint = "at least one step must occur for a match to exist"
            raise self._refuse(self.parsed.pattern.at, "every step is negated", hint)
        if within is None:
            self._check_scopes(steps)
        parts = split(where.condition if where else None, steps, self.context)
        width = None
        if within is not None:
            width = duration_ns(within.duration, self.context, "WITHIN")
        return SeqPlan(
            name=name,
            text=self.text,
            steps=tuple(replace(step, where=parts.where.get(step.alias)) for step in steps),
            equalities=parts.equalities,
            others=parts.others,
            within_ns=width,
            returns=self._returns(returns),
            realtime=self._realtime(realtime),
        )

    def _check_scopes(self, steps: list[Step]) -> None:
        """Without WITHIN nothing bounds the scope of a negated step at either end."""
        for end in (steps[0], steps[-1]):
            if end.negated:
                message = f"{end.alias!r} is negated and stands at an end: nothing says how far"
                hint = "add WITHIN: it must not occur that long before the last, or after the first"
                raise self._refuse(self.negated_at[end.alias], message, hint)

    def _refuse(self, at: Span, message: str, hint: str = "") -> UserError:
        return refuse(self.text, at, message, hint)

    def _clauses(
        self,
    ) -> tuple[s.Where | None, s.Within | None, s.Realtime | None, s.Returns | None]:
        clauses = self.parsed.clauses
        return (
            only(clauses, s.Where, self.text),
            only(clauses, s.Within, self.text),
            only(clauses, s.Realtime, self.text),
            only(clauses, s.Returns, self.text),
        )

    def _collect(self, node: s.PatternNode, *, negated: bool) -> None:
        """Adds the steps below ``node``; a SEQ inside a SEQ is the same sequence."""
        match node:
            case s.StepNode():
                self._add(node, negated=negated)
            case s.NegatedNode(part=s.StepNode() as step):
                self._add(step, negated=True)
            case s.NegatedNode(part=s.NegatedNode() as inner):
                raise self._refuse(inner.at, "this step is negated twice", "write one !")
            case s.NegatedNode():
                raise unsupported(self.text, node.at, "negation (!) of a group")
            case s.IseqNode():
                raise unsupported(self.text, node.at, "ISEQ")
            case s.GroupNode(op="SEQ"):
                for relation in node.relations:
                    if relation.word != ",":
                        what = f"the relation {relation.word}"
                        raise unsupported(self.text, relation.at, what)
                for part in node.parts:
                    self._collect(part, negated=negated)
            case s.GroupNode():
                raise unsupported(self.text, node.at, f"{node.op}(...) in a pattern")

    def _add(self, node: s.StepNode, *, negated: bool) -> None:
        named = node.alias or node.type
        if named.text == OWN:
            message = f"{OWN!r} cannot name a step: it stands for an event's own attributes"
            raise self._refuse(named.at, message, "give the step another alias")
        if named.text in self.steps:
            hint = f"give each an alias of its own, as in {node.type.text} first"
            raise self._refuse(named.at, f"two steps are named {named.text!r}", hint)
        if len(self.steps) == STEPS_MAX:
            raise self._refuse(named.at, f"a pattern has at most {STEPS_MAX} steps")
        self.steps[named.text] = Step(named.text, node.type.text, negated)
        if negated:
            self.negated_at[named.text] = node.at

    def _resolve(self, reference: s.Reference) -> Attribute:
        parts = reference.parts
        alias, *rest = parts
        if alias.text not in self.steps:
            bare = len(parts) == 1 or (len(parts) == 2 and alias.text == OWN and not alias.quoted)
            if not bare:
                message = f"there is no step named {alias.text!r}"
                raise self._refuse(alias.at, message, self._known_steps(alias.text))
            if len(self.steps) > 1:
                raise self._unqualified(reference)
            return Attribute(self._name(parts, reference), next(iter(self.steps)))
        if not rest:
            message = f"{alias.text!r} is a step, not a value"
            raise self._refuse(alias.at, message, f"name one of its attributes: {alias.text}.ts")
        return Attribute(self._name(tuple(rest), reference), alias.text)

    def _name(self, parts: tuple[s.Name, ...], reference: s.Reference) -> str:
        own = len(parts) == 2 and parts[0].text == OWN and not parts[0].quoted
        if len(parts) > 1 and not own:
            raise self._refuse(reference.at, "too many dots", 'as in a.v, a.attrs.v or a."x.y"')
        return attribute_name(parts[-1].text, own=own)

    def _unqualified(self, reference: s.Reference) -> UserError:
        name = reference.parts[-1]
        written = self.text[name.at[0] : name.at[1]]
        hint = f"write {' or '.join(f'{alias}.{written}' for alias in list(self.steps)[:3])}"
        if name.quoted:
            text = "'" + name.text.replace("'", "''") + "'"
            hint = f"text stands in single quotes: {text}; as an attribute, {hint}"
        message = f"which step's {name.text!r} is meant?"
        return self._refuse(reference.at, message, hint)

    def _known_steps(self, wrong: str) -> str:
        steps = list(self.steps)
        noun = "the steps are" if len(steps) > 1 else "the only step is"
        near = closest(wrong, steps)
        return f"{noun} {listed(steps)}" + (f"; {near}" if near else "")

    def _returns(self, clause: s.Returns | None) -> tuple[Attribute, ...]:
        found: list[Attribute] = []
        for item in clause.items if clause else ():
            if not isinstance(item.value, s.Reference):
                raise unsupported(self.text, item.value.at, "an expression in RETURN")
            if item.label is not None:
                raise unsupported(self.text, item.label.at, "AS in RETURN")
            attribute = self._resolve(item.value)
            assert attribute.alias is not None
            if self.steps[attribute.alias].negated:
                message = f"{attribute.alias!r} is negated, so no match has it"
                raise self._refuse(item.value.at, message)
            if attribute in found:
                raise self._refuse(item.value.at, "this is returned twice")
            found.append(attribute)
        return tuple(found)

    def _realtime(self, clause: s.Realtime | None) -> int | None:
        if clause is None:
            return None
        if clause.number.text not in {"0", "1"}:
            hint = "0 waits until results are correct, 1 gives them at once"
            raise self._refuse(clause.number.at, "REALTIME is 0 or 1", hint)
        return int(clause.number.text)
