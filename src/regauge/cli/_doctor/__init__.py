"""What `regauge doctor` looks at."""
