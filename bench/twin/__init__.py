"""The measured twin: what ``validate --scenario`` writes, simulated, beside the live run."""
