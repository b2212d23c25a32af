"""The report of a run: ``report.json`` and a self-contained ``report.html``."""
