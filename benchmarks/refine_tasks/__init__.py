"""Simulated tasks for the refinement loop; their true quality is computed, never measured."""
