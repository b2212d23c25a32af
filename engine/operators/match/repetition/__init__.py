"""Patterns whose steps repeat (Kleene closure), and the choice of their matches."""
