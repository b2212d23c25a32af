"""One pass from an input to answers, which commands, scenarios and Python share."""
