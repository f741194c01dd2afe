"""Words, numbers and times as the simulated model sees them."""

from __future__ import annotations

from regauge.sim.text._quantities import (
    NUMBER_WORDS,
    Quantity,
    closeness,
    quantities,
    without_quantities,
)
from regauge.sim.text._shapes import is_list, is_object
from regauge.sim.text._times import Moment, duration_text, find_moments, write_moment
from regauge.sim.text._tokens import count_message_tokens, count_tokens, cut
from regauge.sim.text._words import count_words, first_sentence, sentences, split_name, stems

__all__ = [
    "NUMBER_WORDS",
    "Moment",
    "Quantity",
    "closeness",
    "count_message_tokens",
    "count_tokens",
    "count_words",
    "cut",
    "duration_text",
    "find_moments",
    "first_sentence",
    "is_list",
    "is_object",
    "quantities",
    "sentences",
    "split_name",
    "stems",
    "without_quantities",
    "write_moment",
]
