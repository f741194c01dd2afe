"""One run record feeds every report: console summary, Markdown, tables for other tools.

`_record.py` and `_decision.py` are the documents, `_writer.py` writes them as a run happens and
`_runs.py` reads them back, also as tables. Reports of a run are in `_console.py`, `_markdown.py`
and `html`; those of a gate in `_gate_console.py`, `_gate_markdown.py` and
`_github_actions.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.on_demand import names_of

if TYPE_CHECKING:
    from regauge.reports._console import (
        FailedCase,
        StyledLine,
        cause_lines,
        duration,
        failed_lines,
        in_batch,
        judge_lines,
        missing_judgement_lines,
        missing_lines,
        money,
        not_blocking_lines,
        progress_line,
        quantity,
        recorded_lines,
        shard_lines,
        suite_lines,
    )
    from regauge.reports._decision import (
        AnswerDocument,
        CaseDocument,
        DecisionDocument,
        PromptDocument,
    )
    from regauge.reports._gate_console import (
        answer_diff,
        answer_lines,
        decision_lines,
        gate_progress_line,
        verdict_words,
    )
    from regauge.reports._gate_markdown import decision_markdown, pass_rates
    from regauge.reports._github_actions import (
        decision_annotations,
        failure_annotations,
        gate_annotations,
        write_job_summary,
    )
    from regauge.reports._markdown import escape_markdown, run_markdown, shown_name
    from regauge.reports._otel import export_run
    from regauge.reports._record import (
        SCHEMA_VERSION,
        Cause,
        GitState,
        JobState,
        JudgeName,
        MergedShards,
        RunRecord,
        ShardPart,
        ShardSuite,
        Suggestion,
        SuiteSummary,
        TrialRow,
        VerdictRow,
    )
    from regauge.reports._runs import (
        find_run,
        list_runs,
        parse_row,
        read_record,
        read_rows,
        row_lines,
        trials_table,
        write_csv,
        write_parquet,
    )
    from regauge.reports._tally import CauseGroup, RunTally
    from regauge.reports._writer import (
        RunEnd,
        RunWriter,
        git_state,
        job_state,
        junit_properties,
        parts_of,
        rows_of,
    )
else:
    __getattr__ = names_of(
        __name__,
        {
            "_console": (
                "FailedCase StyledLine cause_lines duration failed_lines in_batch judge_lines "
                "missing_judgement_lines missing_lines money not_blocking_lines progress_line "
                "quantity recorded_lines shard_lines suite_lines"
            ),
            "_decision": "AnswerDocument CaseDocument DecisionDocument PromptDocument",
            "_gate_console": (
                "answer_diff answer_lines decision_lines gate_progress_line verdict_words"
            ),
            "_gate_markdown": "decision_markdown pass_rates",
            "_github_actions": (
                "decision_annotations failure_annotations gate_annotations write_job_summary"
            ),
            "_markdown": "escape_markdown run_markdown shown_name",
            "_otel": "export_run",
            "_runs": (
                "find_run list_runs parse_row read_record read_rows row_lines trials_table "
                "write_csv write_parquet"
            ),
            "_record": (
                "Cause GitState JobState JudgeName MergedShards RunRecord SCHEMA_VERSION ShardPart "
                "ShardSuite Suggestion SuiteSummary TrialRow VerdictRow"
            ),
            "_tally": "CauseGroup RunTally",
            "_writer": "RunEnd RunWriter git_state job_state junit_properties parts_of rows_of",
        },
    )

__all__ = [
    "SCHEMA_VERSION",
    "AnswerDocument",
    "CaseDocument",
    "Cause",
    "CauseGroup",
    "DecisionDocument",
    "FailedCase",
    "GitState",
    "JobState",
    "JudgeName",
    "MergedShards",
    "PromptDocument",
    "RunEnd",
    "RunRecord",
    "RunTally",
    "RunWriter",
    "ShardPart",
    "ShardSuite",
    "StyledLine",
    "Suggestion",
    "SuiteSummary",
    "TrialRow",
    "VerdictRow",
    "answer_diff",
    "answer_lines",
    "cause_lines",
    "decision_annotations",
    "decision_lines",
    "decision_markdown",
    "duration",
    "escape_markdown",
    "export_run",
    "failed_lines",
    "failure_annotations",
    "find_run",
    "gate_annotations",
    "gate_progress_line",
    "git_state",
    "in_batch",
    "job_state",
    "judge_lines",
    "junit_properties",
    "list_runs",
    "missing_judgement_lines",
    "missing_lines",
    "money",
    "not_blocking_lines",
    "parse_row",
    "parts_of",
    "pass_rates",
    "progress_line",
    "quantity",
    "read_record",
    "read_rows",
    "recorded_lines",
    "row_lines",
    "rows_of",
    "run_markdown",
    "shard_lines",
    "shown_name",
    "suite_lines",
    "trials_table",
    "verdict_words",
    "write_csv",
    "write_job_summary",
    "write_parquet",
]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
