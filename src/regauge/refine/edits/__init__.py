"""Prompts as lines with places, and edits of them. Nothing here knows of trials or runs."""

from __future__ import annotations

from regauge.refine.edits._edits import Edit, apply, near_duplicates, ops_between
from regauge.refine.edits._merge import merged
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
    is_garbled,
    other_places,
    plain,
    rivals,
    second_places,
)
from regauge.refine.edits._sections import section_at, section_text
from regauge.refine.edits._statements import (
    Statement,
    lead_of,
    one_by_one,
    said_in,
    statements,
    statements_of,
    written_like,
)
from regauge.refine.edits._text import (
    Line,
    PromptText,
    after_marker,
    content_words,
    count_words,
    stem,
)

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
    "Statement",
    "after_marker",
    "anchor_of",
    "apply",
    "content_words",
    "count_words",
    "is_garbled",
    "kind_of",
    "lead_of",
    "merged",
    "near_duplicates",
    "one_by_one",
    "op_from_json",
    "ops_between",
    "other_places",
    "plain",
    "rivals",
    "said_in",
    "second_places",
    "section_at",
    "section_text",
    "statements",
    "statements_of",
    "stem",
    "written_like",
]
