"""Why a suite is not compared with its base version, and what a reader of a comparison is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from regauge.errors import UsageError
from regauge.gate._baseline_update import CRITICAL_TRIALS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.datasets import Dataset
    from regauge.gate._base_commit import BaseCommit
    from regauge.gate._baseline import KeyDifference, StoredHistory
    from regauge.prompts import Prompt
    from regauge.runner import Suite

__all__ = ["Refusal", "critical_notes", "notes_of", "refusals_of"]

_SHOWN = 5

RefusedPart: TypeAlias = Literal["judge", "model"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why a suite is not compared: what was measured on main is not what would be measured now.

    Attributes:
        part: What changed.
        prompt_changed: Whether the prompt changed as well; where it did not, nothing is lost.
        differences: In what the keys of stored and wanted trials differ.
    """

    part: RefusedPart
    prompt: str
    message: str
    prompt_changed: bool
    differences: tuple[KeyDifference, ...] = ()

    def error(self) -> UsageError:
        """The refusal as an error."""
        return UsageError(self.message)


def refusals_of(
    suite: Suite,
    main: Suite,
    at: BaseCommit,
    differences: tuple[KeyDifference, ...],
    *,
    across_models: bool,
    prompt_changed: bool,
) -> tuple[Refusal, ...]:
    """Why main and the change would not be measured alike; empty when they would.

    Args:
        main: Main's arm.
        differences: In what the nearest history of the baseline differs from what is wanted.
        across_models: Whether two models are compared on purpose.
        prompt_changed: Whether any request changed.
    """
    name = suite.prompt.name
    found: list[Refusal] = []
    if main.model != suite.model and not across_models:
        message = (
            f"{name}: main asks {main.model} and this change asks {suite.model}; a prompt is not"
            " blamed for another model\n"
            f"  fix: compare the two on purpose: regauge gate {at.ref} --model {suite.model}"
        )
        found.append(
            Refusal(part="model", prompt=name, message=message, prompt_changed=prompt_changed)
        )
    judges = tuple(part for part in differences if part.part == "judge")
    if judges and _may_judge_otherwise(at):
        listed = "".join(f"\n  {part}" for part in judges)
        message = (
            f"{name}: main was judged otherwise than this change would be, so nothing is"
            f" compared{listed}\n"
            "  fix: merge the change of the judges on its own, run"
            f" `regauge baseline update {name}` on {at.ref.removeprefix('origin/')},"
            " then compare the prompt"
        )
        found.append(
            Refusal(
                part="judge",
                prompt=name,
                message=message,
                prompt_changed=prompt_changed,
                differences=judges,
            )
        )
    return tuple(found)


def _may_judge_otherwise(at: BaseCommit) -> bool:
    """Whether a file changed that judges are made of; if none did, it is the baseline that is old.

    Code, rubrics, labels, calibrations and settings may; prompts, golden cases, recordings and
    baselines may not.
    """
    project, repository = at.project, at.repository
    fixtures = repository.inside(project.fixtures_dir)
    rubrics = repository.inside(project.prompts_dir / "judges")
    other = (f"{fixtures}/golden/", f"{fixtures}/recordings/", f"{fixtures}/baselines/")
    ends = (".py", ".toml", ".lock", ".txt", ".cfg", ".ini")
    locks = repository.inside(project.prompts_dir / "prompts.lock")
    return any(
        name != locks
        and not name.startswith(other)
        and (name.endswith(ends) or name.startswith((f"{rubrics}/", f"{fixtures}/")))
        for name in at.changed
    )


def notes_of(
    suite: Suite,
    prompt: Prompt | None,
    at: BaseCommit,
    *,
    known: bool,
    differences: tuple[KeyDifference, ...],
    before: Dataset | None,
) -> list[str]:
    """Sentences for whoever reads the comparison of one suite.

    Args:
        prompt: The base version; None where the prompt is new.
        known: Whether the baseline knows how main fares.
        differences: In what the nearest history of the baseline differs from what is wanted.
        before: The base version's golden cases, where they are others than today's.
    """
    name, notes = suite.prompt.name, list[str]()
    update = f"regauge baseline update {name}"
    if prompt is None:
        return [f"{name} is new: {at.ref} has no version of it to compare with"]
    if prompt.name != name:
        notes.append(f"{name} was called {prompt.name} in {at.ref}")
    if differences:
        parts = "; ".join(str(part) for part in differences)
        notes.append(
            f"main's baseline of {name} is not used, it was made otherwise ({parts});"
            f" after the merge: {update}"
        )
    elif not known:
        notes.append(
            f"main has no baseline of this version of {name}, so main is drawn too;"
            f" after the merge: {update}"
        )
    other = [
        case.id
        for case in suite.dataset
        if before is not None
        and (then := before.get(case.id)) is not None
        and then.digest != case.digest
    ]
    if other:
        many = f"{len(other)} cases have" if len(other) > 1 else "1 case has"
        notes.append(
            f"{many} other inputs or expectations than in {at.ref} and must pass as new:"
            f" {_few(other)}"
        )
    return notes


def critical_notes(suite: Suite, history: StoredHistory | None) -> list[str]:
    """Which critical cases main has not passed often enough to be called critical."""
    if history is None:
        return []
    unproven: list[str] = []
    for case in suite.dataset:
        known = history.history(case.id, case.digest) if case.tier == "critical" else None
        if known is not None and (known.whole.failed or known.whole.trials < CRITICAL_TRIALS):
            unproven.append(f"{case.id} {known.whole}")
    if not unproven:
        return []
    needed = f"{CRITICAL_TRIALS} of {CRITICAL_TRIALS} trials of main"
    return [f"a critical case should have passed {needed}; main passed {_few(unproven)}"]


def _few(names: Sequence[str]) -> str:
    """The first of many names."""
    return ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
