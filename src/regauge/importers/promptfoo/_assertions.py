"""Assertions of promptfoo as checks of a golden case."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final, cast

from regauge.importers._source import SourceError
from regauge.importers._suite import NoCounterpartError, text_of
from regauge.importers.promptfoo._javascript import python_pattern, transformed_check
from regauge.importers.promptfoo._models import LEXICON
from regauge.strict_json import is_list, is_mapping, list_of, mapping_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from regauge.digests import JSON
    from regauge.importers.promptfoo._context import Context
    from regauge.importers.promptfoo._tests import Assertion, SourceTest

_PYTHON: Final = (".py",)
_EMBEDDING_MODEL: Final = "openai:text-embedding-3-large"
_FILE: Final = re.compile(r"file://(?P<path>.+?)(?::(?P<function>[A-Za-z_$][\w$.]*))?\Z", re.DOTALL)
_METRICS: Final = {
    "answer-relevance": "AnswerRelevancy",
    "context-faithfulness": "Faithfulness",
    "context-relevance": "ContextualRelevancy",
    "conversation-relevance": "TurnRelevancy",
}
_CRITERIA: Final = (
    "llm-rubric", "g-eval", "model-graded-closedqa", "agent-rubric", "search-rubric",
)  # fmt: skip
_GRADED: Final = (*_CRITERIA, "factuality", "model-graded-factuality")
# A transform changes nothing for these types.
_NOT_OF_THE_TEXT: Final = (
    "latency", "cost", "perplexity", "finish-reason", "guardrails", "is-valid-", "tool-call-f1",
    "trajectory:",
)  # fmt: skip
_RED_TEAM: Final = "promptfoo:redteam"
_OPTIONS: Final = ("weight", "tier", "metric")


@dataclass(frozen=True, slots=True, kw_only=True)
class _ParsedAssertion:
    """One assertion, with rendered values.

    Attributes:
        kind: The type, without `not-`.
        value: The value, with the test's variables and the content of a referenced file.
        code: The keys of a code judge, if the value is code in a file; else None.
        body: The assertion in the source.
    """

    kind: str
    negated: bool
    value: Any
    code: Mapping[str, JSON] | None
    body: Mapping[str, Any]
    context: Context
    test: SourceTest

    @property
    def threshold(self) -> float | None:
        return _number(self.body.get("threshold"))

    @property
    def transform(self) -> object:
        """The code that transforms the output; None without one, or if it has no effect."""
        options = self.test.options
        default = options.get("transform", options.get("postprocess"))
        code = self.body.get("transform")
        return None if self.kind.startswith(_NOT_OF_THE_TEXT) else default if code is None else code

    @property
    def text(self) -> str:
        """The value as text.

        Raises:
            NoCounterpartError: There is none.
        """
        value = self.value
        if value is None or value == "":
            raise NoCounterpartError("it has no value")
        return text_of(value)

    @property
    def texts(self) -> list[str]:
        """The value as a list of texts; a text is split at its commas."""
        value = self.value
        parts = cast("list[object]", value) if is_list(value) else _split(self.text)
        return [text_of(part) for part in parts]


def checks_of(test: SourceTest) -> list[JSON]:
    """The checks of a case, in the order of its assertions."""
    checks: list[JSON] = []
    for assertion in test.assertions:
        if assertion.body.get("type") == "assert-set":
            checks += _set(assertion, test)
        else:
            checks.append(_check(assertion, test))
    return checks


def _set(assertion: Assertion, test: SourceTest) -> list[JSON]:
    """The checks of a set: its parts if all must pass, else one weighted check."""
    body = assertion.body
    inner = body.get("assert")
    parts = [
        replace(assertion, body=part, context=part_context)
        for part, part_context in assertion.context.locate_items(list_of(inner))
        if is_mapping(part)
    ]
    checks = [_check(part, test) for part in parts]
    threshold = _number(body.get("threshold"))
    if threshold is None and _number(body.get("weight")) in {None, 1.0}:
        return [*checks]
    if not all(_is_rule(check) for check in checks):
        reason = (
            "a set with a threshold or a weight takes rules only, and a part calls a model or code"
        )
        return [_unmeasured("assert-set", reason, assertion), *checks]
    weights = [
        {
            "judge": {key: part for key, part in check.items() if key not in _OPTIONS},
            "weight": check.get("weight", 1),
        }
        for check in checks
        if check.get("tier") != "tracked"
    ]
    at_least = 1.0 if threshold is None else min(1.0, threshold)
    weighted: dict[str, JSON] = {"weighted": {"weights": weights, "at_least": at_least}}
    return [_with_options(weighted, assertion, test)]


def _is_rule(check: Mapping[str, JSON]) -> bool:
    name = next(iter(check))
    if is_mapping(negated := check.get("not")):
        return _is_rule(negated)
    return name not in {"rubric", "deepeval", "means_like", "promptfoo_python", "unmeasured"}


def _check(assertion: Assertion, test: SourceTest) -> dict[str, JSON]:
    assertion.context.imported.count(assertions=1)
    body = assertion.body
    kind = str(body.get("type") or "").strip()
    negated = kind.startswith("not-")
    kind = kind.removeprefix("not-")
    try:
        parsed = _ParsedAssertion(
            kind=kind,
            negated=negated,
            **_value(kind, assertion, test),
            body=body,
            context=assertion.context,
            test=test,
        )
        judge = _judge(parsed)
    except NoCounterpartError as error:
        name = _RED_TEAM if _RED_TEAM in kind else str(body.get("type") or "an assertion")
        judge = _unmeasured(name, str(error), assertion)
    return _with_options(judge, assertion, test)


def _unmeasured(kind: str, reason: str, assertion: Assertion) -> dict[str, JSON]:
    context = assertion.context
    context.imported.count(unmeasured=1)
    context.note("manual", f"`{kind}` is unmeasured: {reason}")
    return {"unmeasured": f"promptfoo's {kind} at {context.place}: {reason}"}


def _with_options(
    judge: Mapping[str, JSON], assertion: Assertion, test: SourceTest
) -> dict[str, JSON]:
    """Add weight and metric to a check."""
    check: dict[str, JSON] = dict(judge)
    weight = _number(assertion.body.get("weight"))
    if weight is not None and weight != 1:
        if weight > 0:
            check["weight"] = weight
        else:
            check["tier"] = "tracked"
    metric = assertion.body.get("metric")
    if isinstance(metric, str) and metric.strip():
        check["metric"] = assertion.context.render(metric, test.vars).strip() or metric
    return check


def _value(kind: str, assertion: Assertion, test: SourceTest) -> dict[str, Any]:
    """The value of an assertion: rendered, or the content of a file.

    Raises:
        NoCounterpartError: The file cannot be read.
    """
    context, value = assertion.context, assertion.body.get("value")
    text = value.strip() if isinstance(value, str) else ""
    match = _FILE.fullmatch(text)
    if match is None:
        return {"value": context.render_all(value, test.vars), "code": None}
    path, function = match["path"], match["function"]
    suffix = PurePosixPath(path.replace("\\", "/")).suffix
    try:
        file = context.repository.resolve(path, context.base)
        content = context.repository.read_text(file)
        if suffix in (".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", *_PYTHON):
            if suffix in _PYTHON:
                _require_function(content, path, function)
                context.note_packages(file)
            code: dict[str, JSON] = {"file": context.refer(file)}
            if function:
                code["function"] = function
            if kind not in {"javascript", "python"}:
                raise NoCounterpartError("its value is computed by code in a file")
            return {"value": None, "code": code}
        if suffix in {".json", ".yaml", ".yml"}:
            return {"value": context.repository.read_yaml(file, content), "code": None}
    except SourceError as error:
        raise NoCounterpartError(str(error)) from error
    return {"value": context.render_all(content.strip(), test.vars), "code": None}


def _require_function(content: str, path: str, function: str) -> None:
    """Check that a Python file defines the function that a judge calls.

    Raises:
        NoCounterpartError: It does not define the function.
    """
    name = re.escape(function or "get_assert")
    defined = rf"^(?:async +)?def +{name}\b|^{name}\b.*=|\bimport\b.*(?:\b{name}\b|\*|\()"
    if not re.search(defined, content, re.MULTILINE):
        raise NoCounterpartError(f"{path} has no function {function or 'get_assert'}")


def _judge(assertion: _ParsedAssertion) -> dict[str, JSON]:
    """The judge of an assertion.

    Raises:
        NoCounterpartError: There is none.
    """
    if assertion.body.get("contextTransform") is not None:
        raise NoCounterpartError("`contextTransform` is code that is not run")
    if assertion.transform is not None and assertion.kind not in _GRADED:
        return _transform(assertion)
    if assertion.kind in _CRITERIA:
        return _criterion(assertion)
    if assertion.kind in {"javascript", "python"}:
        return _code(assertion)
    build = _RULES.get(assertion.kind)
    if build is not None:
        judge = build(assertion)
        if problem := assertion.context.suite.problem_of(judge, assertion.context.place):
            raise NoCounterpartError(problem)
        return {"not": judge} if assertion.negated else judge
    build = _MODEL_JUDGES.get(assertion.kind)
    if build is not None:
        if assertion.negated:
            raise NoCounterpartError(
                "an LLM judge has no negation; state the opposite as a criterion"
            )
        judge = build(assertion)
        _set_grader(judge, assertion)
        return judge
    reason = LEXICON.entry("reasons").get(assertion.kind, "promptfoo documents no such type")
    if _RED_TEAM in assertion.kind:
        reason = "regauge has no red teaming; keep promptfoo for it"
    raise NoCounterpartError(reason if assertion.kind else "it has no type")


def _transform(assertion: _ParsedAssertion) -> dict[str, JSON]:
    """A check of a transformed output: transform and check become one JavaScript judge."""
    code = str(assertion.transform)
    if code.strip().startswith("file://"):
        code = _module(code.strip(), assertion.context)
    usable = assertion.code is None and not (assertion.negated and assertion.kind == "javascript")
    check = (
        transformed_check(code, assertion.kind, assertion.value, negated=assertion.negated)
        if usable
        else None
    )
    if check is None:
        raise NoCounterpartError("its output is transformed by JavaScript first")
    text = "the transform of the output and the assertion became one JavaScript judge"
    assertion.context.note("changed", text)
    parameters: dict[str, JSON] = {"code": check}
    if assertion.kind == "javascript" and assertion.threshold is not None:
        parameters["pass_at"] = assertion.threshold
    return {"javascript": parameters}


def _module(reference: str, context: Context) -> str:
    """The body of a function that calls the function of a file.

    Raises:
        NoCounterpartError: The file cannot be read, or loads others.
    """
    match = _FILE.fullmatch(reference)
    path, function = (match["path"], match["function"]) if match else ("", None)
    if not path.endswith((".js", ".cjs")):
        raise NoCounterpartError("its output is transformed by code that is not JavaScript")
    try:
        text = context.repository.read_text(context.repository.resolve(path, context.base))
    except SourceError as error:
        raise NoCounterpartError(str(error)) from error
    if re.search(r"\brequire\s*\(|^\s*(?:import|export)\b", text, re.MULTILINE):
        raise NoCounterpartError(f"its output is transformed by {path}, which loads or is a module")
    exported = f"module.exports.{function}" if function else "module.exports.default"
    return (
        "const module = {exports: {}};\n"
        f"(function (module, exports) {{\n{text}\n}})(module, module.exports);\n"
        f"return ({exported} ?? module.exports)(output, context);"
    )


def _code(assertion: _ParsedAssertion) -> dict[str, JSON]:
    if assertion.code and re.search(r"\.[mc]?ts\Z", str(assertion.code["file"])):
        raise NoCounterpartError("it is TypeScript; compile it to JavaScript, and name that file")
    parameters: dict[str, JSON] = (
        dict(assertion.code) if assertion.code else {"code": assertion.text}
    )
    file = str(assertion.code["file"]) if assertion.code else ""
    is_python = file.endswith(_PYTHON) if file else assertion.kind == "python"
    name = "promptfoo_python" if is_python else "javascript"
    if name == "javascript" and find_spec("py_mini_racer") is None:
        assertion.context.note("manual", "judges in JavaScript need pip install 'regauge[js]'")
    if assertion.threshold is not None:
        parameters["pass_at"] = assertion.threshold
    config = assertion.body.get("config")
    if is_mapping(config) and config:
        parameters["config"] = config
    if assertion.test.parses_json:
        parameters["parse_json"] = True
    return {"not": {name: parameters}} if assertion.negated else {name: parameters}


def _criterion(assertion: _ParsedAssertion) -> dict[str, JSON]:
    text = assertion.text.strip()
    if is_list(assertion.value):
        text = "\n".join(f"- {part}" for part in assertion.texts)
    if not text:
        raise NoCounterpartError("it has no value")
    if assertion.negated:
        text = f"The output does not meet this criterion: {text}"
        assertion.context.note("changed", f"`not-{assertion.kind}` became the negated criterion")
    if assertion.kind in {"agent-rubric", "search-rubric"}:
        note = f"the judge of `{assertion.kind}` has no tools and no search here"
        assertion.context.note("changed", note)
    prompt = assertion.body.get("rubricPrompt", assertion.test.options.get("rubricPrompt"))
    parameters: dict[str, JSON]
    if prompt is not None and (name := assertion.context.rubric(prompt)):
        parameters = {"name": name, "reference": text}
    else:
        parameters = {"criterion": text}
        if assertion.threshold is not None:
            parameters["pass_at"] = min(1.0, max(0.0, assertion.threshold))
        elif assertion.kind == "g-eval":
            parameters["pass_at"] = 0.7
    judge: dict[str, JSON] = {"rubric": parameters}
    _set_grader(judge, assertion)
    return judge


def _set_grader(judge: Mapping[str, JSON], assertion: _ParsedAssertion) -> None:
    """Set the model of an LLM judge, or the project's judge model."""
    if assertion.transform is not None:
        text = "the LLM judge reads the output before its transform, which is code"
        assertion.context.note("changed", text)
    parameters = judge.get("rubric", judge.get("deepeval"))
    if not isinstance(parameters, dict):
        return
    provider, default = assertion.body.get("provider"), assertion.test.options.get("provider")
    if model := assertion.context.grader(provider, default):
        parameters["model"] = model
    else:
        assertion.context.suite.need_judge_model(assertion.context.place)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, (int, float)):
        return value
    try:
        return float(str(value))
    except ValueError:
        return None


def _split(text: str) -> list[str]:
    """Split a text at commas outside of quotes."""
    parts = re.findall(r'\s*("(?:[^"]|"")*"|[^,]*)(?:,|\Z)', text)
    cleaned = [
        part.strip()[1:-1].replace('""', '"') if part.strip().startswith('"') else part.strip()
        for part in parts
    ]
    return [part for part in cleaned if part]


# The rules, by type.


def _contains_check(assertion: _ParsedAssertion) -> dict[str, JSON]:
    name = assertion.kind.removeprefix("i").replace("-", "_")
    key = "text" if name == "contains" else "texts"
    value: JSON = assertion.text if name == "contains" else [*assertion.texts]
    if not value:
        raise NoCounterpartError("it has no value")
    return {name: {key: value, "ignore_case": True} if assertion.kind.startswith("i") else value}


def _equals(assertion: _ParsedAssertion) -> dict[str, JSON]:
    if is_mapping(assertion.value) or is_list(assertion.value):
        return {"json_like": {"value": assertion.value, "extra": "none"}}
    if assertion.value is None:
        raise NoCounterpartError("it has no value")
    return {"equals": {"value": text_of(assertion.value)}}


def _matches(assertion: _ParsedAssertion) -> dict[str, JSON]:
    try:
        return {"matches": python_pattern(assertion.text)}
    except ValueError as error:
        raise NoCounterpartError(f"its pattern is none of Python: {error}") from error


def _json(assertion: _ParsedAssertion) -> dict[str, JSON]:
    schema = assertion.value
    if isinstance(schema, str) and schema.strip():
        import yaml

        try:
            schema = yaml.safe_load(schema)
        except yaml.YAMLError as error:
            raise NoCounterpartError("its schema is neither JSON nor YAML") from error
    if not is_mapping(schema):
        return {"json_parses": {}} if assertion.kind == "is-json" else {"contains_json": {}}
    if assertion.kind == "is-json":
        return {"json_matches_schema": {"schema": cast("JSON", schema)}}
    return {"contains_json": {"schema": cast("JSON", schema)}}


def _limit(assertion: _ParsedAssertion) -> float:
    limit = assertion.threshold if assertion.threshold is not None else _number(assertion.value)
    if limit is None:
        raise NoCounterpartError("it has no threshold")
    return limit


def _likeness(
    name: str, default: float, key: str = "at_least"
) -> Callable[[_ParsedAssertion], dict[str, JSON]]:
    def build(assertion: _ParsedAssertion) -> dict[str, JSON]:
        if is_list(assertion.value):
            raise NoCounterpartError("it compares with a list of references")
        limit = assertion.threshold if assertion.threshold is not None else default
        if key == "at_most":
            limit = int(limit)
        return {name: {"to": assertion.text, key: limit}}

    return build


def _bounds(value: object) -> dict[str, JSON]:
    """The bounds `min` and `max` of a mapping; empty without one."""
    limits = mapping_of(value)
    names = {"min": "at_least", "max": "at_most"}
    numbers = {new: _number(limits.get(old)) for old, new in names.items()}
    return {name: int(number) for name, number in numbers.items() if number is not None}


def _word_count(assertion: _ParsedAssertion) -> dict[str, JSON]:
    parameters = _bounds(assertion.value)
    if (number := _number(assertion.value)) is not None:
        parameters = {"exactly": int(number)}
    if not parameters:
        raise NoCounterpartError("it has no number of words")
    return {"word_count": {**parameters}}


def _elements(name: str) -> Callable[[_ParsedAssertion], dict[str, JSON]]:
    def build(assertion: _ParsedAssertion) -> dict[str, JSON]:
        value = assertion.value
        if is_mapping(value):
            value = value.get("requiredElements")
        if not value:
            return {name: {}}
        parts = value if is_list(value) else _split(str(value))
        return {name: {"elements": [str(part) for part in cast("list[object]", parts)]}}

    return build


def _sql(assertion: _ParsedAssertion) -> dict[str, JSON]:
    parameters: dict[str, JSON] = {}
    if is_mapping(options := assertion.value):
        dialects = {"postgresql": "postgres", "transactsql": "tsql", "mariadb": "mysql"}
        database = str(options.get("databaseType", "")).lower()
        if database:
            parameters["dialect"] = dialects.get(database, database)
        tables = options.get("allowedTables")
        if is_list(tables) and tables:
            parameters["tables"] = [
                str(name).split("::")[-1] for name in cast("list[object]", tables)
            ]
        if options.get("allowedColumns"):
            raise NoCounterpartError("a list of allowed columns has no counterpart")
    judge: dict[str, JSON] = {"sql_parses": parameters}
    return (
        {"in_fence": {"judge": judge, "required": False}}
        if assertion.kind == "contains-sql"
        else judge
    )


def _tools(assertion: _ParsedAssertion) -> dict[str, JSON]:
    tools = assertion.value or assertion.test.options.get("tools") or assertion.test.tools
    if not is_list(tools):
        raise NoCounterpartError("no provider has tools; use tool_calls_match")
    return {"tool_calls_match": {"tools": cast("JSON", tools)}}


def _tools_called(assertion: _ParsedAssertion) -> dict[str, JSON]:
    names = [str(part) for part in assertion.texts]
    threshold = 1.0 if assertion.threshold is None else assertion.threshold
    return {"tools_called": {"names": [*names], "at_least": threshold}}


def _tool_used(assertion: _ParsedAssertion) -> dict[str, JSON]:
    if is_mapping(options := assertion.value):
        name = options.get("name")
        if not isinstance(name, str):
            raise NoCounterpartError("it names its tool by a pattern")
        parameters: dict[str, JSON] = {"name": name, **_bounds(options)}
        if is_mapping(options.get("args")):
            parameters["args"] = options["args"]
            parameters["exact"] = options.get("mode", "partial") == "exact"
        return {"calls": parameters}
    names = assertion.texts
    if len(names) == 1:
        return {"calls": {"name": names[0]}}
    return {"all_of": [{"calls": {"name": name}} for name in names]}


def _tool_sequence(assertion: _ParsedAssertion) -> dict[str, JSON]:
    mode, steps = "in_order", assertion.value
    if is_mapping(steps):
        mode, steps = str(steps.get("mode", "in_order")), steps.get("steps")
    if not is_list(steps) or not all(isinstance(step, str) for step in steps):
        raise NoCounterpartError("it names its steps by patterns")
    names: list[JSON] = [*cast("list[str]", steps)]
    if mode == "exact":
        return {"calls_exactly": {"calls": names}}
    return {"calls_in_order": names}


def _steps(assertion: _ParsedAssertion) -> dict[str, JSON]:
    value = assertion.value
    if not is_mapping(value) or value.get("type") not in {None, "tool"}:
        raise NoCounterpartError("it counts other steps than tool calls")
    parameters = _bounds(value)
    if not parameters:
        raise NoCounterpartError("it has no bounds")
    return {"tool_call_count": {**parameters}}


_RULES: Final[Mapping[str, Callable[[_ParsedAssertion], dict[str, JSON]]]] = {
    **dict.fromkeys(
        ("contains", "icontains", "contains-any", "icontains-any", "contains-all", "icontains-all"),
        _contains_check,
    ),
    "equals": _equals,
    "starts-with": lambda assertion: {"starts_with": [assertion.text]},
    "regex": _matches,
    "is-json": _json,
    "contains-json": _json,
    "is-xml": _elements("xml_parses"),
    "contains-xml": _elements("contains_xml"),
    "is-html": lambda _: {"html_parses": {}},
    "contains-html": lambda _: {"contains_html": {}},
    "is-sql": _sql,
    "contains-sql": _sql,
    "latency": lambda assertion: {
        "max_latency_s": {"limit": _limit(assertion) / 1000, "blocking": True}
    },
    "cost": lambda assertion: {"max_cost_usd": {"limit": _limit(assertion)}},
    "perplexity": lambda assertion: {"perplexity": _limit(assertion)},
    "levenshtein": _likeness("edit_distance", 5, "at_most"),
    "rouge-n": _likeness("rouge_n", 0.75),
    "bleu": _likeness("bleu", 0.5),
    "gleu": _likeness("gleu", 0.5),
    "meteor": _likeness("meteor", 0.5),
    "word-count": _word_count,
    "is-refusal": lambda _: {"is_refusal": {}},
    "finish-reason": lambda assertion: {"finish_reason_is": [assertion.text]},
    "guardrails": lambda _: {"not": {"finish_reason_is": ["content_filter"]}},
    **dict.fromkeys(
        ("is-valid-function-call", "is-valid-openai-function-call", "is-valid-openai-tools-call"),
        _tools,
    ),
    "tool-call-f1": _tools_called,
    "trajectory:tool-used": _tool_used,
    "trajectory:tool-args-match": _tool_used,
    "trajectory:tool-sequence": _tool_sequence,
    "trajectory:step-count": _steps,
}


def _similar(assertion: _ParsedAssertion) -> dict[str, JSON]:
    if is_list(assertion.value):
        raise NoCounterpartError("it compares with a list of references")
    measure = assertion.kind.partition(":")[2] or "cosine"
    key = "at_most" if measure == "euclidean" else "at_least"
    provider = assertion.body.get("provider")
    model = provider if isinstance(provider, str) and ":embedding:" in provider else ""
    return {
        "means_like": {
            "to": assertion.text,
            "measure": measure,
            key: 0.75 if assertion.threshold is None else assertion.threshold,
            "model": model.replace(":embedding:", ":").replace(":embeddings:", ":")
            or _EMBEDDING_MODEL,
        }
    }


def _metric(assertion: _ParsedAssertion) -> dict[str, JSON]:
    parameters: dict[str, JSON] = {"metric": _METRICS[assertion.kind]}
    if assertion.threshold is not None:
        parameters["threshold"] = assertion.threshold
    if assertion.kind.startswith("context-"):
        if "context" not in assertion.test.vars:
            raise NoCounterpartError("the test has no variable `context`")
        parameters["fields"] = {"retrieval_context": "inputs.context"}
    return {"deepeval": parameters}


def _goal(assertion: _ParsedAssertion) -> dict[str, JSON]:
    value = assertion.value
    goal = value.get("goal") if is_mapping(value) else value
    if not isinstance(goal, str) or not goal:
        raise NoCounterpartError("it has no goal")
    return {"rubric": {"name": "goal-reached", "reference": goal}}


_MODEL_JUDGES: Final[Mapping[str, Callable[[_ParsedAssertion], dict[str, JSON]]]] = {
    **dict.fromkeys(("similar", "similar:cosine", "similar:dot", "similar:euclidean"), _similar),
    **dict.fromkeys(
        ("factuality", "model-graded-factuality"),
        lambda assertion: {"rubric": {"name": "factuality", "reference": assertion.text}},
    ),
    **dict.fromkeys(_METRICS, _metric),
    "trajectory:goal-success": _goal,
}


def is_kind(name: str) -> bool:
    """Return whether a cell `__expected` names a type; any other text is an expected output."""
    kinds = {*_RULES, *_MODEL_JUDGES, *_CRITERIA, "javascript", "python"}
    return name in kinds or name in LEXICON.entry("reasons")
