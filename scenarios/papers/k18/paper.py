"""K18: Kuralenok et al. 2018, the optimistic approach to out-of-order events (section VI)."""

import platform

from slackwater.paper import Paper, Reproduction
from slackwater.scenarios.papers.k18 import latency, overhead, soccer

_DATA = (
    "The paper indexes Wikipedia. Ours is the Python Language Reference as help() shows it, which "
    "every Python ships (pydoc_data.topics; here that of Python "
    f"{platform.python_version()}): runs of paragraphs of some 200 words stand for articles. Words "
    "follow Zipf's law in both."
)
_CLUSTER = (
    "The paper ran on machines of one core each. Ours are simulated, so that no machine changes a "
    "figure: a queue per worker, links that keep their order and take 2 ms on the average. The "
    "dataflow is the engine's own. How long steps take is not printed; ours are 0.3 ms per word of "
    "a document and 0.6 ms per item that a grouping makes or takes back, with which documents take "
    "70 % of the time of 4 workers at 24 per second. The source sends punctuations each 200 ms."
)
_RATIO = (
    "Items that arrive at the barrier, tombstones among them, per valid item. An item that is "
    "retracted and emitted again counts three times."
)
_ENTRIES = {
    "fig-9": ("Overhead by workers and documents per second", overhead.figure),
    "properties": ("What the method guarantees", overhead.properties),
    "in-flight": ("Latency by items in flight", latency.in_flight),
    "punctuations": ("Latency by time between punctuations", latency.punctuations),
    "soccer": ("Moving statistics over soccer", soccer.moving),
}


def paper() -> Paper:
    """The evaluation of K18: its figure and the claims in its text."""
    return Paper(
        title="K18: the optimistic approach",
        citation="I. E. Kuralenok, N. Marshalkin, A. Trofimov, B. Novikov, An optimistic approach "
        "to handle out-of-order events within analytical stream processing, 2018, section VI",
        setting={"data": _DATA, "cluster": _CLUSTER, "ratio": _RATIO},
        reproductions={name: Reproduction(*of) for name, of in _ENTRIES.items()},
        sizes="our own sizes (see data)",
    )
