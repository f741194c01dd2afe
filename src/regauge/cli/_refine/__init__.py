"""What `regauge refine` does with a run, from its beginning to the proposal that is taken."""
