"""Operators on events with two end points."""
