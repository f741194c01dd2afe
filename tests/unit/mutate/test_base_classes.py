"""The committed classes of the base: used, or left out with a note."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from regauge.errors import UsageError
from regauge.mutate._pull_request import (
    GuardTrials,
    TrialClasses,
    is_reduced,
    load_base_classes,
    loss_causes,
)
from regauge.mutate._report import Guards
from regauge.project import Project
from tests.unit.mutate.test_report import report, row

PROJECT = Project(root=Path("/shop"))
DOCUMENT = json.loads(report(row(1, "killed"), row(2, "survived")).model_dump_json(by_alias=True))


def file_of(**changes: Any) -> bytes:
    known = {key: value for key, value in DOCUMENT.items() if key != "missing"}
    return json.dumps(known | {"key": "k"} | changes).encode()


def read(
    data: bytes | None, *models: str, base_prompt: Any = None
) -> tuple[list[str], tuple[str, ...]]:
    """The ids of the mutants whose classes are used, and the notes."""
    base: Any = SimpleNamespace(
        ref="main", project=PROJECT, prompt_name=lambda name: name, read=lambda _path: data
    )
    suites: list[Any] = [
        SimpleNamespace(model=model, target=None if model.startswith("sim:") else "bot")
        for model in models
    ]
    prompt: Any = "triage"
    classes = load_base_classes(base, prompt, base_prompt, suites)
    return sorted(classes.rows), classes.notes


IDS = ["delete-entry-1", "delete-entry-2"]


@pytest.mark.parametrize(
    ("data", "models", "digest", "ids", "note"),
    [
        (file_of(), ["sim:clerk-1"], "d1", IDS, ""),
        (file_of(), ["python:bot", "sim:clerk-1"], "d1", IDS, ""),
        (file_of(model="python:bot"), ["python:bot"], "d1", IDS, ""),
        (file_of(), ["python:bot"], "d1", [], "classes of main hold for sim:clerk-1, not for python:bot"),
        (file_of(), ["sim:clerk-2"], "d1", [], "classes of main hold for sim:clerk-1, not for sim:clerk-2"),
        (file_of(), ["sim:clerk-1"], "d2", IDS, "classes of main are older than its prompt"),
        (b"{", ["sim:clerk-1"], "d1", [], "classes of main cannot be read: "),
        (None, ["sim:clerk-1"], "d1", [], "main has no fixtures/mutants/triage.json"),
    ],
)  # fmt: skip
def test_classes_that_do_not_hold_are_left_out_with_a_note(
    data: bytes | None, models: list[str], digest: str, ids: list[str], note: str
):
    found, notes = read(data, *models, base_prompt=SimpleNamespace(digest=digest))
    assert found == ids
    assert len(notes) == bool(note)
    assert all(line.startswith(note) and "\n" not in line for line in notes)


def test_without_a_prompt_on_the_base_its_digest_does_not_matter():
    assert read(file_of(), "sim:clerk-1") == (IDS, ())


@pytest.mark.parametrize(
    ("decision", "is_partial", "error", "reason"),
    [
        ("accept", False, None, ""),
        ("reject", False, None, "the gate does not accept the change"),
        ("accept", True, None, "only some cases were selected"),
        ("accept", False, UsageError("first line\nsecond"), "first line"),
    ],
)
def test_mutants_are_measured_under_an_accepted_change_alone(
    decision: str, error: Exception | None, reason: str, *, is_partial: bool
):
    async def measure(mutants: Any, _only: Any) -> dict[str, str]:
        if error is not None:
            raise error
        return dict.fromkeys(mutants, "killed")

    trials: Any = SimpleNamespace(
        decided=SimpleNamespace(decision=decision),
        group=[SimpleNamespace(partial=False), SimpleNamespace(partial=is_partial)],
        _measure=measure,
    )
    assert GuardTrials.run(trials, []) == TrialClasses()
    classes: Any = {} if reason else {"m1": "killed"}
    mutants: Any = ["m1"]
    assert GuardTrials.run(trials, mutants) == TrialClasses(by_id=classes, reason=reason)


@pytest.mark.parametrize(
    ("now", "reduced"),
    [
        ({"a": ("1", "required"), "b": ("2", "critical")}, False),
        ({"a": ("1", "required"), "b": ("2", "critical"), "new": ("3", "tracked")}, False),
        ({"a": ("1", "required")}, True),
        ({"a": ("1", "required"), "b": ("3", "critical")}, True),
        ({"a": ("1", "tracked"), "b": ("2", "critical")}, True),
        ({}, True),
    ],
)
def test_one_deleted_or_edited_case_is_enough_to_reduce_the_suite(
    now: dict[str, tuple[str, str]], *, reduced: bool
):
    def cases(rows: dict[str, tuple[str, str]]) -> Any:
        return {
            key: SimpleNamespace(digest=digest, tier=tier) for key, (digest, tier) in rows.items()
        }

    assert (
        is_reduced(cases({"a": ("1", "required"), "b": ("2", "critical")}), cases(now)) is reduced
    )


KEPT = ("1", "required")
JUDGES = {"tone": "t1", "length": "l1"}


@pytest.mark.parametrize(
    ("killed_by", "cases", "judges", "causes"),
    [
        ({}, {"a": KEPT, "b": KEPT}, JUDGES, ()),
        ({}, {"a": KEPT}, JUDGES, ()),
        ({}, {}, JUDGES, ("deletes case a", "deletes case b")),
        ({}, {"b": ("2", "required")}, JUDGES, ("deletes case a", "edits case b")),
        ({}, {"b": ("1", "tracked")}, JUDGES, ("deletes case a", "sets tier = tracked in case b")),
        ({}, {"b": ("1", "critical")}, JUDGES, ()),
        ({}, {"a": KEPT, "b": KEPT}, None, ()),
        ({}, {}, None, ("deletes case a", "deletes case b")),
        ({}, {"a": KEPT, "b": KEPT}, {"length": "l1"}, ("removes judge tone",)),
        ({}, {"a": KEPT, "b": KEPT}, {"tone": "t2"}, ("changes judge tone", "removes judge length")),
        ({}, {"a": KEPT}, {"tone": "t2", "length": "l1"}, ("deletes case b", "changes judge tone")),
        ({"cases": ["a"]}, {"a": KEPT}, JUDGES, ()),
        ({"cases": ["a"]}, {"b": KEPT}, JUDGES, ("deletes case a",)),
        # The judge that is left may be the one that failed the only case.
        ({"cases": ["a"]}, {"a": KEPT}, {"tone": "t1"}, ()),
        ({"cases": ["a"]}, {"a": KEPT}, {}, ("removes judge tone", "removes judge length")),
        ({"cases": ["a"], "judges": ["tone"]}, {"a": KEPT}, {}, ("removes judge tone",)),
        ({"cases": ["a"], "judges": ["other"]}, {"a": KEPT}, {"other": "x"}, ()),
        ({"cases": ["new"]}, {"new": ("9", "required")}, JUDGES, ()),
        (
            {"cases": ["a"], "evidence": {"tier": "critical"}},
            {"a": KEPT},
            JUDGES,
            ("sets tier = required in case a",),
        ),
        ({"cases": ["a"], "evidence": {"tier": "critical"}}, {"a": ("1", "critical")}, JUDGES, ()),
    ],
)  # fmt: skip
def test_a_killed_mutant_loses_its_guard_with_all_of_its_cases_or_judges(
    killed_by: dict[str, Any],
    cases: dict[str, tuple[str, str]],
    judges: dict[str, str] | None,
    causes: tuple[str, ...],
):
    now: Any = {
        key: SimpleNamespace(digest=digest, tier=tier) for key, (digest, tier) in cases.items()
    }
    guards = Guards(cases={"a": "1", "b": "1"}, judges=JUDGES)
    killed = row(1, "killed", **{"cases": ["a", "b"], "judges": ["tone", "length"], **killed_by})
    assert loss_causes(killed, now, judges, guards) == causes
    assert loss_causes(killed, now, judges, None) == ()
    assert loss_causes(row(1, "survived", cases=["a"]), now, judges, guards) == ()
