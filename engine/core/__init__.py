"""What flows: frames of the log, columns, and the released stream that operators read."""
