"""The next step after a decision."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.project import TARGET_KINDS
from regauge.reports._decision import NextDocument

if TYPE_CHECKING:
    from collections.abc import Iterator

    from regauge.reports._decision import DecisionDocument

__all__ = ["next_step"]


def next_step(document: DecisionDocument, missing: str = "") -> NextDocument:
    """What to do about a decision.

    Args:
        document: The decision.
        missing: The command that makes missing trials; empty where no trial is missing.
    """
    match document.decision:
        case "accept":
            return _after_accepting(document)
        case "refused":
            return NextDocument(text="; ".join(one.fix for one in document.refusals))
        case "reject":
            return _after_rejecting(document)
        case "undecided":
            return _after_undecided(missing)
        case "unmeasured":
            fixes = dict.fromkeys(one.fix for one in document.unmeasured if one.fix)
            text = "; ".join(fixes) or "make the missing trials"
            return NextDocument(text=text, command=missing)


def _after_accepting(document: DecisionDocument) -> NextDocument:
    changed = [one.prompt for one in document.prompts if one.state != "unchanged"]
    if not changed:
        return NextDocument(text="merge")
    names = dict.fromkeys(name.partition(" (")[0] for name in changed)
    return NextDocument(
        text="merge, then update the baseline on the base branch",
        command=f"regauge baseline update {' '.join(names)}",
    )


def _after_undecided(missing: str) -> NextDocument:
    text = "undecided is not accepted (exit code 4); continue"
    if "--more-trials" in missing:
        text = (
            "undecided is not accepted (exit code 4); mark the cases that matter as critical, or"
            " continue with the workflow's input `more-trials` or this command"
        )
    return NextDocument(text=text, command=missing)


def _after_rejecting(document: DecisionDocument) -> NextDocument:
    steps = list(dict.fromkeys(_steps(document)))
    blocking = [one.prompt for one in document.cases if one.verdict == "broken" and one.blocks]
    tests = ((one.prompt, one.test) for one in document.prompts)
    worse = [name for name, test in tests if test is not None and test.verdict == "worse"]
    targets = {
        one.prompt for one in document.prompts if one.model.partition(":")[0] in TARGET_KINDS
    }
    prompts = [name for name in (*blocking, *worse) if name not in targets]
    if targets.intersection((*blocking, *worse)):
        steps.append("revert or edit the code of the target")
    if prompts:
        accept = ", accept broken cases in its changelog" if blocking else ""
        steps.append(f"revert or edit the prompt{accept}, or search for a fix")
        prompt = prompts[0].partition(" (")[0]
        return NextDocument(text="; ".join(steps), command=f"regauge refine {prompt}")
    return NextDocument(text="; ".join(steps) or "revert or edit the prompt")


def _steps(document: DecisionDocument) -> Iterator[str]:
    """What fixes the reasons of a rejection, apart from a worse prompt."""
    for prompt in document.prompts:
        yield from (rule.fix or rule.message for rule in prompt.rules)
    if document.audit is not None and document.audit.result == "better":
        yield document.audit.fix
    blocking = {one.verdict for one in document.cases if one.blocks}
    if "removed" in blocking:
        yield "put the removed cases back, or list them under `removed` in the changelog"
    if "new" in blocking:
        yield "fix the new cases, or mark them `tier: tracked`"
    for prompt in document.prompts:
        if prompt.anchor is not None and prompt.anchor.blocks:
            yield f"win back what {prompt.prompt} lost since {prompt.anchor.version}"
