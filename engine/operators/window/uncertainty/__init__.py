"""The uncertainty of windows: bounds of values, missing events, conditions on times."""
