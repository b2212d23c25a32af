"""The report of a run: its numbers in ``report.json`` and in one self-contained ``report.html``."""
