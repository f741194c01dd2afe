"""The table of a decision in Markdown: a line per prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.reports._console import duration, money
from regauge.reports._gate_console import VERDICTS, accepted_cases, difference_words, version_step
from regauge.reports._verbatim import shown_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from regauge.reports._decision import DecisionDocument, PromptDocument
    from regauge.reports._schema import SuiteSummary

__all__ = ["pass_rates", "prompt_table"]


def prompt_table(document: DecisionDocument, suites: Sequence[SuiteSummary]) -> Iterator[str]:
    """What became of each prompt's cases, and what its answers cost and take.

    Args:
        document: What was decided.
        suites: Of the run; without them nothing is said of cost and time.
    """
    met = [
        verdict
        for verdict in VERDICTS
        if any(prompt.counts.get(verdict) for prompt in document.prompts)
    ]
    drawn = any(case.candidate.trials for case in document.cases)
    columns = ["cases", *(VERDICTS[one].column for one in met), *(["pass rate"] if drawn else [])]
    if suites:
        columns += ["cost per 1000", "p50"]
    yield f"| prompt | version | {' | '.join(columns)} |"
    yield f"|---|---|{'--:|' * len(columns)}"
    for prompt in document.prompts:
        cells = [shown_text(prompt.prompt), shown_text(version_step(prompt))]
        cells += [str(sum(prompt.counts.values()))]
        cells += [str(prompt.counts.get(verdict, 0)) for verdict in met]
        cells += [pass_rates(document, prompt)] if drawn else []
        if suites:
            cells += [_step(prompt, suites, _cost), _step(prompt, suites, _latency)]
        yield f"| {' | '.join(cells)} |"


def pass_rates(document: DecisionDocument, prompt: PromptDocument) -> str:
    """Main's and the candidate's, with the 95 % interval of their difference."""
    if prompt.test is not None and prompt.test.verdict == "unmeasured":
        return "-"
    if prompt.test is not None and (difference := prompt.test.difference) is not None:
        rates = f"{_percent(difference.main)} → {_percent(difference.candidate)}"
        left_out = accepted_cases(document, prompt.prompt)
        return f"{rates}, {difference_words(difference, left_out=left_out)}"
    arms = [
        (
            case.candidate,
            case.before.passed + case.today.passed,
            case.before.trials + case.today.trials,
        )
        for case in document.cases
        if case.prompt == prompt.prompt and case.candidate.trials
    ]
    if not arms:
        return "-"
    rate = sum(new.passed / new.trials for new, _, _ in arms) / len(arms)
    of_main = [passed / trials for _, passed, trials in arms if trials]
    before = f"{_percent(sum(of_main) / len(of_main))} → " if len(of_main) == len(arms) else ""
    return f"{before}{_percent(rate)}"


def _percent(rate: float) -> str:
    return f"{100 * rate:.0f} %"


def _step(
    prompt: PromptDocument,
    suites: Sequence[SuiteSummary],
    shown: Callable[[SuiteSummary], str],
) -> str:
    """Main's value and the candidate's, where both were drawn and differ."""
    of_arms = {
        suite.arm: shown(suite)
        for suite in suites
        if suite.prompt == prompt.prompt and suite.trials > suite.unmeasured
    }
    candidate, main = of_arms.get("candidate", "-"), of_arms.get("main")
    return candidate if main in {None, candidate} else f"{main} → {candidate}"


def _cost(suite: SuiteSummary) -> str:
    return "-" if suite.cost_usd is None else money(1000 * suite.cost_usd / max(suite.trials, 1))


def _latency(suite: SuiteSummary) -> str:
    return duration(suite.latency_p50_s)
