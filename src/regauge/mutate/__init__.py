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
- Cases for a survivor: `EvalBench(subject, trials).draw(mutant.prompt, [(case, number)])` draws
  trials of any case of the subject under any prompt text.
"""

from __future__ import annotations

from regauge.mutate._hunt import HuntPolicy
from regauge.mutate._operators import (
    ENTRY_POINTS,
    OPERATORS,
    Change,
    Mutant,
    Operator,
    Place,
    choose_operators,
    load_operators,
    mutants_of,
)
from regauge.mutate._report import (
    UNSCORED,
    MutantRow,
    MutantsFile,
    MutantsFileError,
    MutationReport,
    Score,
    load_mutants,
    mark_equivalent,
    mutants_path,
    report_json,
    report_of,
    save_mutants,
    score_of,
)
from regauge.mutate._run import Measured, Progress, estimate_calls, measure
from regauge.mutate._subject import EvalBench, Subject, subject_of
from regauge.mutate._types import Bench, Case, Found, MutantClass, Observed, Result

__all__ = [
    "ENTRY_POINTS",
    "OPERATORS",
    "UNSCORED",
    "Bench",
    "Case",
    "Change",
    "EvalBench",
    "Found",
    "HuntPolicy",
    "Measured",
    "Mutant",
    "MutantClass",
    "MutantRow",
    "MutantsFile",
    "MutantsFileError",
    "MutationReport",
    "Observed",
    "Operator",
    "Place",
    "Progress",
    "Result",
    "Score",
    "Subject",
    "choose_operators",
    "estimate_calls",
    "load_mutants",
    "load_operators",
    "mark_equivalent",
    "measure",
    "mutants_of",
    "mutants_path",
    "report_json",
    "report_of",
    "save_mutants",
    "score_of",
    "subject_of",
]
