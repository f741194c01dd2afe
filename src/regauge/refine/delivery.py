"""The result of a run, its rationale, and ways to apply a revision and to undo it."""

from __future__ import annotations

import difflib
import hashlib
import re
from dataclasses import asdict, dataclass, replace
from importlib.resources import files
from itertools import zip_longest
from shlex import quote
from typing import TYPE_CHECKING, Any, cast

from regauge.errors import GitError, UsageError
from regauge.files import write_whole
from regauge.gate import NO_TRIALS
from regauge.git import commit_files, find_changed_files
from regauge.markdown import escape_markdown, fence_lines
from regauge.project import CRITERIA
from regauge.prompts import Repository, bump, lock_of, parse_prompt
from regauge.refine.analysis import (
    format_share,
    p_better,
    paired_counts,
    passed_all,
    sides_of,
    tail,
    variance_of,
)
from regauge.refine.attempts import Attempt
from regauge.refine.document import (
    CaseCount,
    CaseCounts,
    Change,
    Compared,
    CriterionDocument,
    EditResult,
    FailingCheck,
    FeedbackDocument,
    FlakyCheck,
    Gain,
    GoalsDocument,
    HoldoutLooks,
    OpenFailure,
    Question,
    RefinementResult,
    RefinementUsage,
    RejectedEdit,
    RevisionDocument,
    Selection,
    Splits,
    SuiteResult,
    Unverified,
    UnverifiedEdit,
)
from regauge.refine.edits import ReplaceSection, changed_lines, kind_of
from regauge.refine.loop._plan import (
    calls_max,
    calls_wanted,
    describe_goal,
    diagnose_train,
    goals_digest,
    measure_goals,
)
from regauge.refine.runs import RESUMABLE_STOPS, SCHEMA_VERSION, edit_result, read_verified
from regauge.wording import cut, plural, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from regauge.digests import JSON
    from regauge.gate import Count
    from regauge.git import Branch
    from regauge.prompts import Part
    from regauge.refine.analysis import FailureMode, Tally
    from regauge.refine.edits import PromptText
    from regauge.refine.loop._state import Accepted, LoopConfig, LoopState
    from regauge.refine.runs import Run, TrailEvent
    from regauge.refine.subject import Subject

_NOTES = {
    "restore": "Restore the released text for {check}",
    "add-rule": "State what {check} requires",
    "set-number": "Set the number that {check} requires",
    "set-value": "Correct the statement on {check}",
    "set-unit": "Set the unit that {check} requires",
    "take-out": "Remove a statement that made {check} fail",
    "remove-unused": "Remove {check}",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """A proposed prompt file.

    Attributes:
        version: The version in the file; empty without one.
        lock: The text of `prompts.lock` with the new version; empty without a release.
    """

    text: str
    version: str
    lock: str
    note: str
    version_reason: str


def build_revision(
    subject: Subject, text: PromptText, accepted: Sequence[Accepted], *, date: str
) -> Revision:
    """The prompt's file with its new text and version.

    A new rule is a minor version, other wording a patch. A released text keeps its version; an
    unreleased version stays.
    """
    path = subject.prompt.path
    file_text = subject.file_with(text)
    prompt = parse_prompt(file_text, path=path)
    lock = lock_of(path)
    note = "; ".join(dict.fromkeys(note_of(edit) for edit in accepted))
    version = prompt.version
    released = version and lock.get(prompt.name, version)
    if version is None or not released or released.digest == prompt.digest:
        reason = "it is not released yet" if version else "it has none"
        reason = f"its text is that of the released {version}" if released else reason
        return Revision(
            text=file_text, version=str(version or ""), lock="", note=note, version_reason=reason
        )
    part: Part = "patch"
    reason = "other wording"
    if any(isinstance(op, ReplaceSection) for change in accepted for op in change.edit.ops):
        part, reason = "minor", "a section was replaced"
    elif len(text.lines) > len(subject.text.lines):
        part, reason = "minor", "a new rule"
    newest = max(version, lock.entries_of(prompt.name)[-1].version)
    if lock.needs_major(replace(prompt, version=newest.bump(part))) is not None:
        part, reason = "major", "its jsonSchema or inputs changed"
    bumped = bump(file_text, part, path=path, lock=lock, note=note, date=date, allow_unchanged=True)
    return Revision(
        text=bumped.prompt.source,
        version=str(bumped.prompt.version),
        lock=str(bumped.lock),
        note=note,
        version_reason=reason,
    )


def apply_run(run: Run, path: Path) -> list[Path]:
    """Write the proposed files of a run, all or none."""
    files = _read_proposal(run, path)
    if path.read_bytes() == files[path]:
        raise UsageError(f"{path} is what run {run.id} proposes already")
    check_unchanged(run, path)
    (run.directory / "applied.sha256").write_text(_sha(files[path]) + "\n")
    # The lock first: after a failure, the same command can be repeated.
    for file, content in reversed(files.items()):
        write_whole(file, content)
    return [*files]


def _read_proposal(run: Run, path: Path) -> dict[Path, bytes]:
    """The proposed files of a run, after a check of its trail: the prompt, and its lock."""
    read_verified(run)
    if not run.revision.is_file():
        raise UsageError(f"run {run.id} proposes no revision")
    if rejected := run.facts().get("rejected"):
        numbers = " and ".join(map(str, rejected))
        raise UsageError(
            f"edit {numbers} of run {run.id} was rejected, and its revision has it",
            fix=f"regauge refine {quote(run.prompt)} (with --ignore-attempts, it may be proposed"
            " again)",
        )
    text = run.revision.read_bytes()
    files = {path: text}
    if (run.directory / "prompts.lock").is_file():
        lock = lock_of(path)
        # Other prompts may have been released since: only our line is added to what is there.
        files[lock.path] = str(lock.add(parse_prompt(text.decode(), path=path))).encode()
    return files


def check_unchanged(run: Run, path: Path) -> None:
    """Check that a prompt's file is the original of a run, or its revision."""
    if path.read_bytes() not in {run.before.read_bytes(), run.revision.read_bytes()}:
        raise UsageError(
            f"{path} changed since run {run.id} began, so what it verified is not what there is\n"
            f"  fix: restore the file, or start a new run: regauge refine {quote(run.prompt)}"
        )


def roll_back(run: Run, path: Path) -> list[Path]:
    """Restore the replaced files of a run, unless a released version was committed."""
    applied = run.directory / "applied.sha256"
    if not applied.is_file():
        is_done = run.facts()["status"] == "rolled-back"
        text = "is rolled back already" if is_done else "was not applied"
        raise UsageError(f"run {run.id} {text}, so there is nothing to roll back")
    now = path.read_bytes()
    if _sha(now) != applied.read_text().strip():
        if now == run.before.read_bytes():
            message = f"{path} is again what it was before run {run.id}"
            raise UsageError(f"{message}, so there is nothing to roll back")
        fix = f"remove its edits by hand: regauge refine diff {run.id}; the old file: {run.before}"
        raise UsageError(f"{path} changed since run {run.id} was applied", fix=fix)
    lock = lock_of(path)
    prompt = parse_prompt(now.decode(), path=path)
    entry = str((prompt.version and lock.get(prompt.name, prompt.version)) or "")
    is_own = (run.directory / "prompts.lock").is_file() and bool(entry)
    if is_own and _is_committed(lock.path, entry):
        fix = "git revert the commit; or release its old text: regauge bump"
        raise UsageError(f"{prompt.name} {prompt.version} is released and committed", fix=fix)
    write_whole(path, run.before.read_bytes())
    if is_own:
        lines = [line for line in str(lock).splitlines(keepends=True) if line.strip() != entry]
        write_whole(lock.path, "".join(lines).encode())
    applied.unlink()
    return [path, lock.path] if is_own else [path]


def note_of(accepted: Accepted) -> str:
    """The changelog note of an edit."""
    check = accepted.mode.check
    note = _NOTES.get(accepted.edit.strategy)
    if note:
        return note.format(check=check)
    kinds = {kind_of(op) for op in accepted.edit.ops}
    verbs = {
        "insert": "Add a rule for",
        "replace": "Reword a rule for",
        "delete": "Drop a rule against",
        "replace_section": f"Replace {accepted.edit.ops[0].anchor.line.strip()!r} for",
    }
    return f"{verbs[kinds.pop()] if len(kinds) == 1 else 'Revise rules for'} {check}"


def _is_committed(lock: Path, entry: str) -> bool:
    """Return whether the last commit has a line of the lock; False without git."""
    try:
        repository = Repository.open(lock.parent)
        data = repository.read(repository.commit("HEAD"), repository.inside(lock))
    except GitError:
        return False
    return data is not None and entry in data.decode("utf-8", "replace")


def _sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


_RUN = "Refinement-run"


def commit_on_branch(
    run: Run, path: Path, *, name: str, message: str, renew: bool = False
) -> Branch:
    """Commit the revision of a run on a new branch, from the current commit.

    The working tree and the index stay as they are.
    """
    head, files = check_not_committed(run, path)
    name = name or f"refine/{path.name.removesuffix('.prompt.yml')}-{run.id}"
    words = f"{message.rstrip()}\n\n{_RUN}: {run.id}"
    return commit_files(path, head, files, name=name, message=words, renew=renew)


def check_not_committed(run: Run, path: Path) -> tuple[str, dict[str, bytes]]:
    """Check that a commit of a run's revision would not be empty."""
    proposed = _read_proposal(run, path)
    check_unchanged(run, path)
    repository = Repository.open(path.resolve().parent)
    head = repository.commit("HEAD")
    files = {repository.inside(file): content for file, content in proposed.items()}
    if repository.read_all((head, file) for file in files) != [*files.values()]:
        return head, files
    message = f"HEAD has the revision of run {run.id} already"
    if path.read_bytes() == proposed[path]:
        raise UsageError(f"{message}, and so does {path}: there is nothing to commit")
    restore = f"git checkout HEAD -- {quote(str(path))}"
    message = f"{message}: only the working tree differs, so there is nothing to commit"
    raise UsageError(message, fix=f"regauge refine apply {run.id}; or {restore}")


def uncommitted_files(path: Path) -> list[Path]:
    """The files of a prompt, with its lock, that differ from the last commit."""
    return find_changed_files([path.resolve(), lock_of(path).path.resolve()])


def result_of(
    run: str,
    subject: Subject,
    state: LoopState,
    *,
    events: Sequence[TrailEvent],
    revision: Revision | None,
    replayed_calls: int = 0,
    command: str = "",
) -> RefinementResult:
    """The document of a run that has stopped.

    Args:
        command: The command that began it; empty for the shortest one.
    """
    stop, config = state.stop, state.config
    assert stop is not None, "a run that continues has no result"
    began: Mapping[str, Any] = events[0].body
    decisions = [
        cast("dict[str, Any]", decision)
        for event in events[1:]
        for decision in event.body.get("decisions", [])
    ]
    has_revision = revision is not None
    texts = (config.base, *(accepted.text for accepted in state.accepted))
    new_attempts = state.memory.attempts[len(began.get("memory", [])) :]

    def texts_of(event: str) -> list[str]:
        texts = (decision["text"] for decision in decisions if decision["event"] == event)
        return [*dict.fromkeys(texts)]

    failures = next(iter(texts_of("diagnosed")), "")
    return RefinementResult(
        schema_version=SCHEMA_VERSION,
        run=run,
        prompt=subject.prompt.name,
        file=subject.prompt.path.name,
        version=str(subject.prompt.version or ""),
        models=began.get("models", []),
        simulated=any(str(model).startswith("sim:") for model in began.get("models", [])),
        stop=stop,
        next=next_step(run, command or f"regauge refine {quote(subject.prompt.name)}", state),
        diagnosis=failures,
        cases=CaseCounts(train=len(config.train), holdout=len(config.holdout)),
        holdout_looks=HoldoutLooks(
            before=len(config.holdout_looks_before),
            after=len(state.holdout_looks),
            max=config.policy.limits.holdout_looks,
        ),
        changes=[
            change_of(state, accepted, before)
            for accepted, before in zip(state.accepted, texts, strict=False)
        ],
        revision=None if revision is None else _revision(subject, state, revision),
        suite=_suite(state, decisions) if state.accepted else None,
        variance=_variances(state),
        goals=goals_of(state, with_revision=has_revision),
        criteria=criteria_of(state, with_revision=has_revision),
        rejected=_rejected(state, decisions, earlier=len(began.get("memory", []))),
        edits=edit_results(new_attempts, has_proposal=has_revision),
        unreadable=texts_of("unreadable"),
        feedback=_feedback(subject, config),
        warnings=began.get("warnings", []),
        preflight=texts_of("preflight"),
        unverified=_remaining_work(state),
        open=[
            OpenFailure(
                **failing(mode).model_dump(),
                edit_count=_count_edits(mode, state.memory.attempts),
                has_progress=any(
                    attempt.result not in {"screened-out", "guarded"}
                    for attempt in state.memory.lessons(mode.key)
                ),
                limit=_limit_of(mode, state),
            )
            for mode in _remaining(state, has_revision=has_revision, has_found=bool(failures))
        ],
        not_needed=[failing(mode) for mode in state.spared_modes],
        flaky=[
            FlakyCheck(**failing(mode).model_dump(), edit_count=_count_edits(mode, new_attempts))
            for mode in state.flaky
        ],
        questions=[
            Question(
                **failing(mode).model_dump(), kind=critique.kind, hypothesis=critique.hypothesis
            )
            for mode, critique in state.questions
        ],
        usage=_usage(state, replayed_calls),
    )


def _rejected(
    state: LoopState, decisions: Sequence[Mapping[str, Any]], *, earlier: int
) -> list[RejectedEdit]:
    """The edits that were not accepted, and those of earlier runs that prevented one in this run.

    Args:
        earlier: The number of attempts of earlier runs.
    """
    preventing = {decision.get("numbers", {}).get("attempt") for decision in decisions}
    rejected: list[RejectedEdit] = []
    for number, attempt in enumerate(state.memory.attempts):
        is_earlier = number < earlier
        if number in preventing if is_earlier else attempt.result != "accepted":
            rejected.append(RejectedEdit(**asdict(attempt), earlier=is_earlier))
    return rejected


def edit_results(attempts: Iterable[Attempt], *, has_proposal: bool) -> list[EditResult]:
    """Every edit that a run tried, with its last result."""
    accepted = "kept" if has_proposal else "not-verified"
    return [
        edit_result(attempt, accepted if attempt.result == "accepted" else attempt.result)
        for attempt in {attempt.after: attempt for attempt in attempts}.values()
    ]


def _count_edits(mode: FailureMode, attempts: Iterable[Attempt]) -> int:
    """The number of edits tried for a failure mode."""
    return sum(t.failure_mode == mode.key and t.result != "guarded" for t in attempts)


def _limit_of(mode: FailureMode, state: LoopState) -> str:
    """The limit at which failed outputs of the base are cut off; empty without one."""
    base, tally = state.config.base.digest, state.tally
    failures = (o for case in mode.failing for o in tally.failures(base, case, mode.check))
    return next((outcome.limit for outcome in failures if outcome.limit), "")


def _remaining(state: LoopState, *, has_revision: bool, has_found: bool) -> list[FailureMode]:
    """The failures that are left."""
    if has_revision:
        return _still_failing(state)
    closed = {*state.spared_modes, *(mode for mode, _ in state.questions)}
    modes = diagnose_train(state, state.config.tolerated).modes if has_found else ()
    return [mode for mode in modes if mode not in closed]


def _usage(state: LoopState, replayed_calls: int) -> RefinementUsage:
    untested = state.stopped_phase == "confirm" and state.look_number == 1
    return RefinementUsage(
        calls=state.spending.total,
        calls_max=calls_max(state),
        replays=replayed_calls,
        completions=state.spending.calls,
        judge_calls=state.spending.judge_calls,
        model_calls=state.spending.model_calls,
        usd=round(state.spending.usd, 6),
        cycles=state.cycle,
        tested=state.tested - untested,
    )


def change_of(state: LoopState, accepted: Accepted, before: PromptText) -> Change:
    """One accepted edit, with its evidence on independent trials."""
    check, base, new = accepted.mode.check, state.config.base.digest, state.text.digest
    cases = state.config.cases
    added_text, removed_text = changed_lines(before, accepted.text)

    def fresh(split: Sequence[str]) -> Compared:
        return Compared(
            before=_add_up(state.tally.count(base, case, check) for case in split),
            after=_add_up(state.fresh.count(new, case, check) for case in split),
        )

    return Change(
        **failing(accepted.mode).model_dump(),
        strategy=accepted.edit.strategy,
        proposer=accepted.edit.proposer,
        rationale=accepted.edit.rationale,
        added_text=added_text,
        removed_text=removed_text,
        attempt=Attempt.from_edit(
            accepted.edit, before, accepted.text, accepted.mode.key, "accepted"
        ),
        calls=sum(state.tally.trials(accepted.text.digest, case) for case in cases),
        chosen_by=Selection(before=accepted.before, after=accepted.after, p=accepted.p),
        fresh=Splits(train=fresh(state.config.train), holdout=fresh(state.config.holdout)),
        redrawn=_gain(paired_counts(state.fresh, new, base, cases, check)),
        fresh_p=p_better(state.fresh, new, base, cases, check),
    )


def _gain(counts: Sequence[tuple[Count, Count]]) -> Gain | None:
    """The gain in a case's pass rate with its 95 % interval, on trials run again with both."""
    from regauge.stats import rate_difference

    gain = rate_difference(*sides_of(counts)) if counts else None
    if gain is None:
        return None
    return Gain(
        before=_add_up(before for before, _ in counts),
        after=_add_up(after for _, after in counts),
        gain=round(gain.value, 4),
        interval=(round(gain.low, 4), round(gain.high, 4)),
    )


def _add_up(counts: Iterable[Count]) -> CaseCount:
    """Counts of cases together, with the number of cases with trials."""
    counts_known = [count for count in counts if count.trials]
    return CaseCount(**asdict(sum(counts_known, NO_TRIALS)), cases=len(counts_known))


def failing(mode: FailureMode) -> FailingCheck:
    """The failing checks and their cases."""
    return FailingCheck(
        check=mode.check,
        code=mode.code,
        cases=list(mode.failing),
        failures=mode.failures,
        trials=mode.trials,
    )


def goals_of(state: LoopState, *, with_revision: bool) -> GoalsDocument | None:
    """Each goal with the first prompt and with the revision; None without goals."""
    if not state.config.goals:
        return None
    before = measure_goals(state, with_revision=False)
    after = measure_goals(state, with_revision=True) if with_revision else ()
    progress = [
        {**was.goal.to_json(), "before": was.to_json(), "after": now and now.to_json()}
        for was, now in zip_longest(before, after)
    ]
    return GoalsDocument(digest=goals_digest(state.config), progress=progress)


def criteria_of(state: LoopState, *, with_revision: bool) -> list[CriterionDocument]:
    """The pass rate of all checks of a criterion, before and with the revision."""
    cases = state.config.cases

    def passed(tally: Tally, text: str, checks: list[str]) -> CaseCount:
        return _add_up(passed_all(checks, tally.outcomes(text, case)) for case in cases)

    by_criterion = {
        criterion: [
            name for name, check in state.config.checks.items() if check.criterion == criterion
        ]
        for criterion in CRITERIA
    }
    return [
        CriterionDocument(
            criterion=criterion,
            checks=checks,
            before=passed(state.tally, state.config.base.digest, checks),
            after=passed(state.fresh, state.text.digest, checks) if with_revision else None,
        )
        for criterion, checks in by_criterion.items()
        if checks
    ]


def _feedback(subject: Subject, config: LoopConfig) -> FeedbackDocument | None:
    """Human feedback in its own words, without labels."""
    if not config.feedback:
        return None
    evidence = [
        asdict(evidence) for evidence in subject.feedback.evidence if evidence.kind != "label"
    ]
    return FeedbackDocument(summary=config.feedback, remarks=evidence)


def next_step(run: str, command: str, state: LoopState) -> str:
    """The next command for the user, or what else to do; empty for nothing.

    Args:
        command: The command that begins the run.
    """
    stop, config = state.stop, state.config
    assert stop is not None, "a run that continues has no next step"
    limits = config.policy.limits
    if stop.proposal:
        return f"regauge refine apply {run}"
    if stop.reason in RESUMABLE_STOPS:
        calls = f" --budget-calls {calls_wanted(state)}" if stop.reason == "calls" else ""
        return f"regauge refine resume {run}{calls}"
    by_model = _with_option(command, "--proposers", ",".join((*config.proposers, "model")))
    refiner_calls = 2 * max(1, limits.model_calls)
    has_no_model = not config.critics and not config.removals
    _, _, correction = stop.text.partition("\n  fix: ")
    steps: dict[str, str] = {
        "unmeasured": f"{correction}, then: {command}" if correction else command,
        "candidates": command,
        "cycles": _with_option(command, "--max-cycles", 2 * limits.cycles),
        "model-calls": _with_option(command, "--budget-refiner-calls", refiner_calls),
        "unreadable": _with_option(command, "--refiner-model", "PROVIDER:MODEL") * (not correction),
        "underpowered": "add golden cases that exercise the check, or make it steadier",
        "holdout-looks": "reshuffle the split with a new `split_salt` in [tool.regauge], or hold"
        " others out with `split: holdout`",
        "no-new-edit": by_model * has_no_model,
        "no-acceptable-edit": by_model * has_no_model,
        "nothing-to-refine": f"{command} --fix-flaky" * bool(state.flaky and not config.fix_flaky),
    }
    return steps.get(stop.reason, "")


def _with_option(command: str, option: str, value: object) -> str:
    """A command with an option, without an earlier value of it.

    >>> _with_option("regauge refine a --seed=1 --apply", "--seed", 2)
    'regauge refine a --apply --seed 2'
    """
    without = re.sub(rf" {option}[= ]('[^']*'|[^ ]+)", "", command)
    return f"{without} {option} {value}"


def _remaining_work(state: LoopState) -> Unverified | None:
    """The remaining work of a run that was out of calls."""
    if state.stop is None or state.stop.reason != "calls":
        return None
    return Unverified(
        calls=calls_wanted(state),
        edits=[
            UnverifiedEdit(
                check=edit.mode.check,
                strategy=edit.edit.strategy,
                p=edit.p,
                before=edit.before,
                after=edit.after,
                added_text=edit.edit.added_text,
            )
            for edit in state.accepted_edits
        ],
    )


def _still_failing(state: LoopState) -> list[FailureMode]:
    """The open failures in independent trials of the revision, with their counts.

    Chance failures of a check with an accepted edit are left out.
    """
    modes: list[FailureMode] = []
    test, text = state.test, state.text.digest
    for mode in state.open_modes:
        counts = {case: state.fresh.count(text, case, mode.check) for case in mode.cases}
        now = sum(counts.values(), NO_TRIALS)
        is_chance = tail(now.trials, now.failed, test.flaky_rate) >= test.flaky_p
        has_edit = any(accepted.mode.check == mode.check for accepted in state.accepted)
        if not now.trials:
            modes.append(mode)
        elif now.failed and not (has_edit and is_chance):
            failed = tuple(case for case, count in counts.items() if count.failed)
            modes.append(replace(mode, failing=failed, failures=now.failed, trials=now.trials))
    return modes


def _suite(state: LoopState, decisions: Sequence[Mapping[str, Any]]) -> SuiteResult | None:
    """The results of all cases, and the last decision of the gate."""
    suite_decisions = [d for d in decisions if str(d["event"]).startswith("suite-")]
    if not suite_decisions:
        return None
    cases = state.config.cases
    return SuiteResult(
        decision=str(suite_decisions[-1]["event"]).removeprefix("suite-"),
        text=suite_decisions[-1]["text"],
        before=_add_up(state.tally.case_count(state.config.base.digest, case) for case in cases),
        after=_add_up(state.fresh.case_count(state.text.digest, case) for case in cases),
    )


def _variances(state: LoopState) -> dict[str, dict[str, JSON]]:
    """The variance of the prompt before, and of the proposal, over the same cases."""
    texts = {"before": state.config.base, **({"after": state.text} if state.accepted else {})}
    reports = {
        name: variance_of(
            outcome
            for tally in (state.tally, state.fresh)
            for case in state.config.cases
            for outcome in tally.outcomes(text.digest, case)
        )
        for name, text in texts.items()
    }
    return {name: report.to_json() for name, report in reports.items() if report is not None}


def _revision(subject: Subject, state: LoopState, revision: Revision) -> RevisionDocument:
    name = f"{subject.prompt.path.parent.name}/{subject.prompt.path.name}"
    old, new = subject.prompt.source.splitlines(), revision.text.splitlines()
    diff = difflib.unified_diff(old, new, f"a/{name}", f"b/{name}", lineterm="")
    body = list(difflib.ndiff(subject.text.full_text.split("\n"), state.text.full_text.split("\n")))
    return RevisionDocument(
        version=revision.version,
        why_version=revision.version_reason,
        note=revision.note,
        diff="\n".join(diff) + "\n",
        lines_added=sum(line.startswith("+ ") for line in body),
        lines_removed=sum(line.startswith("- ") for line in body),
        growth=round(state.text.size / max(1, subject.text.size) - 1, 4),
    )


def plain(text: object) -> str:
    """Untrusted text as one line without markup or mentions."""
    return escape_markdown(printable(str(text)))


def code(text: object) -> str:
    """Untrusted text for one pair of backticks, also in a table."""
    return " ".join(printable(str(text)).split()).replace("`", "'").replace("|", "\\|")


def code_block(text: str, language: str) -> str:
    """A Markdown code block that its text cannot close."""
    return "\n".join(fence_lines(printable(text).rstrip().split("\n"), language=language))


# Empty parts of the template leave blank lines.
_GAP = re.compile(r"\n{3,}")
# A reader of a pull request sees as many at a glance; the trail has all.
_ROWS_MAX = 12
# A line of text.
_CHARS = 100


def headline(result: RefinementResult) -> str:
    """The result in one sentence."""
    name, stop, revision = result.prompt, result.stop, result.revision
    if stop.reason == "unreadable":
        return f"{name}: nothing could be proposed ({stop.text})"
    if revision is None:
        earlier = sum(edit.earlier for edit in result.rejected)
        text = stop.text
        if earlier:
            text += f"; {plural(earlier, 'edit')} of earlier runs not tried again"
        if stop.reason in {"unmeasured", "interrupted"}:
            return f"{name}: {stop.reason} ({text})"
        title = "interrupted" if stop.reason in RESUMABLE_STOPS else "no change proposed"
        return f"{name}: {title} ({stop.reason}: {text})"
    lines = f"{plural(revision.lines_added, 'line')} added, {revision.lines_removed} removed"
    version = f" as {revision.version}" if revision.version else ""
    return f"{name}: a revision is proposed{version} ({lines}; {result.usage.calls} calls)"


def evidence_lines(result: RefinementResult) -> list[str]:
    """The evidence for a proposal, a line per edit, suite and goal; empty without a proposal."""
    if result.revision is None:
        return []

    def failed(sides: Compared) -> str:
        return f"failed {_failed(sides.before)} trials before, {_failed(sides.after)} after"

    lines = [
        f"{change.check}: " + "; ".join(f"{n}: {failed(sides)}" for n, sides in _compare(change))
        for change in result.changes
    ]
    suite = result.suite
    if suite is not None:
        lines.append(f"every check, all cases: {failed(suite)}; the gate: {suite.decision}")
    goals = result.goals.progress if result.goals is not None else ()
    progress = [(goal["name"], goal["after"] or goal["before"]) for goal in goals]
    return [*lines, *(f"goal {name}: {describe_goal(goal)}" for name, goal in progress)]


def markdown_of(result: RefinementResult) -> str:
    """The rationale: failures, hypotheses, changes, evidence, and cost."""
    from jinja2 import Environment

    environment = Environment(  # noqa: S701 - Markdown; `plain` and `code` escape untrusted text
        trim_blocks=True, lstrip_blocks=True
    )
    filters: dict[str, Any] = {
        "plain": plain,
        "code": code,
        "fenced": code_block,
        "plural": plural,
        "percent": format_share,
        "goal_status": describe_goal,
        "comparisons": _compare,
        "words": _words_of,
    }
    environment.filters.update(filters)
    template = files("regauge.refine").joinpath("rationale.md.j2").read_text("utf-8")
    text = environment.from_string(template).render(
        r=result, headline=headline(result), rows_max=_ROWS_MAX
    )
    return _GAP.sub("\n\n", text).strip() + "\n"


def _compare(change: Change) -> Iterator[tuple[str, Compared]]:
    """The counts for an edit, by group of cases."""
    if change.redrawn is not None:
        yield "run again with both", change.redrawn
    for name, fresh in (("train", change.fresh.train), ("held out", change.fresh.holdout)):
        if fresh.before.trials or fresh.after.trials:
            yield name, fresh


def _failed(count: CaseCount) -> str:
    return f"{count.trials - count.passed} of {count.trials}"


def _words_of(edit: RejectedEdit | UnverifiedEdit) -> str:
    removed = edit.removed_text if isinstance(edit, RejectedEdit) else ""
    added_text, removed_text = (
        code(cut(" ".join(text.split()), _CHARS)) for text in (edit.added_text, removed)
    )
    if not added_text:
        return f" (without `{removed_text}`)" if removed_text else ""
    instead = f" instead of `{removed_text}`" if removed_text else ""
    return f" (`{added_text}`{instead})"
