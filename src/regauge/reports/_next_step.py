"""The next step after a decision."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from regauge.project import TARGET_KINDS
from regauge.reports._console import prompt_of_eval
from regauge.reports._documents import NextDocument

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from regauge.reports._documents import DecisionDocument, Rows

# Kinds of failures that persist in further calls: of targets, services, conversations, judges.
_LASTING = frozenset({
    "import", "outside", "signature", "malformed", "too-large", "closed",
    "exception", "crash", "command", "unavailable", "connection", "timeout",
    "authentication", "permission", "quota", "not-found", "bad-request", "redirect",
    "ConversationError", "JudgeError", "MissingOutputError",
})  # fmt: skip


def lasting_fix(rows: Rows) -> str:
    """The fix of the first failure that would persist, of the base last; empty without one."""
    causes = [row["cause"] for trials in rows.values() for row in trials if row["cause"]]
    causes.sort(key=lambda cause: cause["kind"] == "unavailable")
    lasting = (cause["message"] for cause in causes if cause["kind"] in _LASTING)
    return next(filter(None, (message.partition("\n  fix: ")[2] for message in lasting)), "")


def next_step(
    document: DecisionDocument,
    missing: str = "",
    *,
    fix: str = "",
    evals_option: Sequence[str] = (),
) -> NextDocument:
    """The next step after a decision.

    Args:
        document: The decision.
        missing: The command that runs missing trials; empty if none is missing.
        fix: The fix to make first; empty without one.
        evals_option: The option with which commands find the evals; empty for none.
    """
    match document.decision:
        case "accept":
            return _after_accepting(document, evals_option)
        case "refused":
            # The fixes of two prompts share steps.
            steps = (step for refusal in document.refusals for step in refusal.fix.split("; "))
            return NextDocument(text="; ".join(dict.fromkeys(steps)))
        case "reject":
            return _after_rejecting(document, evals_option)
        case "undecided":
            step = "continue"
            if document.base_unavailable:
                step = (
                    "the base cannot be called: merge after a review of these cases, or"
                    f" {fix or 'have it run here'} and continue"
                )
            elif fix:
                step = f"{fix}, and continue"
            elif "--more-trials" in missing:
                step = (
                    "mark the cases that matter as critical, or continue with the workflow's input"
                    " `more-trials` or this command"
                )
            text = f"undecided is not accepted (exit code 4); {step}"
            return NextDocument(text=text, command=missing)
        case "unmeasured":
            fixes = dict.fromkeys(omission.fix for omission in document.unmeasured if omission.fix)
            open_ = any(guards.below for prompt in document.prompts for guards in prompt.guards)
            action = "measure the changed lines with a key" if open_ else "make the missing trials"
            text = "; ".join(fixes) or (f"{fix}; then {action}" if fix else action)
            return NextDocument(text=text, command=missing)


def with_failed_tests(document: DecisionDocument, tests: Mapping[str, str]) -> DecisionDocument:
    """The decision, whose next step is to fix tests that failed apart from their judges."""
    if not tests or document.decision != "accept":
        return document
    step = NextDocument(text="fix the tests that failed apart from judges, before the merge")
    return document.model_copy(update={"next": step})


def _after_accepting(document: DecisionDocument, evals_option: Sequence[str]) -> NextDocument:
    changed = [prompt.prompt for prompt in document.prompts if prompt.state != "unchanged"]
    if document.not_measured:
        # The command that runs more measures the other edits, too.
        command = max((edit.command for edit in document.not_measured), key=len)
        return NextDocument(text="measure what ran no trial before the merge", command=command)
    if document.provisional and any(case.status == "undecided" for case in document.cases):
        words = ["regauge", "gate", document.ref, "--record=missing", *evals_option]
        command = shlex.join(words)
        return NextDocument(text="have undecided cases tested before the merge", command=command)
    if not changed:
        return NextDocument(text="merge")
    names = dict.fromkeys(map(prompt_of_eval, changed))
    return NextDocument(
        text="merge, then update the baseline on the base branch",
        command=shlex.join(["regauge", "baseline", "update", *names, *evals_option]),
    )


def _after_rejecting(document: DecisionDocument, evals_option: Sequence[str]) -> NextDocument:
    steps = list(dict.fromkeys(_steps(document, evals_option)))
    blocking = [case.prompt for case in document.cases if case.status == "broken" and case.blocks]
    tests = ((prompt.prompt, prompt.test) for prompt in document.prompts)
    worse = [name for name, test in tests if test is not None and test.status == "worse"]
    targets = {
        prompt.prompt
        for prompt in document.prompts
        if prompt.model.partition(":")[0] in TARGET_KINDS
    }
    names = [name for name in (*blocking, *worse) if name not in targets]
    if targets.intersection((*blocking, *worse)):
        accept = ", or accept broken cases in its `changelog`" if blocking else ""
        steps.append(f"revert or edit the code of the target{accept}")
    prompts = list(dict.fromkeys(map(prompt_of_eval, names)))
    if prompts:
        several = len(prompts) > 1
        prompt = f"prompts ({', '.join(prompts)})" if several else "prompt"
        changelog = "their changelogs" if several else "its changelog"
        accept = f", accept broken cases in {changelog}" if blocking else ""
        scope = " of each" if several else ""
        steps.append(f"revert or edit the {prompt}{accept}, or search for a fix{scope}")
        command = shlex.join(["regauge", "refine", prompts[0], *evals_option])
        return NextDocument(text="; ".join(steps), command=command)
    return NextDocument(text="; ".join(steps) or "revert or edit the prompt")


def _steps(document: DecisionDocument, evals_option: Sequence[str]) -> Iterator[str]:
    """The fixes for the reasons of a rejection, apart from a worse prompt."""
    for prompt in document.prompts:
        yield from (rule.fix or rule.message for rule in prompt.rules)
    if document.audit is not None and document.audit.result == "better":
        yield document.audit.fix
    blocking = {case.status for case in document.cases if case.blocks}
    if "removed" in blocking:
        yield "put the removed cases back, or list them under `removed` in the changelog"
    if "new" in blocking:
        yield "fix the new cases, or mark them `tier: tracked`"
    for prompt in document.prompts:
        if prompt.anchor is not None and prompt.anchor.blocks:
            yield f"win back what {prompt.prompt} lost since {prompt.anchor.version}"
        for guards in prompt.guards:
            if guards.below == "floor":
                command = shlex.join(["regauge", "mutate", guards.prompt, *evals_option])
                yield f"add golden cases or judges for unguarded lines ({command})"
