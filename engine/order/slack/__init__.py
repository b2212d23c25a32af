"""Orders that hold events for a slack K: one buffer, and what sets K."""
