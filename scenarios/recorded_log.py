"""What the scenarios made of recordings write alike: the log, and the manifest beside it."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from slackwater.log import Frame, LogWriter
from slackwater.simulation import LOG, MANIFEST, FrameDigest

VERSIONED: Final = ("slackwater", "numpy", "pyarrow")


def write_log(directory: Path, frames: Iterable[Frame]) -> dict[str, Any]:
    """Writes the arrival log; gives ``log_sha256`` and ``frames`` of the manifest."""
    digest = FrameDigest()
    count = 0
    with LogWriter(directory / LOG) as log:
        for frame in frames:
            log.append(frame)
            digest.add(frame)
            count += 1
    return {"log_sha256": digest.hexdigest(), "frames": count}


def write_manifest(
    directory: Path, scenario: str, options: Mapping[str, Any], logged: Mapping[str, Any],
    **facts: Any,
) -> dict[str, Any]:  # fmt: skip
    """Writes ``manifest.json`` and gives what it holds.

    Args:
        directory: of the run.
        scenario: its name.
        options: all of them, as chosen.
        logged: what ``write_log`` gave.
        facts: what else there is to say, such as ``rows`` and ``events_by_source``.
    """
    manifest = {
        "scenario": scenario,
        "seed": None,
        "options": options,
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in VERSIONED},
        },
        **logged,
        **facts,
    }
    text = json.dumps(manifest, indent=2) + "\n"
    (directory / MANIFEST).write_text(text, encoding="utf-8")
    return manifest
