"""Scenarios: one folder each; they use the public API only."""
