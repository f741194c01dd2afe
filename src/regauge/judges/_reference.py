"""What each kind of judge is, read from its docstring and signature, and the reference page."""

from __future__ import annotations

import inspect
import re
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from regauge.extras import install_command
from regauge.judges._rule_factory import RuleFactory, form_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["JudgeDescription", "ParameterDescription", "describe", "reference_page"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParameterDescription:
    """One parameter of a judge.

    Attributes:
        default: As Python writes it; empty when there is none.
    """

    name: str
    default: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeDescription:
    """One kind of judge.

    Attributes:
        group: The chapter it belongs to.
        form: The parameters as one writes them.
        summary: One sentence.
        text: The rest of the description.
        criterion: The kind of quality it is about; empty where that depends on its parts.
        codes: The stable words of its failures.
        install: The command that installs the extra it needs; empty for a judge of the core.
        example: A session of Python that shows it.
    """

    name: str
    group: str
    form: str
    summary: str
    text: str
    parameters: tuple[ParameterDescription, ...]
    criterion: str
    codes: tuple[str, ...]
    install: str
    example: str


_ARGUMENT = re.compile(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)


def describe(name: str, kind: object) -> JudgeDescription:
    """Describe a kind of judge; of those of other packages only what their docstring says."""
    build = getattr(kind, "build", kind)
    doc = inspect.getdoc(build) or ""
    body, _, example = doc.partition("\n>>> ")
    text, _, arguments = body.partition("\nArgs:\n")
    summary, _, rest = text.partition("\n")
    texts = {found[1]: " ".join(found[2].split()) for found in _ARGUMENT.finditer(arguments)}
    factory = kind if isinstance(kind, RuleFactory) else None
    signature = factory.signature if factory else _signature(kind)
    package, _, module = str(getattr(build, "__module__", "")).rpartition(".")
    module = module.lstrip("_")
    return JudgeDescription(
        name=name,
        group=_GROUPS.get(module, module) if package.startswith("regauge.") else "installed",
        form=form_of(signature) if signature else "(...)",
        summary=summary.strip(),
        text=rest.strip(),
        parameters=tuple(_parameters(signature, texts)) if signature else (),
        criterion=factory.template.criterion if factory and factory.template else "",
        codes=factory.codes if factory else (),
        install=install_command(factory.needs) if factory and factory.needs else "",
        example=f">>> {example}".strip() if example else "",
    )


def _signature(kind: object) -> inspect.Signature | None:
    try:
        return inspect.signature(kind) if callable(kind) else None
    except (TypeError, ValueError):
        return None


def _parameters(
    signature: inspect.Signature, texts: dict[str, str]
) -> Iterator[ParameterDescription]:
    for parameter in signature.parameters.values():
        several = "*" if parameter.kind is parameter.VAR_POSITIONAL else ""
        has_default = parameter.default is not parameter.empty
        yield ParameterDescription(
            name=several + parameter.name,
            default=repr(parameter.default) if has_default else "",
            text=texts.get(parameter.name, ""),
        )


_CHAPTERS = {
    "text": "Text",
    "counts": "Length and counts",
    "markdown": "Markdown",
    "similarity": "Similarity to a reference",
    "json": "JSON",
    "values": "Numbers, answers and choices",
    "documents": "YAML, CSV, Python, XML and HTML",
    "infrastructure": "Terraform, Kubernetes and SQL",
    "safety": "Refusals, leaks, secrets, personal data and URLs",
    "run": "Tool calls and run facts",
    "turns": "Conversations",
    "ifeval": "As IFEval defines it (`regauge.judges.ifeval`)",
    "combine": "Combinations",
    "model": "LLM judges",
    "external": "Functions, programs and web services",
    "installed": "Of other packages",
}
# From this many judges on, a parameter is described once for all.
_COMMON_FROM = 2
_GROUPS = {
    "claims": "model",
    "declared": "model",  # deepeval
    "function": "external",
    "pairwise": "model",
    "panel": "model",
    "rubric": "model",
    "semantic": "similarity",
}

_HEAD = """\
# Choose a judge: every rule and LLM judge

A judge scores an output: check JSON against a JSON schema, compare text, count words, match a
regular expression, or call a model. Its verdict is pass, fail or abstain, with a score from 0 to 1
and a reason.

```python
>>> from regauge.judges import *
>>> print(max_words(3, field="reason").check_text('{"reason": "The disk is full."}'))
fail (0.75): 4 words, at most 3 wanted

```

In YAML a judge is a name, or a name with parameters: `max_words: 40`,
`max_words: {n: 40, field: reason}`, `not: {contains: TODO}`. Rules are deterministic and free; an
output that a rule cannot read fails with a reason.

- `~rule` or `not_(rule)` negates. A missing output fails both. An empty text is judged as it is, so
  `not: {contains: x}` passes: add `min_chars: 1` if there must be text.
- `expected("path")` inserts a value of the case's `expected` into any parameter.
- `rubric`, `verified_claims`, `panel`, `pairwise` and `deepeval` are
  [LLM judges](../how-to/use-an-llm-judge.md), advisory until calibrated. `means_like` calls an
  embedding model, and [its vectors are recorded](recordings.md).
- `in_turn` and `each_turn` apply a judge to [turns of a
  conversation](../how-to/test-a-conversation.md); judges of tool calls see the calls of all turns.
- Every failure has a stable `code`, listed after "Fails as". Every rule also has `no_text`,
  `refused`, `json_invalid`, `missing_field`, `null_field` and, when negated, `not_<judge>`.
"""


def reference_page(descriptions: Iterable[JudgeDescription]) -> str:
    """The reference of judges as Markdown, by chapters."""
    order = list(_CHAPTERS)
    judges = sorted(descriptions, key=lambda judge: (order.index(judge.group), judge.name))
    common = _common(judges)
    parts = [_HEAD, _criteria(judges), _common_table(common)]
    chapter = ""
    shown = True
    for judge in judges:
        if judge.group != chapter:
            chapter, shown = judge.group, False
            parts.append(f"\n## {_CHAPTERS[chapter]}\n")
        parts.append(_entry(judge, common=common))
        # One example per chapter; those that end in a verdict show most.
        if not shown and "print(" in judge.example:
            parts.append(f"\n```python\n{judge.example}\n\n```\n")
            shown = True
    return "".join(parts)


def _common(judges: Iterable[JudgeDescription]) -> dict[str, str]:
    """Parameters that many judges share, each with its usual description."""
    texts: dict[str, Counter[str]] = {}
    for judge in judges:
        for parameter in judge.parameters:
            texts.setdefault(parameter.name, Counter())[parameter.text] += 1
    usual = {name: counted.most_common(1)[0] for name, counted in texts.items()}
    return {name: text for name, (text, count) in usual.items() if count >= _COMMON_FROM}


def _common_table(common: dict[str, str]) -> str:
    lines = [f"- `{name}`: {text}" for name, text in sorted(common.items())]
    return "\nShared parameters, which entries below omit:\n\n" + "\n".join(lines) + "\n"


def _criteria(judges: Iterable[JudgeDescription]) -> str:
    """The criterion of each rule, with the most frequent one stated as the rest."""
    rules: dict[str, list[str]] = {}
    for judge in judges:
        if judge.criterion:
            rules.setdefault(judge.criterion, []).append(f"`{judge.name}`")
    rest = max(rules, key=lambda criterion: len(rules[criterion]))
    lines = [
        f"  - {criterion}: {', '.join(names)}"
        for criterion, names in rules.items()
        if criterion != rest
    ]
    return (
        "- Each judge counts under one criterion, which refinement reports and "
        "[goals](../how-to/fix-a-prompt.md#set-goals)\n  use; `.judging('completeness')` sets "
        f"another. Rules count under {rest}, functions under correctness, except:\n"
        + "\n".join(lines)
        + "\n"
    )


def _entry(judge: JudgeDescription, *, common: dict[str, str]) -> str:
    end = f" Fails as {', '.join(f'`{code}`' for code in judge.codes)}." if judge.codes else ""
    extra = f" Needs `{judge.install}`." if judge.install else ""
    text = " ".join(filter(None, (judge.summary, judge.text.replace("\n\n", " "))))
    lines = [
        f"\n(judge-{judge.name})=",
        f"### {judge.name}\n",
        f"`{judge.name}{judge.form}`\n",
        f"{text}{end}{extra}",
    ]
    rows = [
        f"- `{parameter.name}`: {parameter.text}"
        for parameter in judge.parameters
        if common.get(parameter.name) != parameter.text
    ]
    return "\n".join([*lines, *(["", *rows] if rows else [])]) + "\n"
