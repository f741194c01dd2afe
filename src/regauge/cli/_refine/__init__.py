"""The course of `regauge refine`, from its beginning to the applied proposal."""
