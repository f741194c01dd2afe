"""Runs evals: binds them to prompts and cases, gets completions, judges them.

`_session.py` is one run in one process. `_spec.py` declares evals and the options of a run, and
`_eval.py` binds them. `_plan.py` plans the trials. `_completions.py` finds completions, and
`_calls.py` calls models for the missing ones; `_lookahead.py` does so before they are judged.
`_trials.py` runs trials, and `_judging.py` judges them. `_result.py` is what a test function
receives, with the text of a failure.

A `PlannedTrial` is a case and a number; run and judged it is a `Trial`, with a `Completion` and
the verdicts of the judges. From it the gate takes `TrialFacts`, the refinement loop an `Outcome`,
mutation testing a `JudgedTrial`, and the run record a `TrialRow`.
"""

from __future__ import annotations

from regauge.runner._budget import Budget as Budget
from regauge.runner._calls import (
    RunProgress as RunProgress,
    ticking as ticking,
)
from regauge.runner._completions import (
    IndependentTrials as IndependentTrials,
)
from regauge.runner._conversation import calls_of as calls_of
from regauge.runner._eval import Eval as Eval
from regauge.runner._missing import (
    MissingCompletions as MissingCompletions,
    MissingJudgements as MissingJudgements,
    MissingRecordings as MissingRecordings,
)
from regauge.runner._plan import (
    PART_RECORDINGS as PART_RECORDINGS,
    PART_TRIALS as PART_TRIALS,
    CaseRequest as CaseRequest,
    Plan as Plan,
    PlannedCase as PlannedCase,
    PlannedTrial as PlannedTrial,
    count_lines as count_lines,
    judges_file as judges_file,
)
from regauge.runner._providers import (
    check_model as check_model,
)
from regauge.runner._result import (
    CallTotals as CallTotals,
    CaseFailed as CaseFailed,
    EvalResult as EvalResult,
    JudgedVerdict as JudgedVerdict,
    SourcedCompletion as SourcedCompletion,
    Trial as Trial,
    TrialOutcome as TrialOutcome,
)
from regauge.runner._session import EvalSession as EvalSession, needed_keys as needed_keys
from regauge.runner._spec import (
    DeclaredEval as DeclaredEval,
    RunOptions as RunOptions,
    declared_evals as declared_evals,
    golden as golden,
    resolve_options as resolve_options,
    spec_of as spec_of,
)
from regauge.runner._trials import (
    TrialRunner as TrialRunner,
    unmeasured_trial as unmeasured_trial,
)
