"""What a window may hold besides: bounds, missing events, conditions on times."""
