"""Z10: Zhou et al. 2010, durable events out of order (section 6)."""

from slackwater.paper import Paper, Reproduction
from slackwater.scenarios.papers.z10 import buffer, disorder, length

_DATA = (
    "Generated: 1,000 sensors that send events of four types (eight by the query's length) at "
    "random, as the paper's generators do. The paper has over a million events; ours are 20,000, "
    "1,500 by buffer and 10,000 by length, as each result is judged. It prints no rate, no window, "
    "no length of an event and no K. Ours: a window of 10 minutes, as its section 5.2 has, 40 "
    "events in it (400 by buffer); durable events last W/20 on the average; what is out of order "
    "comes up to W/4 late, every delay as likely, or as late as something overtakes it. K is the "
    "largest delay of the events at hand (Table 2), since the start of a durable one. Beside "
    "each verdict stands what it rests on, and with which other values it holds. Where no share "
    "is varied, 18 % are out of order."
)
_QUERY = (
    "The paper names no query of its figures. Ours is that of its section 5.2: A (overlap) B (!D) "
    "(before) C within 10 minutes; of instants, which cannot overlap, A, B, !D, C in that order."
)
_METHODS = (
    "Realtime: REALTIME 1, results at once, taken back when an event shows them wrong. Correct: "
    "REALTIME 0, results held until K has passed. Both with K-ISlack purge. K-Slack: instants "
    "alone, put in order by a buffer of K; of a durable event it knows the start. IEMiner: "
    "intervals alone; it takes the order of arrival for that of time. The pull-back request for a "
    "missing half plays no part in the paper's figures: an event here arrives whole."
)
_METRICS = (
    "NoR: results given. NoC: results taken back, and those that an event out of order completes; "
    "NoCR: results that stand and are right. The average latency goes from the arrival of a "
    "result's first event until it leaves (the paper: execution time and latency differ by the "
    "time from the first event's arrival to the last one's), with the time for which wrong "
    "results stood, per result that stands; computing, a few microseconds, is left out but where "
    "our engine reads files. Execution time is the processor's. The buffer: the newest arrivals "
    "in memory, older ones in files, which stand for the paper's database. As in the paper (5.2), "
    "results come from memory, and the files are asked of each event afterwards: they take wrong "
    "results back and add what memory could not find. Our engine asks them before it answers; "
    "what that gives is said beside, and is what Figure 18 measures."
)
_ENTRIES = {
    "fig-11": ("Average latency by events out of order", disorder.latency),
    "fig-12": ("Rate of compensation", disorder.compensation),
    "fig-13": ("Accuracy without durable events", disorder.points_accuracy),
    "fig-14": ("Accuracy with durable events", disorder.durable_accuracy),
    "fig-15": ("Average execution time by events out of order", disorder.execution),
    "fig-16": ("Average latency by buffer", buffer.latency),
    "fig-17": ("Accuracy by buffer", buffer.accuracy),
    "fig-18": ("Execution time by buffer", buffer.execution),
    "fig-19": ("Execution time by length of the query", length.execution),
    "fig-20": ("Latency by length of the query", length.latency),
}


def paper() -> Paper:
    """The evaluation of Z10, in the order of its figures."""
    return Paper(
        title="Z10: durable events out of order",
        citation="C. J. Zhou, X. F. Meng, Y. G. Chen, Out-of-order durable event processing in "
        "integrated wireless networks, Pervasive and Mobile Computing 2010, section 6",
        setting={"data": _DATA, "query": _QUERY, "methods": _METHODS, "metrics": _METRICS},
        reproductions={name: Reproduction(*of) for name, of in _ENTRIES.items()},
        sizes="our own sizes (see data)",
    )
