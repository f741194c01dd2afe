"""A version compared with the baseline of the version before, and with an anchor."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import exp
from typing import TYPE_CHECKING, Literal

from regauge.gate._cases import tallies_of
from regauge.gate.baselines import CASE_DIGITS
from regauge.prompts import Semver, load_version
from regauge.providers import parse_model_id
from regauge.stats import AnchorPolicy, e_bh, log_e_value, rate_difference, suite_p_value

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from regauge.evidence import Count, RateDifference
    from regauge.gate._cases import IntArray
    from regauge.gate.baselines import Baseline, BaselineKey, StoredBaseline
    from regauge.prompts import Prompt
    from regauge.runner import Eval
    from regauge.stats import Direction

# The false discovery rate over all checks, for each direction: the usual 5 %.
_FALSE_DISCOVERIES = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckChange:
    """One check of one case whose pass rate changed with certainty.

    Attributes:
        e_value: Evidence.
        bound: E-value required among all checks.
        since: When the counts in `before` were measured.
    """

    case: str
    check: str
    direction: Literal["worse", "better"]
    before: Count
    now: Count
    e_value: float
    bound: float
    since: str = "with the version before"

    def __str__(self) -> str:
        verb = "worse" if self.direction == "worse" else "better"
        return f"{self.case}: {self.check} {verb}: passed {self.now}; {self.before} {self.since}"


def changes_between(
    before: StoredBaseline,
    now: StoredBaseline,
    *,
    accepted: Collection[str] = (),
) -> tuple[CheckChange, ...]:
    """Find the checks that pass less or more often, by the gate's own test of one case.

    It finds what the few trials of a gate cannot, such as a case that now fails every other time.

    Args:
        accepted: Cases that may pass less often.
    """
    checks = [
        (case_id, check, case.checks[check], now.cases[case_id].checks[check])
        for case_id, case in sorted(before.cases.items())
        if case_id in now.cases and now.cases[case_id].digest == case.digest
        for check in sorted(case.checks)
        if check in now.cases[case_id].checks
    ]
    if not checks:
        return ()
    check_changes: list[CheckChange] = []
    directions: tuple[Direction, ...] = ("worse", "better")
    for direction in directions:
        log_e = log_e_value(*_sides([(old, new) for *_, old, new in checks]), direction=direction)
        bound = float(e_bh(log_e, alpha=_FALSE_DISCOVERIES).log_bound.item())
        check_changes += [
            CheckChange(
                case=case_id,
                check=check,
                direction=direction,
                before=old,
                now=new,
                e_value=exp(min(float(evidence), 700.0)),
                bound=exp(bound),
            )
            for (case_id, check, old, new), evidence in zip(checks, log_e, strict=True)
            if evidence >= bound and not (direction == "worse" and case_id in accepted)
        ]
    return tuple(check_changes)


def accepted_since(prompt: Prompt, version: str) -> frozenset[str]:
    """The cases that the changelog accepts in versions after one."""
    since = Semver.parse(version) if version else None
    return frozenset(
        accepted.case
        for entry in prompt.changelog
        if since is None or Semver.parse(entry.version) > since
        for accepted in entry.accepted
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorComparison:
    """A version compared with the anchor, on the cases that both have trials of.

    Attributes:
        version: Version of the anchor.
        cases: Number of compared cases.
        difference: The version minus the anchor.
        p_value: Probability of at least this many failures if nothing changed since the anchor,
            without cases that changelogs accept since.
        is_rerun: Whether the anchor was re-run alongside this version.
        is_suspected: Whether the stored trials suggest a loss, so that the anchor should be re-run.
        is_confirmed: Whether trials of the same days show the loss, too.
    """

    version: str
    cases: int
    difference: RateDifference
    p_value: float
    is_rerun: bool
    is_suspected: bool
    is_confirmed: bool

    def __str__(self) -> str:
        points = (self.difference.value, self.difference.low, self.difference.high)
        value, low, high = (f"{100 * point:+.1f}" for point in points)
        return f"since {self.version}: {value} points ({low} to {high})"


def anchor_version(
    setting: str, released: Iterable[Semver], *, current: Semver | None
) -> Semver | None:
    """The version to compare with; None without any, or if it is the current one.

    >>> versions = [Semver.parse(text) for text in ("1.0.0", "2.0.0", "2.1.0")]
    >>> str(anchor_version("major", versions, current=Semver.parse("2.2.0")))
    '2.0.0'

    Args:
        setting: `major`, `none` or a version.
        released: All released versions of the prompt.
        current: Compared version; None if the prompt has none.
    """
    if setting == "none" or current is None:
        return None
    if setting == "major":
        stable = sorted(
            version for version in released if not version.prerelease and version <= current
        )
        anchor = next((version for version in stable if version.major == stable[-1].major), None)
    else:
        anchor = Semver.parse(setting)
    return None if anchor == current else anchor


def anchor_eval(eval_: Eval, version: Semver) -> Eval:
    """An eval with the prompt of the anchor from git, and today's cases and judges.

    Raises:
        PromptError: The prompt of that version cannot be read.
        GitError: Neither the file nor any commit has the version.
    """
    head = eval_.prompt
    prompt = load_version(head.path, version)
    follows = head.model is not None and parse_model_id(head.model) == eval_.model
    model = parse_model_id(prompt.model) if follows and prompt.model else eval_.model
    return replace(
        eval_,
        prompt=replace(prompt, name=head.name),
        model=model,
        origin=f"{eval_.origin} in version {version}",
    )


def stored_anchor(
    baselines: Iterable[Baseline], version: str, key: BaselineKey
) -> StoredBaseline | None:
    """The stored trials of a version with the dataset and judges of a key; None without any.

    An anchor may name another model than the key, and then counts as released.

    Args:
        baselines: Baselines of the prompt, newest first.
    """
    fitting = [
        anchor
        for baseline in baselines
        for anchor in baseline.anchors
        if (anchor.version, anchor.key.dataset, anchor.key.judges)
        == (version, key.dataset, key.judges)
    ]
    fitting.sort(key=lambda anchor: anchor.key.model != key.model)
    return next(iter(fitting), None)


def compare_baselines(
    anchor: StoredBaseline,
    baseline: StoredBaseline,
    *,
    accepted: Collection[str] = (),
) -> AnchorComparison | None:
    """Compare a version's trials with the anchor's; None without a common case."""
    policy = AnchorPolicy()
    counts = {case_id: case.total for case_id, case in baseline.cases.items()}
    digests = {case_id: case.digest for case_id, case in baseline.cases.items()}
    comparison = compare_with_anchor(anchor, counts, digests, accepted=accepted)
    if comparison is None:
        return None
    is_rerun = anchor.drawn_for == baseline.key.prompt
    return replace(
        comparison,
        is_rerun=is_rerun,
        is_suspected=not is_rerun and comparison.p_value <= policy.trigger,
        is_confirmed=is_rerun and comparison.p_value <= policy.confirm,
    )


def compare_with_anchor(
    anchor: StoredBaseline,
    counts: Mapping[str, Count],
    digests: Mapping[str, str],
    *,
    accepted: Collection[str] = (),
) -> AnchorComparison | None:
    """Compare trials of some version with the anchor's; None without a common case.

    Args:
        counts: Passes and trials, by case.
        digests: Digest of each case of today; other cases, and trials of other states, are
            not compared.
        accepted: Cases left out of the test, as they may be worse since the anchor.
    """
    pairs = {
        case_id: (baseline.total, count)
        for case_id, count in sorted(counts.items())
        if count.trials
        and (baseline := anchor.cases.get(case_id)) is not None
        and baseline.digest == digests.get(case_id, "")[:CASE_DIGITS]
        and baseline.total.trials
    }
    difference = rate_difference(*_sides(pairs.values()))
    if difference is None:
        return None
    tested = [pair for case_id, pair in pairs.items() if case_id not in accepted]
    p_value = float(suite_p_value(*_sides(tested))) if tested else 1.0
    return AnchorComparison(
        version=anchor.version,
        cases=len(pairs),
        difference=difference,
        p_value=p_value,
        is_rerun=False,
        is_suspected=False,
        is_confirmed=False,
    )


def _sides(pairs: Collection[tuple[Count, Count]]) -> tuple[IntArray, ...]:
    """Passes and trials of both sides."""
    return (*tallies_of([old for old, _ in pairs]), *tallies_of([new for _, new in pairs]))
