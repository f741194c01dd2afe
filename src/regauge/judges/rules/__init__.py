"""Rules: deterministic judges, one function each, grouped by what they look at."""
