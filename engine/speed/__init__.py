"""How fast this machine is: streams to measure with, and what ours takes beside plain programs."""
