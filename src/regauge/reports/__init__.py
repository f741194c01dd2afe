"""One run record feeds every report: console summary, Markdown, tables for other tools.

`_documents.py` declares the documents, `_writer.py` writes them as a run happens, `_runs.py`
reads them and exports them. Reports of a run are in `_console.py`, `_markdown.py`
and `html`; those of a gate in `_gate_console.py`, `_gate_markdown.py` and
`_github_actions.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.on_demand import lazy_names

if TYPE_CHECKING:
    from regauge.reports._console import (
        FailedCase as FailedCase,
        StyledLine as StyledLine,
        cause_lines as cause_lines,
        estimated_cost as estimated_cost,
        eval_lines as eval_lines,
        eval_titles as eval_titles,
        failed_case_lines as failed_case_lines,
        failed_lines as failed_lines,
        failed_test_notes as failed_test_notes,
        failed_tests_text as failed_tests_text,
        in_batch as in_batch,
        judge_lines as judge_lines,
        missing_judgement_lines as missing_judgement_lines,
        missing_lines as missing_lines,
        money as money,
        not_blocking_lines as not_blocking_lines,
        progress_line as progress_line,
        prompt_of_eval as prompt_of_eval,
        quantity as quantity,
        recorded_lines as recorded_lines,
        recorded_noun as recorded_noun,
        shard_lines as shard_lines,
        stored_lines as stored_lines,
    )
    from regauge.reports._decide_again import decide_again as decide_again
    from regauge.reports._documents import (
        SCHEMA_VERSION as SCHEMA_VERSION,
        CallUsage as CallUsage,
        CaseDocument as CaseDocument,
        Cause as Cause,
        DecisionDocument as DecisionDocument,
        EvalSummary as EvalSummary,
        GitState as GitState,
        MeasuredEval as MeasuredEval,
        MergedShards as MergedShards,
        OutputDocument as OutputDocument,
        PromptDocument as PromptDocument,
        RunRecord as RunRecord,
        ShardEval as ShardEval,
        ShardPart as ShardPart,
        Suggestion as Suggestion,
        TrialRow as TrialRow,
        VerdictRow as VerdictRow,
    )
    from regauge.reports._gate_console import (
        decision_lines as decision_lines,
        gate_progress_line as gate_progress_line,
        output_diff as output_diff,
        output_lines as output_lines,
        status_words as status_words,
    )
    from regauge.reports._gate_markdown import (
        decision_markdown as decision_markdown,
        pass_rates as pass_rates,
        record_markdown as record_markdown,
    )
    from regauge.reports._github_actions import (
        comment_markdown as comment_markdown,
        decision_annotations as decision_annotations,
        failure_annotations as failure_annotations,
        gate_annotations as gate_annotations,
        write_job_summary as write_job_summary,
    )
    from regauge.reports._markdown import (
        run_headline as run_headline,
        run_markdown as run_markdown,
        shown_name as shown_name,
    )
    from regauge.reports._next_step import with_failed_tests as with_failed_tests
    from regauge.reports._runs import (
        export_run as export_run,
        find_run as find_run,
        list_runs as list_runs,
        parse_row as parse_row,
        read_record as read_record,
        read_rows as read_rows,
        row_lines as row_lines,
        write_csv as write_csv,
        write_parquet as write_parquet,
    )
    from regauge.reports._tally import (
        WORST_FIRST as WORST_FIRST,
        RunTally as RunTally,
        eval_of as eval_of,
    )
    from regauge.reports._writer import (
        RunEnd as RunEnd,
        RunWriter as RunWriter,
        git_state as git_state,
        job_state as job_state,
        junit_properties as junit_properties,
        parts_of as parts_of,
        rows_of as rows_of,
    )
else:
    __getattr__, __dir__ = lazy_names(__name__)
