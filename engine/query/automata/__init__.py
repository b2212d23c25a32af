"""Automata of constraints and patterns (SPEC 4.6, L10 3.2): what one makes certain of the other."""
