"""L10: Li 2010, robust detection of event patterns; one folder per chapter that is made anew."""
