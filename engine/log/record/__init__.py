"""What a record must be: the rules of its fields, its times, and lines that break them."""
