"""Panes: what the windows that slide have in common."""
