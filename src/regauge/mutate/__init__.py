"""Mutation testing of prompts: does an eval fail if an instruction is missing?

`_operators.py` makes mutants of a prompt. `_classify.py` classifies one mutant and `_run.py` all of
them, with few trials. `_subject.py` runs the trials of a project's evals; a simulation replaces it
with another `Bench`. `_report.py` is the result as JSON and the committed file
`fixtures/mutants/NAME.json`; `regauge.reports.mutants` renders it.

To build on it:

- Other operators: a function `(prompt) -> Iterable[Mutation]` under the entry point group
  `regauge.mutation_operators`.
- Mutants of some lines only: filter `mutants_of(prompt, operators)` by `mutant.place.line` and call
  `measure` with the rest.
- Other reports: everything a page needs is in `MutationReport`; `evidence["outputs"]` of a survivor
  holds both outputs of up to three changed cases.
- Cases for a survivor: `suggest` tests the drafts of proposers; `DraftBenches` runs their trials.
"""

from __future__ import annotations

from regauge.mutate._classify import ClassificationPolicy as ClassificationPolicy
from regauge.mutate._model import (
    ModelCaseProposer as ModelCaseProposer,
    model_changes as model_changes,
)
from regauge.mutate._operators import (
    MODEL as MODEL,
    OPERATORS as OPERATORS,
    Mutant as Mutant,
    Mutation as Mutation,
    MutationPlace as MutationPlace,
    Operator as Operator,
    choose_operators as choose_operators,
    mutants_of as mutants_of,
)
from regauge.mutate._pull_request import (
    ChangedGuards as ChangedGuards,
    GuardChange as GuardChange,
    changed_guards as changed_guards,
    estimate_guards as estimate_guards,
)
from regauge.mutate._report import (
    UNSCORED as UNSCORED,
    MutantRow as MutantRow,
    MutantsFile as MutantsFile,
    MutationReport as MutationReport,
    Score as Score,
    UnmeasuredMutants as UnmeasuredMutants,
    digests_of as digests_of,
    eval_facts as eval_facts,
    load_mutants as load_mutants,
    mark_equivalent as mark_equivalent,
    mutants_errors as mutants_errors,
    mutants_path as mutants_path,
    report_json as report_json,
    report_of as report_of,
    save_mutants as save_mutants,
    score_of as score_of,
)
from regauge.mutate._run import (
    MeasuredClasses as MeasuredClasses,
    MutationProgress as MutationProgress,
    estimate_calls as estimate_calls,
    measure as measure,
)
from regauge.mutate._subject import (
    DraftBenches as DraftBenches,
    EvalBench as EvalBench,
    MutationSubject as MutationSubject,
    subject_of as subject_of,
)
from regauge.mutate._suggest import (
    PROVING_TRIALS as PROVING_TRIALS,
    Draft as Draft,
    DraftProposer as DraftProposer,
    DraftRunner as DraftRunner,
    GuardSuggestion as GuardSuggestion,
    UnguardedInstruction as UnguardedInstruction,
    add_cases as add_cases,
    find_unguarded as find_unguarded,
    is_open as is_open,
    suggest as suggest,
)
from regauge.mutate._types import (
    Case as Case,
    Classification as Classification,
    JudgedTrial as JudgedTrial,
    MutantClass as MutantClass,
)
from regauge.mutate._variants import VariantProposer as VariantProposer
