"""Rules: deterministic judges, one function each, grouped by subject."""
