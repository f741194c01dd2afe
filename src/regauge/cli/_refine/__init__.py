"""The commands of `regauge refine`."""
