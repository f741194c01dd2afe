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
from regauge.refine.loop._state import Critique, TrialResults
from regauge.refine.proposers._model import NoEditError, edit_of_text
from regauge.refine.proposers._protocol import (
    Example,
    Ideas,
    ModelCaller,
    ProbingProposer,
    Problem,
    Proposer,
    ProposerContext,
    RedactedCase,
    load_proposers,
)

__all__ = [
    "Anchor",
    "Critique",
    "Delete",
    "Edit",
    "EditError",
    "Example",
    "Ideas",
    "Insert",
    "ModelCaller",
    "NoEditError",
    "Outcome",
    "ProbingProposer",
    "Problem",
    "PromptText",
    "Proposer",
    "ProposerContext",
    "RedactedCase",
    "Replace",
    "ReplaceSection",
    "TrialResults",
    "apply",
    "edit_of_text",
    "load_proposers",
]
