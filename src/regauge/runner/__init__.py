"""Runs evals: binds them to prompts and cases, gets answers, judges them.

`_session.py` is one run in one process. `_suite.py` binds what `_spec.py` declares, `_plan.py`
says which answers are wanted, and `_answers.py` finds them or has them drawn, through
`_lookahead.py` ahead of the case that is judged. `_trials.py` makes trials of them; judges that
ask a model are served by `_model_judging.py`. `_result.py` is what a test function receives,
with the words of a failure. Options are read once into `_options.py`.
"""

from __future__ import annotations

from regauge.runner._answers import Answers, IndependentTrials, Published
from regauge.runner._conversation import calls_of
from regauge.runner._drawing import Budget, Progress
from regauge.runner._missing import MissingAnswers, MissingJudgements
from regauge.runner._options import RunOptions, resolve_options
from regauge.runner._plan import Draw, Plan, PlannedCase, Question, judges_file
from regauge.runner._providers import batch_cost, check_model, price_for
from regauge.runner._result import (
    CallTotals,
    CaseFailed,
    EvalResult,
    JudgedVerdict,
    SourcedCompletion,
    Trial,
    TrialOutcome,
)
from regauge.runner._session import EvalSession, needed_keys
from regauge.runner._shards import PART_RECORDINGS, PART_TRIALS
from regauge.runner._spec import DeclaredEval, EvalSpec, declared_evals, golden, spec_of
from regauge.runner._suite import Suite
from regauge.runner._trials import AskedTrial, Trials, unmeasured_trial

__all__ = [
    "PART_RECORDINGS",
    "PART_TRIALS",
    "Answers",
    "AskedTrial",
    "Budget",
    "CallTotals",
    "CaseFailed",
    "DeclaredEval",
    "Draw",
    "EvalResult",
    "EvalSession",
    "EvalSpec",
    "IndependentTrials",
    "JudgedVerdict",
    "MissingAnswers",
    "MissingJudgements",
    "Plan",
    "PlannedCase",
    "Progress",
    "Published",
    "Question",
    "RunOptions",
    "SourcedCompletion",
    "Suite",
    "Trial",
    "TrialOutcome",
    "Trials",
    "batch_cost",
    "calls_of",
    "check_model",
    "declared_evals",
    "golden",
    "judges_file",
    "needed_keys",
    "price_for",
    "resolve_options",
    "spec_of",
    "unmeasured_trial",
]
