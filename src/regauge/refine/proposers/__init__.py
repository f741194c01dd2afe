"""Who proposes edits: rules, a model, examples, other packages."""

from regauge.refine.edits import Anchor, Delete, Edit, Insert, Replace, ReplaceSection
from regauge.refine.proposers._calls import criticised, looked, proposed
from regauge.refine.proposers._context import problem_of
from regauge.refine.proposers._examples import load_examples
from regauge.refine.proposers._protocol import (
    STRATEGIES,
    Ask,
    Example,
    Ideas,
    Looks,
    Problem,
    Proposer,
    ProposerContext,
    Shown,
    check_strategies,
    load_proposers,
    proposer_names,
)
from regauge.refine.proposers._rules import propose_by_rules

__all__ = [
    "STRATEGIES",
    "Anchor",
    "Ask",
    "Delete",
    "Edit",
    "Example",
    "Ideas",
    "Insert",
    "Looks",
    "Problem",
    "Proposer",
    "ProposerContext",
    "Replace",
    "ReplaceSection",
    "Shown",
    "check_strategies",
    "criticised",
    "load_examples",
    "load_proposers",
    "looked",
    "problem_of",
    "propose_by_rules",
    "proposed",
    "proposer_names",
]
