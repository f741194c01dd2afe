"""`regauge migrate`: gate every prompt on its own model against another one."""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import click

from regauge.cli._options import (
    apply_option,
    budget_options,
    concurrency_option,
    dry_run_option,
    evals_option,
    json_option,
    record_option,
)
from regauge.cli._proposals import ProposalBranch
from regauge.cli._terminal import Meter, echo, echo_json
from regauge.cli.gate import run_gate
from regauge.cli.refine import refine_for_model
from regauge.errors import UsageError
from regauge.files import write_whole
from regauge.git import commit_files
from regauge.maintenance.collection import option_words, with_evals
from regauge.markdown import escape_markdown
from regauge.model_id import parse_model_id
from regauge.project import Project
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
from regauge.pytest_gate import GateRequest
from regauge.refine.delivery import apply_run, roll_back
from regauge.refine.runs import find_refinement
from regauge.reports import money, pass_rates
from regauge.runner import PlannedCase, PlannedTrial, check_model
from regauge.wording import first_of, plural, table_lines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from regauge.prompts import PromptLock
    from regauge.providers import ModelId
    from regauge.reports import DecisionDocument, RunRecord
    from regauge.runner import EvalSession

__all__ = ["command"]

_EPILOG = """\
\b
Examples:
  regauge migrate --to openai:gpt-5.4-mini --dry-run     calls and prices of both models
  regauge migrate --to openai:gpt-5.4-mini               every prompt that has an eval
  regauge migrate --to openai:gpt-5.4-mini triage --refine --apply
  regauge migrate --to openai:gpt-5.4-mini --refine --pr

\b
Exit codes: 0 every prompt is safe, 1 a prompt broke, 2 wrong use or a faulty file,
3 unmeasured, 4 undecided, 130 Ctrl-C (the same command continues).
"""
Outcome = Literal["safe", "broke", "undecided", "unmeasured"]
_OUTCOMES: dict[str, Outcome] = {
    "accept": "safe",
    "reject": "broke",
    "undecided": "undecided",
    "refused": "unmeasured",
    "unmeasured": "unmeasured",
}
_EXIT_CODES: dict[Outcome, int] = {"broke": 1, "unmeasured": 3, "undecided": 4, "safe": 0}
_STYLES: dict[Outcome, str] = {"safe": "green", "broke": "red"}
_NAMES_MAX = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class _PromptPlan:
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
class _MigrationResult:
    """The result of a prompt on the new model.

    Attributes:
        reasons: The reasons of the gate's decision, most important first.
        broken: The broken cases.
        pass_rate: Pass rates of both models, with the interval of the difference.
        run: The gate's run.
        refinement: The refinement run whose revision was gated; empty without one.
    """

    plan: _PromptPlan
    outcome: Outcome
    reasons: tuple[str, ...]
    broken: tuple[str, ...]
    pass_rate: str
    run: str
    refinement: str = ""


@click.command(name="migrate", epilog=_EPILOG)
@click.argument("prompts", nargs=-1, metavar="[NAME]...")
@click.option(
    "--to", "target_model", required=True, metavar="MODEL", help="The new model, provider:model."
)
@click.option("--refine", is_flag=True, help="Refine what broke on the new model, and gate again.")
@apply_option
@click.option("--pr", is_flag=True, help="Open a pull request with the safe prompt files.")
@record_option()
@dry_run_option
@concurrency_option
@budget_options
@evals_option
@json_option
def command(
    prompts: tuple[str, ...],
    *,
    target_model: str,
    dry_run: bool,
    refine: bool,
    apply_it: bool,
    pr: bool,
    path: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Gate prompts on their own model against MODEL: each is safe, broke or undecided.

    Each NAME, or every prompt with an eval, is compared as by `regauge gate HEAD --model MODEL`.
    Commit the prompt files first. --apply writes `model: MODEL` and the next version into safe
    ones.
    """
    project = Project.find()
    model = parse_model_id(target_model, location="--to")
    check_model(project.settings, model)
    plans = _plan(project, path, prompts, model)
    if dry_run:
        _print_plan(plans, model, as_json=as_json)
        return
    proposal = None
    if pr:
        name = "".join(c if c.isalnum() or c in "._-" else "-" for c in str(model))
        paths = [find_prompt(plan.prompt, root=project.root) for plan in plans]
        proposal = ProposalBranch.prepare(
            project, paths, lambda base: f"migrate/{name}-on-{base}", partial(echo, err=True)
        )
    left = {name: options.pop(f"budget_{name}") for name in ("usd", "calls", "tokens")}
    gate = _GateRuns(
        project=project, model=model, path=path, words=option_words(options), left=left
    )
    results: list[_MigrationResult] = []
    contents: dict[str, str] = {}
    for plan in plans:
        result = gate.migrate(plan)
        if refine and result.outcome == "broke":
            result, files_revised = gate.refine(plan, result)
            contents |= files_revised
        results.append(result)
        echo(f"{plan.prompt}: {result.outcome}", style=_STYLES.get(result.outcome, ""), err=True)
    if not as_json:
        _print(results, model, hint=not (apply_it or pr))
    done: dict[str, Any] = {}
    safe = [result.plan.prompt for result in results if result.outcome == "safe"]
    files = _migrated_files(project, safe, contents, model)
    try:
        if apply_it:
            _write(files)
            done["wrote"] = [project.relative(file).as_posix() for file in files]
            for name in done["wrote"]:
                echo(f"wrote {name}", err=as_json)
        if proposal is not None and files:
            title = f"Move {plural(len(safe), 'prompt')} to {model}"
            repository = Repository.open(project.root)
            branch = commit_files(
                proposal.path,
                repository.commit("HEAD"),
                {repository.inside(path): data for path, data in files.items()},
                name=proposal.name,
                message=f"{title}\n\n{', '.join(safe)}\n",
                renew=True,
            )
            body = _markdown(results, model)
            done["pull_request"] = proposal.open(branch, title=title, body=body)
    finally:
        if as_json:
            document = {"to": str(model), "prompts": [*map(asdict, results)], "done": done}
            echo_json(document)
    outcomes = {result.outcome for result in results}
    code = next((code for outcome, code in _EXIT_CODES.items() if outcome in outcomes), 0)
    click.get_current_context().exit(code)


def _plan(
    project: Project, path: Path | None, prompts: Sequence[str], model: ModelId
) -> list[_PromptPlan]:
    """The prompts to migrate, with the expected costs of both models.

    Raises:
        GitError: The project is in no repository, or nothing is committed.
        UsageError: There is none, or its file differs from HEAD.
    """

    def act(evals: EvalSession) -> list[_PromptPlan]:
        cases: dict[str, list[PlannedCase]] = {}
        for case in evals.plan.cases:
            if case.suite.target is None:
                cases.setdefault(case.suite.prompt.name, []).append(case)
        for name in [
            name for name, of_prompt in cases.items() if of_prompt[0].suite.model == model
        ]:
            click.echo(f"{name} is on {model} already", err=True)
            del cases[name]
        return [
            _PromptPlan(
                prompt=name,
                model=str(of_prompt[0].suite.model),
                cases=len(of_prompt),
                cost_usd=_cost_of_1000(evals, of_prompt, of_prompt[0].suite.model),
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
        PlannedTrial(PlannedCase(replace(case.suite, model=model), case.case), 0)
        for case in cases
        if case.error is None
    ]
    missing = evals.missing_completions(draws)
    costs = [answers.cost_usd for answers in missing if answers.cost_usd is not None]
    if not draws or len(costs) != len(missing):
        return None
    return 1000 * sum(costs) / len(draws)


@dataclass(slots=True, kw_only=True)
class _GateRuns:
    """The gate runs of a migration, with shared budgets.

    Attributes:
        words: Options of every gate.
        left: The rest of the budgets `usd`, `calls` and `tokens`; None without a limit.
    """

    project: Project
    model: ModelId
    path: Path | None
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

    def migrate(self, plan: _PromptPlan) -> _MigrationResult:
        """Gate one prompt on the new model."""
        meter = Meter()
        command = ["regauge", *sys.argv[1:]]
        request = GateRequest(
            ref="HEAD", is_partial=True, rerun_command=command, print_line=meter.update
        )
        with meter:
            decided = run_gate(
                self.project,
                request,
                self.path,
                prompts=(plan.prompt,),
                words=[f"--model={self.model}", *self._options()],
                as_json=True,
            )
        assert decided is not None, "only an estimate decides nothing"
        document, record, _ = decided
        calls = document.calls
        tokens = calls.input_tokens + calls.output_tokens
        self._spend(usd=calls.cost_usd or 0.0, calls=calls.live, tokens=tokens)
        return _migrate(plan, document, record)

    def refine(
        self, plan: _PromptPlan, broke: _MigrationResult
    ) -> tuple[_MigrationResult, dict[str, str]]:
        """Refine a prompt on the new model and gate its revision.

        Returns:
            The result, and the revised file by the prompt's name if it is safe.
        """
        result = refine_for_model(
            self.project,
            plan.prompt,
            self.path,
            model=str(self.model),
            words=self._options(),
        )
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


def _migrate(plan: _PromptPlan, document: DecisionDocument, record: RunRecord) -> _MigrationResult:
    sides = {suite.side: suite for suite in record.suites if suite.replays + suite.live}
    costs = {
        side: suite.cost_usd and 1000 * suite.cost_usd / (suite.replays + suite.live)
        for side, suite in sides.items()
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
    return _MigrationResult(
        plan=plan,
        outcome=_OUTCOMES[document.decision],
        reasons=tuple(filter(None, reasons)),
        broken=tuple(case.case for case in document.cases if case.status == "broken"),
        pass_rate="; ".join(rate for rate in rates if rate != "-") or "-",
        run=record.id,
    )


def _migrated_files(
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


def _write(files: Mapping[Path, bytes]) -> None:
    """Write all files, or none of them."""
    before = {path: path.read_bytes() for path in files}
    try:
        for path, data in files.items():
            write_whole(path, data)
    except BaseException:
        for path, old in before.items():
            write_whole(path, old)
        raise


def _print_plan(plans: Sequence[_PromptPlan], model: ModelId, *, as_json: bool) -> None:
    if as_json:
        document = {"to": str(model), "prompts": [asdict(plan) for plan in plans]}
        echo_json(document)
        return
    rows = [["prompt", "model", "cases", "cost per 1000 calls"]]
    rows += [
        [plan.prompt, f"{plan.model} -> {model}", str(plan.cases), _prices(plan)] for plan in plans
    ]
    for line in table_lines(rows):
        echo(line)


def _print(results: Sequence[_MigrationResult], model: ModelId, *, hint: bool) -> None:
    rows = [["prompt", "result", "model", "pass rate", "cost per 1000 calls"]]
    rows += [
        [
            result.plan.prompt,
            result.outcome,
            f"{result.plan.model} -> {model}",
            result.pass_rate,
            _prices(result.plan),
        ]
        for result in results
    ]
    styles = ["", *(_STYLES.get(result.outcome, "") for result in results)]
    for line, style in zip(table_lines(rows), styles, strict=True):
        echo(line, style=style)
    for row in results:
        if row.outcome != "safe":
            echo(f"\n{row.plan.prompt}: {row.outcome}", bold=True)
            for reason in row.reasons:
                echo(f"  {reason}")
            if row.broken:
                echo(f"  broken: {first_of(row.broken, _NAMES_MAX)}")
            echo(f"  details: regauge report {row.run}")
            if row.outcome == "broke" and not row.refinement:
                echo(f"  next: regauge migrate --to {model} {row.plan.prompt} --refine")
        elif row.refinement:
            echo(f"\n{row.plan.prompt}: safe with the revision of {row.refinement}", bold=True)
            echo(f"  why: regauge refine show {row.refinement}")
    if hint and any(result.outcome == "safe" for result in results):
        echo("\nno file changed; --apply writes the model into the safe prompts, --pr proposes it")


def _prices(plan: _PromptPlan) -> str:
    return f"{money(plan.cost_usd)} -> {money(plan.new_cost_usd)}"


def _markdown(results: Sequence[_MigrationResult], model: ModelId) -> str:
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
            _prices(migrated.plan).replace("->", "→"),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    left = [result for result in results if result.outcome != "safe"]
    if left:
        names = ", ".join(escape_markdown(result.plan.prompt) for result in left)
        lines += ["", f"Left on their model: {names}."]
    lines += ["", f"The model changes on purpose: gate this pull request with `--model {model}`."]
    return "\n".join(lines) + "\n"
