"""Measures of a run's report, from the files of the run."""
