"""Mutation testing of prompts: does the suite notice when an instruction goes missing?

`_operators.py` makes mutants of a prompt, `_hunt.py` finds the class of one, `_run.py` of all of
them, with the fewest trials. `_subject.py` draws the trials of a project's evals; a simulation puts
another `Bench` in its place. `_report.py` is the result as JSON and the committed file
`fixtures/mutants/NAME.json`; `regauge.reports.mutants` shows it.

To build on it:

- Other operators: a function `(prompt) -> Iterable[Change]` under the entry point group
  `regauge.mutation_operators`.
- Mutants of some lines only: filter `mutants_of(prompt, operators)` by `mutant.place.line` and
  call `measure` with the rest.
- Other reports: everything a page needs is in `MutationReport`; `evidence["outputs"]` of a
  survivor holds both outputs of up to three changed cases.
- Cases for a survivor: `suggest` runs the drafts of proposers; `DraftBenches` draws their trials.
"""

from __future__ import annotations

from regauge.mutate._hunt import HuntPolicy
from regauge.mutate._model import ModelCaseProposer, model_changes
from regauge.mutate._operators import (
    ENTRY_POINTS,
    MODEL,
    OPERATORS,
    Mutant,
    Mutation,
    MutationPlace,
    Operator,
    choose_operators,
    load_operators,
    mutants_of,
)
from regauge.mutate._pull_request import (
    ChangedGuards,
    GuardChange,
    GuardCount,
    GuardEstimate,
    changed_guards,
    estimate_guards,
)
from regauge.mutate._report import (
    UNSCORED,
    Guards,
    MutantRow,
    MutantsFile,
    MutantsFileError,
    MutationReport,
    Score,
    UnmeasuredMutants,
    digests_of,
    load_mutants,
    mark_equivalent,
    mutants_path,
    report_json,
    report_of,
    save_mutants,
    score_of,
    suite_facts,
)
from regauge.mutate._run import MeasuredClasses, MutationProgress, estimate_calls, measure
from regauge.mutate._subject import DraftBenches, EvalBench, MutationSubject, subject_of
from regauge.mutate._suggest import (
    PROVING_TRIALS,
    Draft,
    DraftProposer,
    DraftTrials,
    GuardSuggestion,
    Look,
    UnguardedInstruction,
    is_open,
    problems_of,
    suggest,
    with_cases,
)
from regauge.mutate._types import Bench, Case, Classification, JudgedTrial, MutantClass, Result
from regauge.mutate._variants import VariantProposer

__all__ = [
    "ENTRY_POINTS",
    "MODEL",
    "OPERATORS",
    "PROVING_TRIALS",
    "UNSCORED",
    "Bench",
    "Case",
    "ChangedGuards",
    "Classification",
    "Draft",
    "DraftBenches",
    "DraftProposer",
    "DraftTrials",
    "EvalBench",
    "GuardChange",
    "GuardCount",
    "GuardEstimate",
    "GuardSuggestion",
    "Guards",
    "HuntPolicy",
    "JudgedTrial",
    "Look",
    "MeasuredClasses",
    "ModelCaseProposer",
    "Mutant",
    "MutantClass",
    "MutantRow",
    "MutantsFile",
    "MutantsFileError",
    "Mutation",
    "MutationPlace",
    "MutationProgress",
    "MutationReport",
    "MutationSubject",
    "Operator",
    "Result",
    "Score",
    "UnguardedInstruction",
    "UnmeasuredMutants",
    "VariantProposer",
    "changed_guards",
    "choose_operators",
    "digests_of",
    "estimate_calls",
    "estimate_guards",
    "is_open",
    "load_mutants",
    "load_operators",
    "mark_equivalent",
    "measure",
    "model_changes",
    "mutants_of",
    "mutants_path",
    "problems_of",
    "report_json",
    "report_of",
    "save_mutants",
    "score_of",
    "subject_of",
    "suggest",
    "suite_facts",
    "with_cases",
]
