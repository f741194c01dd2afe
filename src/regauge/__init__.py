"""regauge: a regression harness for prompts."""
