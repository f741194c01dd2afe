"""What `regauge baseline` does: draw, keep and compare what main is known for, and say it."""
