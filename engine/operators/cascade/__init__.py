"""Cascades: statements that read the results of others, in the pass that makes these."""
