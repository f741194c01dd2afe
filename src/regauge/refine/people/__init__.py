"""What people said of answers: labels, comments, notes. They are hints, and prove no edit."""

from __future__ import annotations

from regauge.refine.people._evidence import Evidence, EvidenceKind, Heard, heard_in_words
from regauge.refine.people._labels import labels_of
from regauge.refine.people._orders import takes_over
from regauge.refine.people._remarks import heard_on_pull, noted_in

__all__ = [
    "Evidence",
    "EvidenceKind",
    "Heard",
    "heard_in_words",
    "heard_on_pull",
    "labels_of",
    "noted_in",
    "takes_over",
]
