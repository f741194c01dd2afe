"""Names of suites in reports: the prompt's, with the dataset's if a prompt has several."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from regauge.reports._documents import DecisionDocument, SuiteSummary


def prompt_of_suite(name: str) -> str:
    """The prompt in the name of a suite.

    >>> prompt_of_suite("triage (mails, 2)"), prompt_of_suite("triage")
    ('triage', 'triage')
    """
    return name.partition(" (")[0]


class SuiteNames:
    """The names of a run's suites; of a gate, those of its decision.

    Args:
        suites: The suites of a run.
        decision: The decision of a gate; None for another run.
    """

    def __init__(
        self, suites: Iterable[SuiteSummary], decision: DecisionDocument | None = None
    ) -> None:
        # Two evals may have the same dataset, but no node.
        self._nodes: dict[str, str] = {}
        if decision is not None:
            self._names = {prompt.prompt for prompt in decision.prompts}
            self._nodes = {case.node: case.prompt for case in decision.cases if case.node}
            return
        datasets: dict[str, set[str]] = {}
        for suite in suites:
            datasets.setdefault(suite.prompt, set()).add(suite.dataset)
        self._names = {
            f"{prompt} ({dataset})"
            for prompt, of_prompt in datasets.items()
            for dataset in of_prompt
            if len(of_prompt) > 1
        }

    def name(self, prompt: str, dataset: str) -> str:
        """The name of a suite."""
        name = f"{prompt} ({dataset})"
        return name if name in self._names else prompt

    def apply(self, suites: Iterable[SuiteSummary]) -> list[SuiteSummary]:
        """The suites with suite names instead of prompt names."""
        return [
            suite.model_copy(update={"prompt": self.name(suite.prompt, suite.dataset)})
            for suite in suites
        ]

    def apply_to_rows(self, rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
        """The rows of trials with suite names instead of prompt names."""
        for row in rows:
            name = self._nodes.get(row["node"]) or self.name(row["prompt"], row["dataset"])
            yield {**row, "prompt": name}
