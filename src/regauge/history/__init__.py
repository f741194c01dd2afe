"""What was measured in all runs: kept in a database, read by `log`, `runs`, `compare`, `trend`."""
