"""Imported, it has deepeval loaded as regauge loads it: it reads and writes no files then."""

from regauge.judges._deepeval import _judge

_judge.load()
