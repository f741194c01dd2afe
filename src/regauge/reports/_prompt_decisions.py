"""The part of a decision that is about one prompt."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import asdict
from difflib import SequenceMatcher, unified_diff
from typing import TYPE_CHECKING

from regauge.reports._decision import (
    AnchorDocument,
    DifferenceDocument,
    PromptDocument,
    RuleDocument,
    SuiteTestDocument,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from regauge.errors import Fault
    from regauge.gate import Decided, GateOutcome, SuiteBase
    from regauge.prompts import Prompt

__all__ = ["prompt_diff", "prompt_document", "rule_document", "suite_test", "verdict_counts"]

_SIMULATED_PROVIDER = "sim"
_CONTEXT_LINES = 3
# The order of the sections of a prompt file in a diff; others come between.
_SECTIONS = {"messages": 0, "version": 2, "changelog": 2}
# A decision states these next to the diff.
_STATED = frozenset({"version", "changelog"})
_KEY = re.compile(r"([A-Za-z]\w*):")


def prompt_document(decided: Decided, one: SuiteBase) -> PromptDocument:
    """The document of one prompt."""
    suite, main = one.suite, one.base.suite
    project = decided.at.project
    return PromptDocument(
        prompt=one.name,
        path=str(project.relative(suite.prompt.path)),
        state="new" if main is None else "unchanged" if one.base.unchanged else "changed",
        version=str(suite.prompt.version) if suite.prompt.version else None,
        base_version=str(main.prompt.version) if main and main.prompt.version else None,
        digest=suite.prompt.digest,
        base_digest=main.prompt.digest if main else None,
        model=str(suite.model),
        base_model=str(main.model) if main else None,
        simulated=suite.model.provider == _SIMULATED_PROVIDER,
        line=_changed_line(suite.prompt, main.prompt) if main is not None else 1,
        diff=_prompt_diff(decided, one),
        counts=verdict_counts(decided.outcome, one.name),
        test=suite_test(decided.outcome, one.name),
        anchor=_anchor(decided, one.name),
        rules=[rule_document(rule, fault, project.relative) for rule, fault in decided.rules(one)],
    )


def rule_document(rule: str, fault: Fault, relative: Callable[[Path], Path]) -> RuleDocument:
    """The document of something that is wrong at one place; `relative` shortens its path."""
    return RuleDocument(
        rule=rule,
        message=fault.message,
        fix=fault.fix,
        path=str(relative(fault.path)),
        line=fault.line,
    )


def _anchor(decided: Decided, name: str) -> AnchorDocument | None:
    report = decided.anchors.get(name)
    if report is None:
        return None
    found = report.comparison
    return AnchorDocument(
        version=report.version,
        message=report.message,
        cases=found.cases if found is not None else 0,
        difference=DifferenceDocument.model_validate(asdict(found.difference))
        if found is not None
        else None,
        p_value=found.p_value if found is not None else None,
        of_base=report.of_base,
        base_lost=report.base_lost,
        lost=report.lost,
        blocks=report.blocks,
    )


def _changed_line(head: Prompt, base: Prompt) -> int:
    """The first line of the messages that changed, or of the whole file where none of them did."""
    lines = SequenceMatcher(
        None, base.source.splitlines(), head.source.splitlines(), autojunk=False
    )
    begins = head.lines.get("messages", 1)
    spans = [(j1 + 1, j2) for tag, _, _, j1, j2 in lines.get_opcodes() if tag != "equal"]
    of_messages = (max(first, begins) for first, last in spans if max(first, last) >= begins)
    return next(of_messages, spans[0][0] if spans else 1)


def _prompt_diff(decided: Decided, one: SuiteBase) -> str:
    main = one.base.suite
    if main is None or main.prompt.source == one.suite.prompt.source:
        return ""
    path = str(decided.at.project.relative(one.suite.prompt.path))
    files = f"{path} ({decided.at.ref})", path
    return "\n".join(prompt_diff(main.prompt.source, one.suite.prompt.source, files=files))


def prompt_diff(before: str, now: str, *, files: tuple[str, str]) -> list[str]:
    """Two states of a prompt file as a unified diff, section by section.

    The messages come first. Version and changelog are left out where anything else changed.
    """
    old, new = _sections(before), _sections(now)
    lines: list[str] = []
    for name in sorted({**old, **new}, key=lambda name: _SECTIONS.get(name, 1)):
        start, section = old.get(name, (0, []))
        new_start, new_section = new.get(name, (0, []))
        if lines and name in _STATED:
            continue
        matcher = SequenceMatcher(None, section, new_section, autojunk=False)
        for group in matcher.get_grouped_opcodes(_CONTEXT_LINES):
            lines += _hunk(group, (start, section), (new_start, new_section))
    if not lines:  # sections in another order
        return list(unified_diff(before.splitlines(), now.splitlines(), *files, lineterm=""))
    return [f"--- {files[0]}", f"+++ {files[1]}", *lines]


def _sections(source: str) -> dict[str, tuple[int, list[str]]]:
    """The lines below each key of a prompt file, with the line before them."""
    found: dict[str, tuple[int, list[str]]] = {}
    name = ""
    for number, line in enumerate(source.splitlines()):
        if (key := _KEY.match(line)) is not None:
            name = key[1]
        found.setdefault(name, (number, []))[1].append(line)
    return found


def _hunk(
    group: Sequence[tuple[str, int, int, int, int]],
    old: tuple[int, Sequence[str]],
    new: tuple[int, Sequence[str]],
) -> Iterator[str]:
    (_, i1, _, j1, _), (_, _, i2, _, j2) = group[0], group[-1]
    before, now = f"{old[0] + i1 + 1},{i2 - i1}", f"{new[0] + j1 + 1},{j2 - j1}"
    yield f"@@ -{before} +{now} @@"
    for tag, first, last, new_first, new_last in group:
        if tag == "equal":
            yield from (f" {line}" for line in old[1][first:last])
            continue
        yield from (f"-{line}" for line in old[1][first:last])
        yield from (f"+{line}" for line in new[1][new_first:new_last])


def suite_test(outcome: GateOutcome, prompt: str) -> SuiteTestDocument | None:
    """The test of a prompt as a whole; None where nothing was tested."""
    report = next((one for one in outcome.suites if one.prompt == prompt), None)
    if report is None:
        return None
    values = asdict(report)
    del values["prompt"]
    if report.verdict == "unmeasured":  # the measured rest of the cases shows no difference
        values["difference"] = None
    return SuiteTestDocument.model_validate(values)


def verdict_counts(outcome: GateOutcome, prompt: str) -> dict[str, int]:
    """How many cases of a prompt have each verdict."""
    return dict(Counter[str](case.verdict for case in outcome.cases if case.prompt == prompt))
