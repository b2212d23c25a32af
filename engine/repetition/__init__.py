"""Patterns whose steps repeat (Kleene closure), and which of their matches are asked for."""
