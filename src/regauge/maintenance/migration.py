"""A migration of prompts to another model: gates, refinements, and the changed files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from regauge.errors import UsageError
from regauge.files import write_whole
from regauge.maintenance.collection import option_words, with_evals
from regauge.markdown import escape_markdown
from regauge.prompts import (
    Repository,
    bump,
    find_prompt,
    lock_of,
    parse_prompt,
    read_prompt_text,
    set_contents,
    set_model,
)
from regauge.refine.delivery import apply_run, roll_back
from regauge.refine.runs import find_refinement
from regauge.reports import money, pass_rates
from regauge.runner import PlannedCase, PlannedTrial

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from regauge.project import Project
    from regauge.prompts import PromptLock
    from regauge.providers import ModelId
    from regauge.refine.document import RefinementResult
    from regauge.reports import DecisionDocument, RunRecord
    from regauge.runner import EvalSession

Outcome = Literal["safe", "broke", "undecided", "unmeasured"]
_OUTCOMES: dict[str, Outcome] = {
    "accept": "safe",
    "reject": "broke",
    "undecided": "undecided",
    "refused": "unmeasured",
    "unmeasured": "unmeasured",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationPlan:
    """A prompt to migrate.

    Attributes:
        cases: The number of cases of all its evals.
        cost_usd: The cost of 1,000 calls of its own model in US dollars, measured by the gate or
            else expected; None if the price is unknown.
        new_cost_usd: The same for the new model.
    """

    prompt: str
    model: str
    cases: int
    cost_usd: float | None
    new_cost_usd: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationResult:
    """The result of a prompt on the new model.

    Attributes:
        reasons: The reasons of the gate's decision, most important first.
        broken: The broken cases.
        pass_rate: Pass rates of both models, with the interval of the difference.
        run: The gate's run.
        refinement: The refinement run whose revision was gated; empty without one.
    """

    plan: MigrationPlan
    outcome: Outcome
    reasons: tuple[str, ...]
    broken: tuple[str, ...]
    pass_rate: str
    run: str
    refinement: str = ""


def plan_migration(
    project: Project,
    path: Path | None,
    prompts: Sequence[str],
    model: ModelId,
    *,
    note: Callable[[str], object],
) -> list[MigrationPlan]:
    """The prompts to migrate, with the expected costs of both models.

    Args:
        project: The project.
        path: The directory or file of evals; None for `evals`.
        prompts: The prompts; empty for all with an eval.
        model: The new model.
        note: Called with a line about each prompt that is on the model already.

    Raises:
        GitError: The project is in no repository, or nothing is committed.
        UsageError: There is none, or its file differs from HEAD.
    """

    def act(evals: EvalSession) -> list[MigrationPlan]:
        cases: dict[str, list[PlannedCase]] = {}
        for case in evals.plan.cases:
            if case.eval.target is None:
                cases.setdefault(case.eval.prompt.name, []).append(case)
        for name in [name for name, of_prompt in cases.items() if of_prompt[0].eval.model == model]:
            note(f"{name} is on {model} already")
            del cases[name]
        return [
            MigrationPlan(
                prompt=name,
                model=str(of_prompt[0].eval.model),
                cases=len(of_prompt),
                cost_usd=_cost_of_1000(evals, of_prompt, of_prompt[0].eval.model),
                new_cost_usd=_cost_of_1000(evals, of_prompt, model),
            )
            for name, of_prompt in cases.items()
        ]

    plans = with_evals(project, path, act, prompts=prompts, options=["--record=none"])
    if not plans:
        fix = "name a prompt with an eval and another model; targets have no model"
        raise UsageError(f"there is no prompt to move to {model}", fix=fix)
    repository = Repository.open(project.root)
    head = repository.commit("HEAD")
    for plan in plans:
        file = find_prompt(plan.prompt, root=project.root)
        if repository.read(head, repository.inside(file)) != file.read_bytes():
            raise UsageError(
                f"{project.relative(file)} differs from HEAD, so the model would not be all that"
                " differs\n  fix: commit it, or restore it: git checkout HEAD -- "
                f"{project.relative(file)}"
            )
    return plans


def _cost_of_1000(evals: EvalSession, cases: Sequence[PlannedCase], model: ModelId) -> float | None:
    """The cost of 1,000 calls, from the tokens of recorded calls."""
    draws = [
        PlannedTrial(PlannedCase(replace(case.eval, model=model), case.case), 0)
        for case in cases
        if case.error is None
    ]
    missing = evals.missing_completions(draws)
    costs = [answers.cost_usd for answers in missing if answers.cost_usd is not None]
    if not draws or len(costs) != len(missing):
        return None
    return 1000 * sum(costs) / len(draws)


@dataclass(slots=True, kw_only=True)
class MigrationGates:
    """The gate runs of a migration, with shared budgets.

    Attributes:
        gate: Gates a prompt with options; returns the decision and the run record.
        refine: Refines a prompt with options.
        words: Options of every gate.
        left: The rest of the budgets `usd`, `calls` and `tokens`; None without a limit.
    """

    project: Project
    model: ModelId
    gate: Callable[[str, Sequence[str]], tuple[DecisionDocument, RunRecord]]
    refine: Callable[[str, Sequence[str]], RefinementResult]
    words: Sequence[str]
    left: dict[str, float | None]

    def _spend(self, **amounts: float) -> None:
        """Subtract the use of a gate or refinement from the budgets."""
        for name, amount in amounts.items():
            if (left := self.left[name]) is not None:
                self.left[name] = max(0, left - amount)

    def _options(self) -> list[str]:
        """The options of every gate and refinement, with the rest of the budgets."""
        budgets = {f"budget_{name}": left for name, left in self.left.items()}
        return [*self.words, *option_words(budgets)]

    def migrate(self, plan: MigrationPlan) -> MigrationResult:
        """Gate one prompt on the new model."""
        document, record = self.gate(plan.prompt, [f"--model={self.model}", *self._options()])
        calls = document.calls
        tokens = calls.input_tokens + calls.output_tokens
        self._spend(usd=calls.cost_usd or 0.0, calls=calls.live, tokens=tokens)
        return _result_of(plan, document, record)

    def migrate_refined(
        self, plan: MigrationPlan, broke: MigrationResult
    ) -> tuple[MigrationResult, dict[str, str]]:
        """Refine a prompt on the new model and gate its revision.

        Returns:
            The result, and the revised file by the prompt's name if it is safe.
        """
        result = self.refine(plan.prompt, self._options())
        calls = max(0, result.usage.calls - result.usage.replays)
        self._spend(usd=result.usage.usd, calls=calls)
        run = find_refinement(self.project, result.run)
        if result.revision is None:
            reasons = (*broke.reasons, f"refinement: {result.stop.text}")
            return replace(broke, reasons=reasons, refinement=run.id), {}
        file = find_prompt(plan.prompt, root=self.project.root)
        apply_run(run, file)
        try:
            text = read_prompt_text(file)
            migrated = self.migrate(plan)
        finally:
            roll_back(run, file)
        migrated = replace(migrated, refinement=run.id)
        return migrated, {plan.prompt: text} if migrated.outcome == "safe" else {}


def _result_of(
    plan: MigrationPlan, document: DecisionDocument, record: RunRecord
) -> MigrationResult:
    sides = {eval_.side: eval_ for eval_ in record.evals if eval_.replays + eval_.live}
    costs = {
        side: eval_.cost_usd and 1000 * eval_.cost_usd / (eval_.replays + eval_.live)
        for side, eval_ in sides.items()
    }
    plan = replace(
        plan,
        cost_usd=costs.get("base", plan.cost_usd),
        new_cost_usd=costs.get("candidate", plan.new_cost_usd),
    )
    reasons = [refusal.message for refusal in document.refusals] or [*document.reasons]
    if document.decision == "unmeasured":
        messages = (case.message for case in document.cases if case.status == "unmeasured")
        reasons += [next(messages, ""), f"fix: {document.next.text}"]
    rates = [pass_rates(document, prompt) for prompt in document.prompts]
    return MigrationResult(
        plan=plan,
        outcome=_OUTCOMES[document.decision],
        reasons=tuple(filter(None, reasons)),
        broken=tuple(case.case for case in document.cases if case.status == "broken"),
        pass_rate="; ".join(rate for rate in rates if rate != "-") or "-",
        run=record.id,
    )


def migrated_files(
    project: Project, prompts: Sequence[str], revisions: Mapping[str, str], model: ModelId
) -> dict[Path, bytes]:
    """The changed files of a migration: prompts with the new model and next version, and the lock.

    An unreleased version stays as it is.
    """
    files: dict[Path, bytes] = {}
    date = datetime.now(UTC).date().isoformat()
    locks: dict[Path, PromptLock] = {}
    for name in prompts:
        file = find_prompt(name, root=project.root)
        text = read_prompt_text(file)
        note = f"Move to {model}"
        if name in revisions:
            messages = parse_prompt(revisions[name], path=file).messages
            text = set_contents(text, [message.content for message in messages], path=file)
            note += " and revise for it"
        text = set_model(text, str(model), path=file)
        prompt = parse_prompt(text, path=file)
        lock = locks.get(lock_of(file).path) or lock_of(file)
        if prompt.version is not None and lock.get(name, prompt.version) is not None:
            bumped = bump(text, "minor", path=file, lock=lock, note=note, date=date)
            text = bumped.prompt.source
            locks[lock.path] = bumped.lock
        files[file] = text.encode()
    return files | {path: str(lock).encode() for path, lock in locks.items()}


def write_together(files: Mapping[Path, bytes]) -> None:
    """Write all files, or none of them."""
    before = {path: path.read_bytes() for path in files}
    try:
        for path, data in files.items():
            write_whole(path, data)
    except BaseException:
        for path, old in before.items():
            write_whole(path, old)
        raise


def prices_text(plan: MigrationPlan) -> str:
    """The costs of 1,000 calls of both models."""
    return f"{money(plan.cost_usd)} -> {money(plan.new_cost_usd)}"


def migration_markdown(results: Sequence[MigrationResult], model: ModelId) -> str:
    """The table of a migration, for a pull request."""
    lines = [
        f"Each prompt was gated on its own model against {escape_markdown(str(model))}.",
        "",
        "| prompt | result | model | pass rate | cost per 1000 calls |",
        "|---|---|---|--:|--:|",
    ]
    for migrated in results:
        is_revised = migrated.refinement and migrated.outcome == "safe"
        cells = [
            escape_markdown(migrated.plan.prompt),
            f"{migrated.outcome}, revised" if is_revised else migrated.outcome,
            f"{escape_markdown(migrated.plan.model)} → {escape_markdown(str(model))}",
            migrated.pass_rate,
            prices_text(migrated.plan).replace("->", "→"),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    left = [result for result in results if result.outcome != "safe"]
    if left:
        names = ", ".join(escape_markdown(result.plan.prompt) for result in left)
        lines += ["", f"Left on their model: {names}."]
    lines += ["", f"The model changes on purpose: gate this pull request with `--model {model}`."]
    return "\n".join(lines) + "\n"
