"""Results as texts: lines of JSON made column by column."""
