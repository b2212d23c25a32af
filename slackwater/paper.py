"""A published evaluation repeated: findings with claims and figures, for ``slackwater paper``."""

from __future__ import annotations

from engine.report.page.figures import COLOURS, Figure, digits, log_axis
from engine.report.paper import Advanced, Finding, Paper, PaperRun, Reproduction, joined

__all__ = [
    "COLOURS",
    "Advanced",
    "Figure",
    "Finding",
    "Paper",
    "PaperRun",
    "Reproduction",
    "digits",
    "joined",
    "log_axis",
]
