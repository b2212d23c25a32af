"""How matches are found: stacks, join orders, probes."""
