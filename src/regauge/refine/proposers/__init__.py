"""Proposers of edits: rules, a model, examples, other packages."""

from regauge.refine.analysis import Outcome as Outcome
from regauge.refine.edits import (
    Anchor as Anchor,
    Delete as Delete,
    Edit as Edit,
    EditError as EditError,
    Insert as Insert,
    PromptText as PromptText,
    Replace as Replace,
    ReplaceSection as ReplaceSection,
    apply as apply,
)
from regauge.refine.loop._state import Critique as Critique, TrialResults as TrialResults
from regauge.refine.proposers._protocol import (
    Example as Example,
    Ideas as Ideas,
    ModelCaller as ModelCaller,
    Problem as Problem,
    Proposer as Proposer,
    ProposerContext as ProposerContext,
    RedactedCase as RedactedCase,
    load_proposers as load_proposers,
)
from regauge.refine.proposers.model import NoEditError as NoEditError, edit_of_text as edit_of_text
