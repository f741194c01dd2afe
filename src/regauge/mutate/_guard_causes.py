"""The causes by which a change removes guards of instructions, and the texts that it edits."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from regauge.errors import RegaugeError
from regauge.mutate._report import mutants_path, parse_mutants, short_digest

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from regauge.datasets import GoldenCase
    from regauge.gate import BaseCommit
    from regauge.mutate._operators import Mutant
    from regauge.mutate._report import Guards, MutantRow
    from regauge.prompts import Prompt
    from regauge.runner import Eval

# Texts with less similarity are not edits of each other.
_EDITED = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseClasses:
    """The committed classes of the mutants of a base.

    Attributes:
        rows: By id; empty if they hold for another model.
        guards: The cases and judges that they hold for; None if unknown.
        notes: Remarks on them.
        has_file: Whether the base has any.
    """

    rows: Mapping[str, MutantRow] = field(default_factory=dict[str, "MutantRow"])
    guards: Guards | None = None
    notes: tuple[str, ...] = ()
    has_file: bool = False


def load_base_classes(
    base_commit: BaseCommit, prompt: Prompt, base_prompt: Prompt | None, suites: Sequence[Eval]
) -> BaseClasses:
    """Load the committed classes of the base; the change's own file does not count.

    Args:
        prompt: The prompt of the change.
        base_prompt: The same prompt on the base; None if it is new.
        suites: Its evals.
    """
    ref, name = base_commit.ref, base_commit.prompt_name(prompt)
    path = mutants_path(base_commit.project, name)
    data = base_commit.read(path)
    if data is None:
        note = (
            f"{ref} has no {base_commit.project.relative(path)}, so instructions that this change"
            f" leaves as they are have no class; run there: regauge mutate {name}"
        )
        return BaseClasses(notes=(note,))
    try:
        file = parse_mutants(data.decode(errors="replace"), path, name)
    except RegaugeError as error:
        return BaseClasses(notes=(f"classes of {ref} cannot be read: {error}".split("\n")[0],))
    prompt_models = [suite.model for suite in suites if suite.target is None]
    model = str((prompt_models or [suites[0].model])[0])
    if file.model != model:
        note = f"classes of {ref} hold for {file.model}, not for {model}"
        return BaseClasses(notes=(note,), has_file=True)
    rows = {row.id: row for row in file.mutants}
    classes = BaseClasses(rows=rows, guards=file.guards, has_file=True)
    if base_prompt is None or file.digest == base_prompt.digest:
        return classes
    note = f"classes of {ref} are older than its prompt; run there: regauge mutate {file.prompt}"
    return replace(classes, notes=(note,))


def loss_causes(
    row: MutantRow,
    cases: Mapping[str, GoldenCase],
    judges: Mapping[str, str] | None,
    guards: Guards | None,
) -> tuple[str, ...]:
    """Return what removed the guard of a killed mutant; empty if it is still guarded.

    A mutant ends at the first cases that break, so no other guards are known.

    Args:
        judges: The digests of this side's judges by name; None if unknown.
    """
    if row.kind != "killed" or guards is None:
        return ()
    causes = {key: _cause_of_case(row, key, cases.get(key), guards) for key in row.cases}
    lost_cases = [f"{cause} {key}" for key, cause in causes.items() if cause]
    changed_judges = [
        f"{'changes' if name in judges else 'removes'} judge {name}"
        for name in row.judges
        if judges is not None and judges.get(name, "") != guards.judges.get(name, judges.get(name))
    ]
    # A remaining judge may have failed another case.
    has_no_judge = changed_judges and (len(changed_judges) == len(row.judges) or len(row.cases) > 1)
    if has_no_judge or (lost_cases and len(lost_cases) == len(row.cases)):
        return (*lost_cases, *changed_judges)
    return ()


def is_reduced(before: Mapping[str, GoldenCase], now: Mapping[str, GoldenCase]) -> bool:
    """Return whether cases of the base are deleted, edited or in another tier."""
    return any(
        (case := now.get(key)) is None or (case.digest, case.tier) != (old.digest, old.tier)
        for key, old in before.items()
    )


def _cause_of_case(row: MutantRow, key: str, case: GoldenCase | None, guards: Guards) -> str:
    if case is None:
        return "deletes case"
    if case.tier == "tracked" or (
        row.evidence.get("tier") == "critical" and case.tier != "critical"
    ):
        return f"sets tier = {case.tier} in case"
    digest = short_digest(case.digest)
    return "edits case" if guards.cases.get(key, digest) != digest else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextEdits:
    """The instructions that a change edits, adds and deletes.

    Attributes:
        new: Each edited or added one, after its earlier text; None for an added one.
    """

    new: Sequence[tuple[Mutant | None, Mutant]]
    deleted: Sequence[Mutant]


def pair_edits(old: Sequence[Mutant], new: Sequence[Mutant]) -> TextEdits:
    """Pair the instructions of two texts, the most similar first."""
    pairs = sorted(
        (
            (ratio, before.id, after.id)
            for before in old
            for after in new
            if before.operator == after.operator
            and (ratio := SequenceMatcher(None, before.text, after.text).ratio()) >= _EDITED
        ),
        reverse=True,
    )
    partner: dict[str, str] = {}
    for _, before, after in pairs:
        if after not in partner and before not in partner.values():
            partner[after] = before
    by_id = {mutant.id: mutant for mutant in old}
    return TextEdits(
        new=[(by_id.get(partner.get(mutant.id, "")), mutant) for mutant in new],
        deleted=[mutant for mutant in old if mutant.id not in partner.values()],
    )
