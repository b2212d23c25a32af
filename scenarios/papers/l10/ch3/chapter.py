"""L10 chapter 3: patterns under a constraint, without a check, with the basic and the light one."""

from slackwater.paper import Paper, Reproduction
from slackwater.scenarios.papers.l10.ch3 import figures
from slackwater.scenarios.papers.verdicts import decided

_DATA = (
    "Generated: items in a supply chain of 26 types, 16 of them optional or exclusive choices, "
    "some 19 events each, 100,000 items. The paper has 5 GB after a model of Huang and Gupta's, of "
    "which it prints one figure."
)
_QUERIES = (
    "Six steps each. By pattern: one step is optional, and 0, 20, ..., 80 % of the items have it, "
    "or all. By predicate: a condition on the third step, true of so many. The paper names neither "
    "its queries nor where their conditions stand, and the times until it is known depend on that."
)
_WAYS = (
    "Without constraints: stacks as in L10 4.2, whose last step's event makes the matches "
    "(Algorithm 4). Basic and light: Algorithms 1 and 2 in front of the same search (Algorithm 5), "
    "by the engine's own automata; what can no longer match is left, and what is certain is not "
    "asked again. "
    "Derivatives are found beforehand and compared as numbers; compared at each change of a "
    "state (Hopcroft and Karp), the basic check took some 400 times as long as the whole search."
)
_COST = (
    "Time of the processor, the least of 25 passes that take turns. Until it is known: of a pass "
    "that leaves each trace at the event with which it is known whether it matches. Memory: events "
    "on stacks, summed up over all events and divided by their number."
)
_ENTRIES = {
    "figure-3.6": ("Memory, by the pattern's selectivity", figures.pattern_memory),
    "figure-3.7": ("Time, by the pattern's selectivity", figures.pattern_time),
    "figure-3.8": ("Determination time, by the pattern's selectivity", figures.pattern_known),
    "figure-3.9": ("Memory, by the predicate's selectivity", figures.predicate_memory),
    "figure-3.10": ("Time, by the predicate's selectivity", figures.predicate_time),
    "figure-3.11": ("Determination time, by the predicate's selectivity", figures.predicate_known),
}


def chapter() -> Paper:
    """The evaluation of L10 3.4."""
    return Paper(
        title="L10 chapter 3: patterns under a constraint",
        citation="M. Li, Robust Complex Event Pattern Detection over Streams, dissertation, "
        "Worcester Polytechnic Institute 2010, chapter 3",
        setting={"data": _DATA, "queries": _QUERIES, "ways": _WAYS, "cost": _COST},
        reproductions={
            name: Reproduction(title, decided(make)) for name, (title, make) in _ENTRIES.items()
        },
        sizes="sizes of our own",
    )
