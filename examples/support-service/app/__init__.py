"""A small support service: it retrieves a page and looks orders up with a tool."""
