"""The evals of a project, as commands that need their plan collect them."""
