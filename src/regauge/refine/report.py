"""The result of a run in Markdown: for the pull request and `regauge refine show`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from regauge.printable import printable
from regauge.refine.tally import shown
from regauge.wording import plural

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

# What means something in Markdown, to GitHub or in HTML; a colon does in an address alone. An
# underscore inside a word means nothing.
_SPECIAL = re.compile(r"[\\`*\[\]#|<>@~&$]|\b_|_\b|:(?=//)|www(?=\.)", re.IGNORECASE)


def plain(text: object) -> str:
    """Text of others as words: no markup, no mention, no second line."""
    line = " ".join(printable(str(text)).split())
    return _SPECIAL.sub(_escaped, line)


def _escaped(found: re.Match[str]) -> str:
    first, rest = found[0][0], found[0][1:]
    # Mentions are looked for after entities are read: a space without width parts them.
    return f"&#{ord(first)};{'&#8203;' if first in '@#' else ''}{rest}"


def code(text: object) -> str:
    """Text of others inside one pair of backticks, also in a table."""
    return " ".join(printable(str(text)).split()).replace("`", "'").replace("|", "\\|")


def fenced(text: str, language: str) -> str:
    """A Markdown code block that its text cannot close."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{printable(text).rstrip()}\n{fence}"


def evidence(result: Mapping[str, Any]) -> Iterator[str]:
    """A table, and what makes it evidence, as Markdown; nothing without a proposal."""
    if not result["changes"] or result["revision"] is None:
        return
    yield "## Evidence"
    rows = ["| check | cases | before | with the revision |", "| - | - | - | - |"]
    for change in result["changes"]:
        rows += [
            f"| `{code(change['check'])}` | {name} | {_counts(said['before'])}"
            f" | {_counts(said['after'])} |"
            for name, said in _compared(change)
        ]
    suite = result["suite"]
    criteria = [one for one in result.get("criteria", []) if one["after"] is not None]
    if len(criteria) > 1:
        rows += [
            f"| {one['criterion']} ({plural(len(one['checks']), 'check')}) | all"
            f" | {_counts(one['before'])} | {_counts(one['after'])} |"
            for one in criteria
        ]
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
    lines += [_steadier_line(change) for change in result["changes"] if change.get("steadier")]
    if suite is not None:
        lines.append(f"- The gate over all cases: {plain(suite['decision'])}.")
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
    return [*lines, *goal_lines(result)]


def _compared(change: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The counts for an edit, by the cases they are of."""
    if change["redrawn"] is not None:
        yield "run again with both", change["redrawn"]
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
            f" on trials run again with both, a case passes {_points(redrawn['gain'])} points more"
            f" often (95 % interval {low} to {high}),"
        )
    return (
        f"- `{code(change['check'])}`:{gained} p = {change['fresh_p']:.2g} on trials that chose"
        f" nothing; p = {change['chosen_by']['p']:.2g} on those that chose the edit, of which"
        f" {change['calls']} were drawn with it."
    )


def _steadier_line(change: Mapping[str, Any]) -> str:
    found = change["steadier"]
    return (
        f"- `{code(change['check'])}` is steadier: the standard deviation of a case's verdict was"
        f" {found['sigma_before']:.2f} and is {found['sigma_after']:.2f}, on"
        f" {plural(found['cases'], 'case')} run again with both; the variance fell by"
        f" {found['fall']:.2f} (95 % interval {found['low']:.2f} to {found['high']:.2f}),"
        f" p = {found['steadier_p']:.2g}."
    )


def _points(share: float) -> str:
    return f"{100 * share:.0f}"


def _counts(count: Mapping[str, int]) -> str:
    """The number of failures, with its unit."""
    return f"failed {_failed(count)} trials of {plural(count['cases'], 'case')}"


_SHOWN = 12


def headline(result: Mapping[str, Any]) -> str:
    """The one sentence that says the result of it."""
    name, stop = result["prompt"], result["stop"]
    if stop["reason"] == "unreadable":
        return f"{name}: nothing could be proposed ({stop['text']})"
    if result["revision"] is None:
        return f"{name}: no change proposed ({stop['reason']}: {stop['text']})"
    revision = result["revision"]
    lines = f"{plural(revision['lines_added'], 'line')} added, {revision['lines_removed']} removed"
    version = f" as {revision['version']}" if revision["version"] else ""
    return f"{name}: a revision is proposed{version} ({lines}; {result['spent']['calls']} calls)"


def markdown_of(result: Mapping[str, Any]) -> str:
    """The rationale: what failed, why, what changes, the evidence, and what it took."""
    parts = [
        f"# {plain(headline(result))}",
        *_what_failed(result),
        *_what_people_said(result),
        *_what_changes(result),
        *goals(result),
        *evidence(result),
        *_variance(result),
        *_sentences(result),
        *_unverified(result),
        *_rejected(result),
        *_left(result),
        *_took(result),
    ]
    return "\n\n".join(parts) + "\n"


def _what_failed(result: Mapping[str, Any]) -> Iterator[str]:
    yield "## What failed"
    cases = result["cases"]
    yield (
        f"{plain(result['found'] or 'nothing was measured')}, over {cases['train']} train cases."
        f" {cases['holdout']} held-out cases only verify."
    )
    notes = [*result.get("warnings", []), *result.get("preflight", [])]
    if notes:
        yield "\n".join(f"- Note: {plain(note)}." for note in notes[:_SHOWN])


def _what_people_said(result: Mapping[str, Any]) -> Iterator[str]:
    """Comments and notes in full, labels counted; nothing where nothing was said."""
    people = result.get("people")
    if not people:
        return
    yield "## What people said"
    asked = result["spent"]["model_calls"]
    used = "Shown to the refiner model" if asked else "Unused: no refiner model was called"
    yield f"{plain(people['heard'])}. {used}. Feedback decides nothing."
    lines = [
        f"- {plain(one['by'] or one['at'])}: {plain(one['text'])}"
        for one in people["said"][:_SHOWN]
    ]
    more = len(people["said"]) - len(lines)
    if more > 0:
        lines.append(f"- and {more} more, in the audit trail")
    if lines:
        yield "\n".join(lines)


def _what_changes(result: Mapping[str, Any]) -> Iterator[str]:
    if not result["changes"] or result["revision"] is None:
        return
    yield "## What changes, and why"
    yield "\n".join(
        f"{number}. `{code(change['strategy'])}` by {plain(change['proposer'])},"
        f" for `{code(change['check'])}`: {plain(change['rationale'] or 'no reason given')}"
        for number, change in enumerate(result["changes"], 1)
    )
    revision = result["revision"]
    yield fenced(revision["diff"], "diff")
    if revision["version"]:
        yield f"Version {plain(revision['version'])}: {plain(revision['why_version'])}."


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
    if "sigma" in before and "sigma" in after:
        yield (
            f"The standard deviation of a case's verdict is {before['sigma']:.2f} before and"
            f" {after['sigma']:.2f} after, over all checks."
        )
    yield (
        f"Of {before['cases']} cases before and {after['cases']} after that were drawn at least"
        " twice."
    )


def _sentences(result: Mapping[str, Any]) -> Iterator[str]:
    """The checks that each sentence carries; sentences without any come last."""
    sentences = result.get("sentences", [])
    if not sentences:
        return
    yield "## Which sentence carries which check"
    kinds = ("carries", "may_carry", "hinders")
    bearing = [one for one in sentences if any(one[kind] for kind in kinds)]
    rows = ["| sentence | carries | may carry | stands in the way of |", "| - | - | - | - |"]
    rows += [
        f"| {plain(one['text'])} | {' | '.join(_checks(one[kind]) for kind in kinds)} |"
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
        yield "\n".join(f"- {plain(one['text'])}" for one in idle)


def _checks(found: Mapping[str, float]) -> str:
    return ", ".join(f"`{code(check)}` (p = {p:.2g})" for check, p in found.items())


def _unverified(result: Mapping[str, Any]) -> Iterator[str]:
    """Edits that passed their test, where no calls were left for the gate to have its say."""
    left, aside = result.get("unverified") or {"edits": ()}, result.get("set_aside", [])
    if aside or left["edits"]:
        yield "## Not verified"
    if aside:
        yield "\n".join(f"- {plain(text)}" for text in aside)
        yield "The suite refused them together with the others, and could not be asked about each."
    if not left["edits"]:
        return
    yield "\n".join(
        f"- `{code(one['strategy'])}`, for `{code(one['check'])}`: failed {_failed(one['before'])}"
        f" trials before, {_failed(one['after'])} with it, p = {one['p']:.2g}{_words_of(one)}"
        for one in left["edits"]
    )
    yield (
        "They passed a test of their own, and neither the held-out cases nor the gate had their"
        f" say. About {left['calls']} calls more would settle it: `{code(left['command'])}`."
    )


def _rejected(result: Mapping[str, Any]) -> Iterator[str]:
    rejected, unreadable = result["rejected"], result["unreadable"]
    if not rejected and not unreadable:
        return
    yield "## Tried and rejected"
    lines = [
        f"- {plain(entry['finding'])}, for `{code(entry['for'])}`: {plain(entry['detail'])}"
        f"{_words_of(entry)}"
        for entry in rejected[:_SHOWN]
    ]
    lines += [f"- unreadable: {plain(text)}" for text in unreadable[:_SHOWN]]
    more = len(rejected) + len(unreadable) - len(lines)
    if more > 0:
        lines.append(f"- and {more} more, in the audit trail")
    yield "\n".join(lines)


def _left(result: Mapping[str, Any]) -> Iterator[str]:
    if result["open"]:
        yield "## Still failing"
        yield "\n".join(f"{_failing(one)}{_unmoved(one)}" for one in result["open"])
    if result.get("spared"):
        yield "## Left alone, for no goal asks for more"
        yield "\n".join(_failing(one) for one in result["spared"])
    for heading, worked in (("worked on", True), ("left alone", False)):
        flaky = [one for one in result["flaky"] if bool(one.get("tried")) is worked]
        if flaky:
            yield f"## Flaky, and {heading}"
            yield "\n".join(_failing(one) for one in flaky)
    if result["questions"]:
        yield "## Questions to a person"
        yield "\n".join(
            f"{_failing(one)} — {plain(one['kind'])}: {plain(one['hypothesis'])}"
            for one in result["questions"]
        )


def _took(result: Mapping[str, Any]) -> Iterator[str]:
    yield "## What it took"
    spent, stop = result["spent"], result["stop"]
    models = ", ".join(f"`{code(model)}`" for model in result["models"])
    simulated = " (simulated)" if result["simulated"] else ""
    replayed = f", {spent['replayed']} of them replayed" if spent["replayed"] else ""
    yield (
        f"{spent['calls']} of at most {spent['calls_max']} calls{replayed}:"
        f" {spent['completions']} of {models}{simulated}, {spent['judge_calls']} of LLM judges,"
        f" {spent['model_calls']} of the refiner model; ${spent['usd']:.4f};"
        f" {plural(spent['tested'], 'edit')} tested in {plural(spent['cycles'], 'cycle')}."
    )
    looks = result.get("holdout_looks")
    if looks and 2 * looks["after"] > looks["max"]:
        yield (
            f"The held-out cases have decided about {looks['after']} revisions so far; after"
            f" {looks['max']}, `split_salt` in `[tool.regauge]` has to reshuffle the split."
        )
    yield f"Stopped: {stop['reason']}, {plain(stop['text'])}. Run `{code(result['run'])}`."
    left = result.get("unverified")
    if left and not left["edits"]:
        how = f"`{code(left['command'])}`"
        yield f"With about {left['calls']} calls more it can go on where it stopped: {how}."


def _failing(one: Mapping[str, Any]) -> str:
    cases = ", ".join(f"`{code(case)}`" for case in one["cases"][:_SHOWN])
    more = len(one["cases"]) - _SHOWN
    return (
        f"- `{code(one['check'])}` failed {one['failures']} of {one['trials']} trials: {cases}"
        f"{f' and {more} more' if more > 0 else ''}"
    )


def _failed(count: Mapping[str, int]) -> str:
    return f"{count['trials'] - count['passed']} of {count['trials']}"


def _unmoved(one: Mapping[str, Any]) -> str:
    """A question to a person, where no edit did better in the least."""
    if not one.get("tried") or one["moved"]:
        return ""
    tried = plural(one["tried"], "edit")
    return f". None of {tried} moved it: can the model do it, and is the check right?"


def _words_of(entry: Mapping[str, Any]) -> str:
    added, removed = (" ".join(str(entry.get(key, "")).split()) for key in ("added", "removed"))
    if not added:
        return ""
    instead = f" instead of `{code(_short(removed))}`" if removed else ""
    return f" (`{code(_short(added))}`{instead})"


def _short(text: str) -> str:
    return text if len(text) <= 100 else f"{text[:99]}…"  # noqa: PLR2004 - a line of text


def goals(result: Mapping[str, Any]) -> Iterator[str]:
    """A table of goals, as Markdown; nothing where none was set."""
    said = result.get("goals")
    if said is None:
        return
    yield "## Goals"
    columns = ["before", "after"] if result["revision"] is not None else ["before"]
    heads = {"before": "the prompt as it was", "after": "with the revision"}
    rows = [["goal", *(heads[column] for column in columns)], ["-"] * (1 + len(columns))]
    rows += [
        [f"`{code(one['name'])}`", *(_standing(one[column]) for column in columns)]
        for one in said["reached"]
    ]
    yield "\n".join(f"| {' | '.join(row)} |" for row in rows)
    yield (
        "Met: the lower bound of the 95 % interval reaches the goal. Missed: the upper bound does"
        f" not. Unsettled: more trials would tell. What was asked is `{said['digest'][:12]}`."
    )


def goal_lines(result: Mapping[str, Any]) -> list[str]:
    """A line for each goal: how far what is proposed reaches it."""
    said = result.get("goals")
    reached: Sequence[Mapping[str, Any]] = said["reached"] if said is not None else ()
    return [f"goal {one['name']}: {_standing(one['after'] or one['before'])}" for one in reached]


def _standing(one: Mapping[str, Any]) -> str:
    counts = f"passed {one['passed']} of {one['trials']}"
    low, high = (f"{100 * one[bound]:.1f}" for bound in ("low", "high"))
    undrawn = f", {one['undrawn']} cases undrawn" if one["undrawn"] else ""
    return plain(f"{one['standing']}: {counts}, {low} to {high} %{undrawn}")
