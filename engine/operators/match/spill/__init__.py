"""Patterns over windows larger than memory."""
