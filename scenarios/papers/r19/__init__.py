"""R19: Rajendran 2019, ordering by sequence numbers against K-slack (chapter 5)."""
