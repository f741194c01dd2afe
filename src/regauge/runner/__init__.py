"""Runs evals: binds them to prompts and cases, gets answers, judges them.

`_session.py` is one run in one process. `_suite.py` binds what `_spec.py` declares, `_plan.py`
says which answers are wanted, and `_answers.py` finds them or has them drawn, through
`_lookahead.py` ahead of the case that is judged. `_trials.py` makes trials of them; `_judging.py`
judges them, and serves judges that ask a model. `_result.py` is what a test function receives,
with the words of a failure. `_spec.py` also holds the options of a run.
"""

from __future__ import annotations

from regauge.runner._answers import (
    IndependentTrials as IndependentTrials,
)
from regauge.runner._conversation import calls_of as calls_of
from regauge.runner._drawing import (
    Budget as Budget,
    DrawProgress as DrawProgress,
    ticking as ticking,
)
from regauge.runner._missing import (
    MissingAnswers as MissingAnswers,
    MissingJudgements as MissingJudgements,
    MissingRecordings as MissingRecordings,
)
from regauge.runner._plan import (
    PART_RECORDINGS as PART_RECORDINGS,
    PART_TRIALS as PART_TRIALS,
    CaseRequest as CaseRequest,
    Draw as Draw,
    Plan as Plan,
    PlannedCase as PlannedCase,
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
from regauge.runner._suite import Eval as Eval
from regauge.runner._trials import (
    Trials as Trials,
    unmeasured_trial as unmeasured_trial,
)
