"""Proposers of edits: rules, a model, examples, other packages."""

from regauge.refine.analysis import Outcome
from regauge.refine.edits import (
    Anchor,
    Delete,
    Edit,
    EditError,
    Insert,
    PromptText,
    Replace,
    ReplaceSection,
    apply,
)
from regauge.refine.loop._state import Critique, TrialsDone
from regauge.refine.proposers._model import NoEditError, edit_of_text
from regauge.refine.proposers._protocol import (
    Ask,
    Example,
    Ideas,
    Looks,
    Problem,
    Proposer,
    ProposerContext,
    RedactedCase,
    load_proposers,
)

__all__ = [
    "Anchor",
    "Ask",
    "Critique",
    "Delete",
    "Edit",
    "EditError",
    "Example",
    "Ideas",
    "Insert",
    "Looks",
    "NoEditError",
    "Outcome",
    "Problem",
    "PromptText",
    "Proposer",
    "ProposerContext",
    "RedactedCase",
    "Replace",
    "ReplaceSection",
    "TrialsDone",
    "apply",
    "edit_of_text",
    "load_proposers",
]
