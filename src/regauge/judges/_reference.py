"""What each kind of judge is, read from its docstring and signature, and the reference page."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from regauge.extras import install_command
from regauge.judges._rule_factory import RuleFactory
from regauge.judges._rule_parameters import form_of

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
    "ifeval": "As IFEval defines it (`regauge.judges.ifeval`)",
    "combine": "Combinations",
    "model": "LLM judges",
    "external": "Functions, programs and web services",
    "installed": "Of other packages",
}
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
# Judges

A judge says of one answer to one case: pass, fail or abstain, with a score from 0 to 1 and a
reason that quotes the evidence. The rules below are deterministic, cost nothing and never fail
for what a model wrote: an answer they cannot read fails with a reason.

- `field="reason"` judges one field of a JSON answer; {ref}`field <judge-field>` does so for any
  rule.
- `~rule`, or `not_(rule)`, is the negation. An output that is missing fails both; an empty text is
  judged as it is, so `not: {contains: x}` passes: add `min_chars: 1` where it must say something.
- `expected("path")` stands for a value of the case's `expected` wherever a rule compares.
- A failure carries a stable `code`, besides those of every rule: `no_text`, `refused`,
  `json_invalid`, `missing_field`, `null_field`, and `not_<judge>` for a negation.
- `means_like(model="openai:text-embedding-3-small")` is not a rule: it calls an embedding model,
  and [its vectors are recorded](recordings.md).
- `rubric`, `verified_claims`, `panel`, `pairwise` and `deepeval` are [LLM judges](rubrics.md):
  they are advisory until they are calibrated.
- `command_judge` and `http_judge` have a [program or a web service](../how-to/write-a-judge.md)
  judge.
- Every judge counts under one criterion: `correctness`, `completeness`, `format` or `relevance`.
  A rule has that of its kind, a combination that of its parts where they agree, and a function
  of yours `correctness`; `.judging("completeness")` counts any judge under another one.
  A refinement reports every criterion, and [goals](../refinement.md) can be set for one.
- In YAML a judge is its name, or its name with parameters: `max_words: 40`,
  `max_words: {n: 40, field: reason}`, `not: {contains: TODO}`.

```python
>>> from regauge.judges import *
>>> print(max_words(3, field="reason").check_text('{"reason": "The disk is full."}'))
fail (0.75): 4 words, at most 3 wanted

```
"""


def reference_page(descriptions: Iterable[JudgeDescription]) -> str:
    """The reference of judges as Markdown, by chapters."""
    order = list(_CHAPTERS)
    parts = [_HEAD]
    chapter = ""
    for judge in sorted(descriptions, key=lambda one: (order.index(one.group), one.name)):
        if judge.group != chapter:
            chapter = judge.group
            parts.append(f"\n## {_CHAPTERS[chapter]}\n")
        parts.append(_entry(judge))
    return "".join(parts)


def _entry(judge: JudgeDescription) -> str:
    lines = [f"\n(judge-{judge.name})=\n### {judge.name}\n", f"`{judge.name}{judge.form}`\n"]
    lines.append("\n".join(filter(None, (judge.summary, "\n" + judge.text if judge.text else ""))))
    rows = [
        f"| `{parameter.name}` | {_default(parameter.default)} | {_cell(parameter.text)} |"
        for parameter in judge.parameters
    ]
    if rows:
        lines.append("\n| parameter | default | |\n|---|---|---|\n" + "\n".join(rows))
    if judge.install:
        lines.append(f"\nInstall it with `{judge.install}`.")
    if judge.criterion:
        lines.append(f"\nCounts under {judge.criterion}.")
    if judge.codes:
        lines.append("\nFails as " + ", ".join(f"`{code}`" for code in judge.codes) + ".")
    if judge.example:
        lines.append(f"\n```python\n{judge.example}\n\n```")
    return "\n".join(lines) + "\n"


def _default(text: str) -> str:
    return f"`{_cell(text)}`" if text else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
