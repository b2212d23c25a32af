"""The report of a run: its numbers in ``report.json`` and in one self-contained ``report.html``."""

from engine.report.write import write_report

__all__ = ["write_report"]
