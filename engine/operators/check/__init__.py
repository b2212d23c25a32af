"""Results checked against rules and against their own history before they go out (Z10 5.2)."""
