"""Refusals of a change whose trials cannot be compared with the base."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from regauge.gate._bar import is_same_function
from regauge.gate._code import code_of_evals, files_of_judges
from regauge.judges import changed_rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from regauge.gate._bar import MovedBar
    from regauge.gate._commit import BaseCommit
    from regauge.gate.baselines import KeyDifference
    from regauge.runner import Eval

RefusedPart: TypeAlias = Literal["judge", "model", "bar", "trials"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """The reason why a change is not compared.

    Attributes:
        part: Changed part.
        message: One sentence.
        details: Judges that differ or lowered parts of the bar, one per line.
        fix: Command or edit that makes the change comparable.
        prompt: Name of the prompt; empty if it concerns the whole change.
        prompt_changed: Whether a prompt changed as well; if none did, the refusal can be accepted.
    """

    part: RefusedPart
    message: str
    details: tuple[str, ...] = ()
    fix: str
    prompt: str = ""
    prompt_changed: bool = True

    def __str__(self) -> str:
        details = "".join(f"\n  {detail}" for detail in self.details)
        return f"{self.message}{details}\n  fix: {self.fix}"

    @property
    def note(self) -> str:
        """The note of a comparison that accepts changed judges."""
        return (
            f"{self.prompt} is judged differently than on the base ({'; '.join(self.details)}); its"
            " requests are unchanged, so nothing was compared. After the merge: regauge baseline"
            f" update {self.prompt}"
        )


def refusals_of(
    eval_: Eval,
    base: Eval,
    base_commit: BaseCommit,
    differences: tuple[KeyDifference, ...],
    *,
    across_models: bool,
    prompt_changed: bool,
) -> tuple[Refusal, ...]:
    """The reasons why base and candidate would not be measured alike; empty if they would.

    Args:
        base: The base's side.
        differences: Differences between the nearest baseline and the required one.
        across_models: Whether two models are compared on purpose.
        prompt_changed: Whether any request changed.
    """
    name = eval_.prompt.name
    refusals: list[Refusal] = []
    # The name of a target is no other model: its code is what changed.
    if base.model != eval_.model and not across_models and eval_.target is None:
        refusals.append(
            Refusal(
                part="model",
                prompt=name,
                message=f"{name}: the base uses {base.model} and this change uses {eval_.model}, so"
                " a difference would not show what the prompt did",
                fix="compare the models on purpose: regauge gate"
                f" {base_commit.ref} --model {eval_.model}",
                prompt_changed=prompt_changed,
            )
        )
    judges = tuple(
        part
        for part in differences
        if part.part == "judge"
        and not changed_rule_of(part, eval_)
        and not _is_reformatted(part, eval_, base_commit)
    )
    if judges and _may_judge_differently(base_commit, eval_):
        refusals.append(
            Refusal(
                part="judge",
                prompt=name,
                message=f"{name}: this change is judged differently than the base, so nothing is"
                " compared",
                details=tuple(_describe_difference(part, eval_) for part in judges),
                fix=_calibration_fix(judges, eval_)
                + _judge_fix(eval_, base_commit, prompt_changed=prompt_changed),
                prompt_changed=prompt_changed,
            )
        )
    return tuple(refusals)


def refusal_of_bars(
    bars: Sequence[MovedBar], base_commit: BaseCommit, *, prompt_changed: bool
) -> Refusal:
    """The refusal of a change that lowers its own acceptance criteria."""
    behind = base_commit.tip != base_commit.commit
    way = (
        "merge this part on its own, or accept it" if prompt_changed else "accept it if it is meant"
    )
    return Refusal(
        part="bar",
        message=f"the bar of this change may be lower than that of {base_commit.ref}, so nothing is"
        " compared",
        details=tuple(map(str, bars)),
        fix=(
            f"git merge {base_commit.ref}, which is newer than this change; then " if behind else ""
        )
        + f"{way}: {_accept_hint(base_commit)}",
    )


def refusal_of_trials(base_commit: BaseCommit) -> Refusal | None:
    """The refusal of a commit with `.regauge/`: its author supplies the trials."""
    paths = base_commit.repository.tracked(base_commit.project.state_dir)
    committed = next((path for path in paths if not path.endswith("/.gitignore")), None)
    if committed is None:
        return None
    name = base_commit.project.state_dir.name
    return Refusal(
        part="trials",
        message=f"git tracks {committed!r}, so the change would supply the gate's trials",
        fix=f"git rm -r --cached {name}, add {name}/ to .gitignore, then commit",
    )


def _accept_hint(base_commit: BaseCommit) -> str:
    """The two ways to accept changed judges or a lowered bar."""
    return (
        f"regauge gate {base_commit.ref} --accept-judge-change 'WHY', or the label"
        " `accept-judge-change` on GitHub"
    )


def _describe_difference(part: KeyDifference, eval_: Eval) -> str:
    """Describe a judge that differs; one that lost its calibration is only advisory now."""
    judge = next((candidate for candidate in eval_.judges if candidate.name == part.name), None)
    if part.current_value is not None or judge is None:
        return str(part)
    return f"judge {part.name!r} was blocking and is advisory now: {eval_.status_of(judge).reason}"


def changed_rule_of(part: KeyDifference, eval_: Eval) -> str:
    """The rule that regauge changed, if only that makes a judge differ; else empty."""
    if part.part != "judge" or not part.stored_value or not part.current_value:
        return ""
    judge = next((candidate for candidate in eval_.judges if candidate.name == part.name), None)
    return changed_rule(judge, part.stored_value, part.rules)


def _is_reformatted(part: KeyDifference, eval_: Eval, base_commit: BaseCommit) -> bool:
    """Return whether only comments, docstrings or the format of a function that judges changed."""
    judge = next((candidate for candidate in eval_.judges if candidate.name == part.name), None)
    return bool(part.stored_value and part.current_value) and is_same_function(base_commit, judge)


def _judge_fix(eval_: Eval, base_commit: BaseCommit, *, prompt_changed: bool) -> str:
    base = base_commit.ref.removeprefix("origin/")
    update = f"`{eval_.command('baseline', 'update')}` on {base}"
    if prompt_changed:
        # The next step of several prompts has the first part once.
        first = "merge the change of the judges on its own, then compare the prompt"
        return f"{first}; in between run {update}"
    return (
        f"if the judges are meant to change: {_accept_hint(base_commit)}, or"
        f' on_judge_change = "note" in [tool.regauge.gate]; after the merge {update}'
    )


def _calibration_fix(differences: Sequence[KeyDifference], eval_: Eval) -> str:
    """The fix for LLM judges that differ from their calibration."""
    names = {part.name for part in differences}
    commands = [
        f"regauge judges calibrate {shlex.quote(judge.name)}"
        for judge in eval_.judges
        if judge.name in names and not eval_.status_of(judge).blocking
    ]
    return f"{' && '.join(commands)}, so that it counts again; then " if commands else ""


def _may_judge_differently(base_commit: BaseCommit, eval_: Eval) -> bool:
    """Return whether a file of the judges changed; if not, the baseline is old.

    Code of evals, programs that judge, rubrics, labels, calibrations and settings are such files;
    other code, prompts, golden cases, recordings and baselines are not.
    """
    project, repository = base_commit.project, base_commit.repository
    fixtures = repository.inside(project.fixtures_dir)
    rubrics = repository.inside(project.prompts_dir / "judges")
    other = (f"{fixtures}/golden/", f"{fixtures}/recordings/", f"{fixtures}/baselines/")
    ends = (".toml", ".lock", ".txt", ".cfg", ".ini")
    locks = repository.inside(project.prompts_dir / "prompts.lock")
    code = code_of_evals(base_commit) | files_of_judges(base_commit, eval_)
    return any(
        name != locks
        and not name.startswith(other)
        and (
            name.endswith(ends)
            or name.startswith((f"{rubrics}/", f"{fixtures}/"))
            or name in code
            or (name.endswith(".py") and not (repository.top / name).exists())
        )
        for name in base_commit.changed
    )
