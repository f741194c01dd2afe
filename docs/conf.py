"""How Sphinx builds these pages: `make docs`."""

from __future__ import annotations

from importlib.metadata import version as installed_version

project = "regauge"
author = "the regauge authors"
release = version = installed_version("regauge")

extensions = ["myst_parser"]
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
# Console fences hold output of pytest, which no lexer reads without complaint.
suppress_warnings = ["misc.highlighting_failure"]
highlight_language = "text"

html_theme = "furo"
html_title = "regauge"
html_copy_source = False
