"""Who proposes edits: rules, a model, examples, other packages."""

from regauge.refine.proposers._rules import propose_by_rules

__all__ = ["propose_by_rules"]
