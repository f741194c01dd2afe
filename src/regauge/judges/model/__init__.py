"""Judges that ask a model by a prompt of their own: rubrics, verified claims, panels, pairs."""
