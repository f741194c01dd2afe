"""Digests of judges: the same in every release that judges the same, else baselines are lost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from regauge.judges import (
    command_judge,
    each_turn,
    expected,
    http_judge,
    in_turn,
    means_like,
    not_,
    pairwise,
    panel,
    rubric,
    verified_claims,
)
from tests.transcripts import assert_as_written
from tests.unit.judges.asked import GRADED, context
from tests.unit.judges.samples import RULES

if TYPE_CHECKING:
    from pathlib import Path

PAIR = """\
version: 1.0.0
rubric: {kind: pair}
messages:
  - {role: user, content: "{{report}} {{first}} {{second}}"}
"""
MEMBERS = (rubric("faithful", model="local:a"), rubric("faithful", model="local:b"))
BOUND: tuple[Any, ...] = (
    rubric("faithful"),
    rubric("faithful", model="local:b", votes=3, reducer="mean", pass_at=0.5),
    rubric("faithful", field="reason", reference=expected("reference")),
    rubric(criterion="is polite"),
    rubric(criterion=["is polite", "is short"]),
    panel(MEMBERS),
    panel(MEMBERS, "median", at_least=0.6),
    pairwise("better"),
    pairwise("better", against=expected("older"), at_least=1, field="text"),
    verified_claims("report"),
    verified_claims(expected("source"), at_least=0.5, field="text", model="local:b"),
    in_turn(2, rubric("faithful")),
    each_turn(rubric("faithful")),
    command_judge(["./check", "-x"]),
    command_judge(["./check"], env=["TOKEN"], pass_at=0.9, deterministic=True, files=["check"]),
    http_judge("https://judge.example/v1"),
    http_judge("https://judge.example/", method="PUT", headers={"X-Key": "KEY"}, version="2"),
)
UNBOUND: tuple[Any, ...] = (
    means_like(model="openai:text-embedding-3-small", at_least=0.8),
    means_like(model="openai:e", measure="euclidean", at_most=0.5, fallback="rouge_l"),
)


def test_the_digest_of_a_rule_is_as_it_was_written_down():
    lines = [f"{judge.digest[:16]} {judge.name}" for judge in (*RULES, *map(not_, RULES[:3]))]
    assert_as_written("\n".join([*lines, ""]), "digests/rules")


def test_the_digest_of_a_judge_that_calls_is_as_it_was_written_down(tmp_path: Path):
    place = context(tmp_path, faithful=GRADED, better=PAIR)
    (tmp_path / "check").write_text("#!/bin/sh\n")
    judges = [*(judge.bind(place) for judge in BOUND), *UNBOUND]
    lines = [f"{judge.digest[:16]} {judge.name}" for judge in judges]
    assert_as_written("\n".join([*lines, ""]), "digests/calls")
    assert len({judge.digest for judge in judges}) == len(judges)
