"""Prompts as lines with places, and edits of them. Nothing here knows of trials or runs."""

from __future__ import annotations

from regauge.refine.edits._edits import Edit, apply, near_duplicates, ops_between
from regauge.refine.edits._ops import (
    Anchor,
    Delete,
    EditError,
    Insert,
    Op,
    Replace,
    ReplaceSection,
    kind_of,
    op_from_json,
)
from regauge.refine.edits._placement import (
    TAKE_PLACE,
    anchor_of,
    bulleted,
    indented,
    is_garbled,
    other_places,
    plain,
    rivals,
    second_places,
)
from regauge.refine.edits._sections import section_at, section_text
from regauge.refine.edits._text import Line, PromptText, content_words, count_words, stem

__all__ = [
    "TAKE_PLACE",
    "Anchor",
    "Delete",
    "Edit",
    "EditError",
    "Insert",
    "Line",
    "Op",
    "PromptText",
    "Replace",
    "ReplaceSection",
    "anchor_of",
    "apply",
    "bulleted",
    "content_words",
    "count_words",
    "indented",
    "is_garbled",
    "kind_of",
    "near_duplicates",
    "op_from_json",
    "ops_between",
    "other_places",
    "plain",
    "rivals",
    "second_places",
    "section_at",
    "section_text",
    "stem",
]
