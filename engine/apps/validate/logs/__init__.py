"""A set-up as its arrival logs tell of it: columns, clocks and links, answers, two side by side."""
