"""L10: Li 2010, robust detection of event patterns; one folder per reproduced chapter."""

from slackwater.paper import Paper, joined
from slackwater.scenarios.papers.l10.ch3 import chapter as ch3
from slackwater.scenarios.papers.l10.ch4 import chapter as ch4
from slackwater.scenarios.papers.l10.ch5 import chapter as ch5


def paper() -> Paper:
    """The evaluation of L10, chapter by chapter."""
    return joined(
        "L10: robust detection of event patterns",
        "M. Li, Robust Complex Event Pattern Detection over Streams, dissertation, Worcester "
        "Polytechnic Institute 2010",
        {"ch3": ch3.chapter(), "ch4": ch4.chapter(), "ch5": ch5.chapter()},
    )
