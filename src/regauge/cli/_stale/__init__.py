"""What is kept of model calls that no eval asks for any more."""
