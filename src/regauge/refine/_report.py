"""What came of a run, in Markdown: for the pull request, and for `regauge refine show`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from regauge.printable import printable
from regauge.refine._variance import shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["evidence_lines", "headline", "markdown_of"]

_SHOWN = 12
# What means something in Markdown, to GitHub or in HTML; a colon does in an address alone. An
# underscore inside a word means nothing.
_SPECIAL = re.compile(r"[\\`*\[\]#|<>@~&$]|\b_|_\b|:(?=//)|www(?=\.)", re.IGNORECASE)


def headline(result: Mapping[str, Any]) -> str:
    """The one sentence that says what came of it."""
    name, stop = result["prompt"], result["stop"]
    if result["revision"] is None:
        return f"{name}: no change proposed ({stop['reason']}: {stop['text']})"
    revision = result["revision"]
    lines = (
        f"{_counted(revision['lines_added'], 'line')} added, {revision['lines_removed']} removed"
    )
    version = f" as {revision['version']}" if revision["version"] else ""
    return f"{name}: a revision is proposed{version} ({lines}; {stop['text']})"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def markdown_of(result: Mapping[str, Any]) -> str:
    """The rationale: what failed, why, what changes, the evidence, and what it took."""
    parts = [
        f"# {_plain(headline(result))}",
        *_what_failed(result),
        *_what_changes(result),
        *_evidence(result),
        *_variance(result),
        *_sentences(result),
        *_rejected(result),
        *_left(result),
        *_took(result),
    ]
    return "\n\n".join(parts) + "\n"


def _what_failed(result: Mapping[str, Any]) -> Iterator[str]:
    yield "## What failed"
    cases = result["cases"]
    yield (
        f"{_plain(result['found'] or 'nothing was measured')}, over {cases['train']} train cases."
        f" {cases['holdout']} held-out cases only verify."
    )
    notes = [*result.get("warnings", []), *result.get("preflight", [])]
    if notes:
        yield "\n".join(f"- Mind: {_plain(note)}." for note in notes[:_SHOWN])


def _what_changes(result: Mapping[str, Any]) -> Iterator[str]:
    if not result["changes"] or result["revision"] is None:
        return
    yield "## What changes, and why"
    yield "\n".join(
        f"{number}. `{_code(change['strategy'])}` by {_plain(change['proposer'])},"
        f" for `{_code(change['check'])}`: {_plain(change['rationale'] or 'no reason given')}"
        for number, change in enumerate(result["changes"], 1)
    )
    revision = result["revision"]
    yield _fenced(revision["diff"], "diff")
    if revision["version"]:
        yield f"Version {_plain(revision['version'])}: {_plain(revision['why_version'])}."


def _evidence(result: Mapping[str, Any]) -> Iterator[str]:
    if not result["changes"] or result["revision"] is None:
        return
    yield "## Evidence"
    rows = ["| check | cases | before | with the revision |", "| - | - | - | - |"]
    for change in result["changes"]:
        rows += [
            f"| `{_code(change['check'])}` | {name} | {_counts(said['before'])}"
            f" | {_counts(said['after'])} |"
            for name, said in _compared(change)
        ]
    suite = result["suite"]
    if suite is not None:
        rows.append(
            f"| every check | all | {_counts(suite['before'])} | {_counts(suite['after'])} |"
        )
    yield "\n".join(rows)
    yield (
        "No trial with the revision chose it. Before, on train and held-out cases, are the trials"
        " that found the failures."
    )
    lines = [_proof(change) for change in result["changes"]]
    if suite is not None:
        lines.append(f"- The gate over all cases: {_plain(suite['decision'])}.")
    yield "\n".join(lines)


def evidence_lines(result: Mapping[str, Any]) -> list[str]:
    """The evidence for a proposal, a line for each edit and one for the suite; none without one."""
    if result["revision"] is None:
        return []
    lines = [
        f"{change['check']}: "
        + "; ".join(
            f"{name}: failed {_failed(said['before'])} trials before,"
            f" {_failed(said['after'])} after"
            for name, said in _compared(change)
        )
        for change in result["changes"]
    ]
    suite = result["suite"]
    if suite is not None:
        lines.append(
            f"every check, all cases: failed {_failed(suite['before'])} trials before,"
            f" {_failed(suite['after'])} after; the gate: {suite['decision']}"
        )
    return lines


def _compared(change: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """What was counted for an edit, by the cases it was counted on."""
    if change["redrawn"] is not None:
        yield "drawn anew under both", change["redrawn"]
    for split, name in (("train", "train"), ("holdout", "held out")):
        said = change["fresh"][split]
        if said["before"]["trials"] or said["after"]["trials"]:
            yield name, said


def _proof(change: Mapping[str, Any]) -> str:
    redrawn = change["redrawn"]
    gained = ""
    if redrawn is not None:
        low, high = (_points(bound) for bound in redrawn["interval"])
        gained = (
            f" of those drawn anew under both, a case passes {_points(redrawn['gain'])} points more"
            f" often (95 % interval {low} to {high}),"
        )
    return (
        f"- `{_code(change['check'])}`:{gained} p = {change['fresh_p']:.2g} on trials that chose"
        f" nothing; p = {change['chosen_by']['p']:.2g} on those that chose the edit, of which"
        f" {change['calls']} were drawn with it."
    )


def _points(share: float) -> str:
    return f"{100 * share:.0f}"


def _variance(result: Mapping[str, Any]) -> Iterator[str]:
    said = result["variance"]
    if "before" not in said or "after" not in said or result["revision"] is None:
        return
    yield "## Variance"
    before, after = said["before"], said["after"]
    rows = ["| two trials of one case | before | after |", "| - | - | - |"]
    rows += [
        f"| give the same {noun} | {shown(before[key])} | {shown(after[key])} |"
        for key, noun in (("answers", "answer"), ("verdicts", "verdicts"))
    ]
    yield "\n".join(rows)
    yield (
        f"Of {before['cases']} cases before and {after['cases']} after that were drawn at least"
        " twice."
    )


def _sentences(result: Mapping[str, Any]) -> Iterator[str]:
    """What every sentence that was left out carries; those that nothing missed come last."""
    sentences = result.get("sentences", [])
    if not sentences:
        return
    yield "## Which sentence carries which check"
    kinds = ("carries", "may_carry", "hinders")
    bearing = [one for one in sentences if any(one[kind] for kind in kinds)]
    rows = ["| sentence | carries | may carry | stands in the way of |", "| - | - | - | - |"]
    rows += [
        f"| {_plain(one['text'])} | {' | '.join(_checks(one[kind]) for kind in kinds)} |"
        for one in bearing
    ]
    if bearing:
        yield "\n".join(rows)
    idle = [one for one in sentences if one not in bearing and one["cases"]]
    if idle:
        cases = min(one["cases"] for one in idle)
        yield (
            f"Without these nothing failed more often, on {cases} cases: they are needless, or no"
            " golden case asks for what they say, or too few trials tell."
        )
        yield "\n".join(f"- {_plain(one['text'])}" for one in idle)


def _checks(found: Mapping[str, float]) -> str:
    return ", ".join(f"`{_code(check)}` (p = {p:.2g})" for check, p in found.items())


def _rejected(result: Mapping[str, Any]) -> Iterator[str]:
    rejected, unreadable = result["rejected"], result["unreadable"]
    if not rejected and not unreadable:
        return
    yield "## Tried and rejected"
    lines = [
        f"- {_plain(entry['finding'])}, for `{_code(entry['for'])}`: {_plain(entry['detail'])}"
        f"{_words_of(entry)}"
        for entry in rejected[:_SHOWN]
    ]
    lines += [f"- unreadable: {_plain(text)}" for text in unreadable[:_SHOWN]]
    more = len(rejected) + len(unreadable) - len(lines)
    if more > 0:
        lines.append(f"- and {more} more, in the audit trail")
    yield "\n".join(lines)


def _left(result: Mapping[str, Any]) -> Iterator[str]:
    if result["open"]:
        yield "## Still failing"
        yield "\n".join(f"{_failing(one)}{_unmoved(one)}" for one in result["open"])
    if result["flaky"]:
        yield "## Flaky, and left alone"
        yield "\n".join(_failing(one) for one in result["flaky"])
    if result["questions"]:
        yield "## Questions to a person"
        yield "\n".join(
            f"{_failing(one)} — {_plain(one['kind'])}: {_plain(one['hypothesis'])}"
            for one in result["questions"]
        )


def _took(result: Mapping[str, Any]) -> Iterator[str]:
    yield "## What it took"
    spent, stop = result["spent"], result["stop"]
    models = ", ".join(f"`{_code(model)}`" for model in result["models"])
    simulated = " (simulated)" if result["simulated"] else ""
    yield (
        f"{spent['calls']} of at most {spent['calls_max']} calls of {models}{simulated},"
        f" {spent['model_calls']} of the proposing model, ${spent['usd']:.4f};"
        f" {_counted(spent['tested'], 'edit')} tested in {_counted(spent['cycles'], 'cycle')}."
    )
    yield f"Stopped: {stop['reason']}, {_plain(stop['text'])}. Run `{_code(result['run'])}`."


def _failing(one: Mapping[str, Any]) -> str:
    cases = ", ".join(f"`{_code(case)}`" for case in one["cases"][:_SHOWN])
    more = len(one["cases"]) - _SHOWN
    return (
        f"- `{_code(one['check'])}` failed {one['failures']} of {one['trials']} trials: {cases}"
        f"{f' and {more} more' if more > 0 else ''}"
    )


def _unmoved(one: Mapping[str, Any]) -> str:
    """A question to a person, where no edit did better in the least."""
    if not one.get("tried") or one["moved"]:
        return ""
    tried = _counted(one["tried"], "edit")
    return f". None of {tried} moved it: can the model do it, and is the check right?"


def _counts(count: Mapping[str, int]) -> str:
    """How often something failed, and what that is counted in."""
    return f"failed {_failed(count)} trials of {_counted(count['cases'], 'case')}"


def _failed(count: Mapping[str, int]) -> str:
    return f"{count['trials'] - count['passed']} of {count['trials']}"


def _words_of(entry: Mapping[str, Any]) -> str:
    added = " ".join(str(entry["added"]).split())
    if not added:
        return ""
    short = added if len(added) <= 100 else f"{added[:99]}…"  # noqa: PLR2004 - a line of text
    return f" (`{_code(short)}`)"


def _plain(text: object) -> str:
    """Text of others as words: no markup, no mention, no second line."""
    line = " ".join(printable(str(text)).split())
    return _SPECIAL.sub(_escaped, line)


def _escaped(found: re.Match[str]) -> str:
    first, rest = found[0][0], found[0][1:]
    # Mentions are looked for after entities are read: a space without width parts them.
    return f"&#{ord(first)};{'&#8203;' if first in '@#' else ''}{rest}"


def _code(text: object) -> str:
    """Text of others inside one pair of backticks, also in a table."""
    return " ".join(printable(str(text)).split()).replace("`", "'").replace("|", "\\|")


def _fenced(text: str, language: str) -> str:
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{printable(text).rstrip()}\n{fence}"
