"""All that a chain says of batches of frames, whichever way they are cut."""

from __future__ import annotations

import json
from collections.abc import Sequence

from slackwater.edge_agent.records import UNC_MAX_NS
from slackwater.engine.core.frame import Frame
from slackwater.engine.hosts.chain import Chain, ChainSettings
from slackwater.engine.output.ordered_stream import released_table

VARYING = ("buffered_max", "buffered_max_bytes")
"""What a batch brings is held beside what expires; its columns come from its frames."""


def chain_text(batches: Sequence[Sequence[Frame]], chosen: ChainSettings) -> str:
    """The ordered stream, what is late and quarantined, results per query, and counters, as JSON;
    the chain is restored from a snapshot before each batch.
    """
    chain, outputs = Chain(chosen, "main"), []
    for batch in batches:
        chain = Chain.restored(chosen, "main", chain.to_bytes())
        outputs.append(chain.process(list(batch)))
    outputs.append(chain.finish())
    rows = {
        name: [
            {field: value for field, value in sorted(row.items()) if value is not None}
            for output in outputs
            for released in getattr(output, name)
            for row in released_table("main", released).to_pylist()
        ]
        for name in ("ordered", "late", "quarantined")
    }
    for output in outputs:
        for released in output.ordered:
            unc = released.columns["unc"]
            assert ((unc >= 0) & (unc <= UNC_MAX_NS)).all()
    results = [[r for o in outputs for r in o.results[n]] for n in range(len(chosen.plans))]
    counters = chain.counters()
    for some in (counters, *counters["queries"].values()):
        for name in VARYING:
            some.pop(name, None)
    said = [rows["ordered"], results, counters, rows["late"], rows["quarantined"]]
    return json.dumps(said, indent=1, sort_keys=True, allow_nan=False)
