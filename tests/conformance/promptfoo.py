"""Assertions of promptfoo with our judges.

    python -m tests.conformance.promptfoo FILE

prints one JSON line per row: `{"id", "pass", "score"}`, and `error` where the row makes no sense;
`pass` and `score` are null where no judge can take the row.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from regauge import judges
from regauge.datasets import GoldenCase
from regauge.errors import RegaugeError
from regauge.judges import JudgedOutput, Rule, Verdict, not_
from regauge.providers import Completion, Usage
from tests.conformance._calls import calls_of
from tests.conformance._javascript import translated, utf16
from tests.conformance._rows import Complaints, early_close, rows_of

Row = Mapping[str, Any]
GRADED = frozenset({"rouge-n", "bleu", "gleu", "meteor", "perplexity-score"})
"""Assertions whose score is a degree; the others give 1 or 0, where ours say how near it was."""


def rendered(value: Any, variables: Mapping[str, Any]) -> Any:
    """A value with its `{{name}}` filled in."""
    if isinstance(value, str):
        return re.sub(r"\{\{\s*(\w+)\s*\}\}", lambda name: str(variables.get(name[1], "")), value)
    if isinstance(value, list):
        return [rendered(part, variables) for part in value]
    return value


def listed(value: Any) -> list[str]:
    """A list of texts, which may be written with commas."""
    if isinstance(value, str):
        value = next(csv.reader([value], skipinitialspace=True))
    return [text_of(part).strip() if isinstance(part, str) else text_of(part) for part in value]


def text_of(value: Any) -> str:
    """A value as JavaScript writes it."""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def some(value: Any) -> str:
    """A text to look for."""
    if value is None or isinstance(value, bool):
        raise judges_error(f"not a text: {value!r}")
    return text_of(value)


def judges_error(message: str) -> RegaugeError:
    return RegaugeError(message)


def equals(value: Any, _row: Row) -> Rule:
    return judges.equals(text_of(value) if isinstance(value, (int, float)) else value)


def all_or_nothing(value: Any, *, ignore_case: bool) -> Rule:
    parts = listed(value)
    return judges.contains_all(*parts, ignore_case=ignore_case) if parts else judges.min_chars(0)


def word_count(value: Any, _row: Row) -> Rule:
    if isinstance(value, Mapping):
        return judges.word_count(at_least=value.get("min"), at_most=value.get("max"))
    return judges.word_count(exactly=int(value))


def elements(value: Any) -> list[str]:
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    if isinstance(value, Mapping):
        return list(value.get("requiredElements", ()))
    return list(value or ())


def schema(value: Any) -> Any:
    import yaml

    return yaml.safe_load(value) if isinstance(value, str) else value


def is_json(value: Any, _row: Row) -> Rule:
    loaded = schema(value)
    return judges.json_matches_schema(loaded) if loaded else judges.json_parses()


def contains_json(value: Any, _row: Row) -> Rule:
    return judges.contains_json(schema=schema(value) or None)


def tools(row: Row) -> list[Any]:
    return list(row.get("provider_config", {}).get("tools", ()))


def functions(row: Row) -> list[Any]:
    config = row.get("provider_config", {})
    return list(config.get("functions", ())) or tools(row)


def sql(value: Any, *, whole: bool) -> Rule:
    """SQL, as the whole output or in its code fence; the dialect is theirs by default."""
    wished = value if isinstance(value, Mapping) else {}
    names = {"postgresql": "postgres", "transactsql": "tsql", "mariadb": "mysql"}
    dialect = str(wished.get("databaseType", "mysql")).lower()
    rule = judges.sql_parses(
        dialect=names.get(dialect, dialect),
        tables=[str(name).rpartition("::")[2] for name in wished.get("allowedTables", ())] or None,
    )
    return rule if whole else judges.any_of(judges.in_fence(rule), rule)


def share_of(row: Row, otherwise: float) -> float:
    return float(row.get("threshold", otherwise))


def levenshtein(value: Any, row: Row) -> Rule:
    return judges.edit_distance(some(value), at_most=int(row.get("threshold", 5)))


def finish_reason(value: Any, _row: Row) -> Rule:
    return judges.finish_reason_is(some(value))


RULES: dict[str, Callable[[Any, Row], Rule]] = {
    "equals": equals,
    "contains": lambda value, _: judges.contains(some(value)),
    "icontains": lambda value, _: judges.contains(some(value), ignore_case=True),
    "contains-any": lambda value, _: judges.contains_any(*listed(value)),
    "icontains-any": lambda value, _: judges.contains_any(*listed(value), ignore_case=True),
    "contains-all": lambda value, _: all_or_nothing(value, ignore_case=False),
    "icontains-all": lambda value, _: all_or_nothing(value, ignore_case=True),
    "regex": lambda value, _: judges.matches(translated(utf16(some(value))), ascii_only=True),
    "starts-with": lambda value, _: judges.starts_with(some(value)),
    "ends-with": lambda value, _: judges.ends_with(some(value)),
    "is-json": is_json,
    "contains-json": contains_json,
    "is-xml": lambda value, _: judges.xml_parses(elements=elements(value)),
    "contains-xml": lambda value, _: judges.contains_xml(elements=elements(value)),
    "is-html": lambda _value, _row: judges.html_parses(),
    "contains-html": lambda _value, _row: judges.contains_html(),
    "levenshtein": levenshtein,
    "rouge-n": lambda value, row: judges.rouge_n(value, at_least=share_of(row, 0.75)),
    "bleu": lambda value, row: judges.bleu(value, at_least=share_of(row, 0.5)),
    "gleu": lambda value, row: judges.gleu(value, at_least=share_of(row, 0.5)),
    "meteor": lambda value, row: judges.meteor(value, at_least=share_of(row, 0.5)),
    "word-count": word_count,
    "is-refusal": lambda _value, _row: judges.is_refusal(),
    "cost": lambda _, row: judges.max_cost_usd(row["threshold"]),
    "latency": lambda _, row: judges.max_latency_s(row["threshold"] / 1000, gates=True),
    "finish-reason": finish_reason,
    "tool-call-f1": lambda value, row: judges.tools_called(
        *listed(value), at_least=share_of(row, 1.0)
    ),
    "is-valid-openai-tools-call": lambda _, row: judges.tool_calls_match(tools(row)),
    "perplexity": lambda _, row: perplexity(row),
    "perplexity-score": lambda _, row: perplexity(row),
    "rouge-l": lambda value, row: judges.rouge_l(value, at_least=share_of(row, 0.75)),
    "is-valid-openai-function-call": lambda _, row: judges.tool_calls_match(functions(row)),
    "is-valid-function-call": lambda _, row: judges.tool_calls_match(functions(row)),
    "is-sql": lambda value, _: sql(value, whole=True),
    "contains-sql": lambda value, _: sql(value, whole=False),
    "similar": lambda value, row: similar(value, row, "cosine"),
    "similar:cosine": lambda value, row: similar(value, row, "cosine"),
    "similar:dot": lambda value, row: similar(value, row, "dot"),
    "similar:euclidean": lambda value, row: similar(value, row, "euclidean"),
}
"""Every assertion type that a rule of ours stands for."""


def perplexity(row: Row) -> Rule:
    """How surprised the model was. Providers do not tell us, so this rule lives here."""
    logs = row.get("provider_response", {}).get("logProbs") or []
    limit = row.get("threshold")
    graded = row["assertion_type"].endswith("-score")

    def judge(_output: str, _case: GoldenCase) -> Verdict:
        surprise = math.exp(-sum(logs) / len(logs))
        degree = 1 / (1 + surprise)
        if not limit:
            score = 1 - degree if row["assertion_type"].startswith("not-") else degree
            return Verdict(outcome="abstain", score=score, reason="no threshold, no opinion")
        if graded:
            return judges.graded(degree, at_least=limit, reason=f"{degree}", code="surprised")
        if surprise <= limit:
            return judges.passed(f"perplexity {surprise}")
        return judges.failed(f"perplexity {surprise}", code="surprised")

    return judges.as_judge(judge)


def similar(value: Any, row: Row, measure: Any) -> Rule:
    """Nearness of meaning, with the vectors the row gives."""
    limit = float(row.get("threshold", 0.75))
    limits = {"at_most": limit} if measure == "euclidean" else {"at_least": limit}
    rules = [
        judges.near_in_meaning(text, measure=measure, vectors=row["embeddings"], **limits)
        for text in ([value] if isinstance(value, str) else value)
    ]
    return rules[0] if len(rules) == 1 else judges.any_of(*rules)


def completion_of(row: Row, kind: str) -> Completion:
    """The completion a row speaks of."""
    response = row.get("provider_response", {})
    output = row["output"]
    finish = str(response.get("finishReason", "unknown")).lower()
    known = {"stop", "length", "content_filter", "tool_calls"}
    text: str | None = text_of(output)
    if kind == "is-refusal" and not isinstance(output, str):
        text = None
    if kind == "regex":
        text = utf16(text or "")
    return Completion(
        text=text,
        finish_reason=finish if finish in known else "unknown",  # type: ignore[arg-type]  # checked
        tool_calls=tuple(calls_of(output)),
        usage=Usage(),
        model="probe",
        provider="probe",
        latency_s=float(response.get("latencyMs", 0)) / 1000,
        cost_usd=response.get("cost"),
    )


def verdict_of(row: Row) -> dict[str, Any]:
    """What our judges say of one row."""
    stated = row.get("assertion_type")
    if not isinstance(stated, str):
        return unjudged(row, "the row has no assertion_type")
    negated = stated.startswith("not-")
    kind = stated.removeprefix("not-")
    if kind not in RULES:
        return unjudged(row, f"no assertion {stated!r} is known")
    value = rendered(row.get("value"), row.get("vars", {}))
    case = GoldenCase(id=row["id"], inputs=row.get("vars", {}), split="train")
    try:
        rule = RULES[kind](value, row)
        judge = not_(rule) if negated else rule
        verdict = judge.examine(JudgedOutput.from_completion(completion_of(row, kind), case))
    except (RegaugeError, ValueError, KeyError) as error:
        return {"id": row["id"], "pass": False, "score": 0, "error": str(error)}
    if verdict.outcome == "abstain" and kind == "cost":
        return {"id": row["id"], "pass": False, "score": 0, "error": verdict.reason}
    held = verdict.outcome != "fail"
    score = verdict.score if kind in GRADED or kind.startswith("similar") else float(held)
    if kind == "tool-call-f1" and verdict.outcome != "abstain":
        score = rule.examine(JudgedOutput.from_completion(completion_of(row, kind), case)).score
    return {"id": row["id"], "pass": held, "score": score}


def line_of(row: Row) -> dict[str, Any]:
    """What to print of one row, whatever it holds."""
    try:
        return verdict_of(row)
    except (TypeError, AttributeError, LookupError, ArithmeticError) as error:
        return unjudged(row, f"the row makes no sense: {type(error).__name__}: {error}")


def unjudged(row: Row, error: str) -> dict[str, Any]:
    """The line of a row that no judge of ours can take."""
    return {"id": row.get("id"), "pass": None, "score": None, "error": error}


def main() -> int:
    """Print what our judges say; 1 when a line of the file is not a row."""
    parser = argparse.ArgumentParser(description="promptfoo's assertions with our judges")
    parser.add_argument("file", type=Path)
    complaints = Complaints()
    with early_close():
        for row in rows_of(parser.parse_args().file, complaints):
            sys.stdout.write(json.dumps(line_of(row)) + "\n")
    return 1 if complaints.said else 0


if __name__ == "__main__":
    sys.exit(main())
