"""Earlier decisions of a change: a repeated gate continues one instead of starting again."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter

from regauge.digests import digest_of
from regauge.errors import Diagnostic, GitError, InvalidFileError, MachineError
from regauge.files import read_regular
from regauge.gate._types import GateCase, GatePolicy
from regauge.git import run_git
from regauge.recordings import utc_now
from regauge.strict_json import read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from regauge.gate._result import CaseComparison, FinalDecision


_FINAL: Final = frozenset({"accept", "reject"})
_PULL: Final = re.compile(r"refs/pull/(\d+)/")


@dataclass(frozen=True, slots=True, kw_only=True)
class GatedChange:
    """The pull request or branch that is gated.

    Attributes:
        noun: `pull request`, `merge request` or `branch`.
        name: Number or name; empty for a detached HEAD.
    """

    noun: str
    name: str

    @classmethod
    def current(cls, root: Path, environ: Mapping[str, str]) -> GatedChange:
        """The change of a CI job, or the current branch."""
        pull = _PULL.match(environ.get("GITHUB_REF", ""))
        if pull is not None:
            return cls(noun="pull request", name=pull[1])
        if environ.get("CI_MERGE_REQUEST_IID"):
            return cls(noun="merge request", name=environ["CI_MERGE_REQUEST_IID"])
        try:
            done = run_git(root, "symbolic-ref", "--short", "HEAD")
        except GitError:
            return cls(noun="branch", name="")
        name = done.stdout.decode("utf-8", "replace").strip() if done.returncode == 0 else ""
        return cls(noun="branch", name=name)

    def __str__(self) -> str:
        return f"{self.noun} {self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedDecision:
    """One decision.

    Attributes:
        key: Digest of the comparison; see `key_of_comparison`.
        change: Pull request or branch.
        candidate: Digest of its prompts; see `candidate_of`.
        more_trials: Further trials requested, run by run.
        decided_at: UTC time, as in recordings.
    """

    key: str
    change: str
    candidate: str
    decision: FinalDecision
    more_trials: tuple[int, ...] = ()
    decided_at: str = ""

    @property
    def final(self) -> bool:
        """Return whether further trials change nothing."""
        return self.decision in _FINAL


class DecisionLog:
    """The decisions in one file, oldest first.

    Args:
        path: The file; incomplete lines of a killed job are skipped.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    def find(self, key: str) -> LoggedDecision | None:
        """The latest decision of a comparison."""
        return next((logged for logged in reversed([*self._read()]) if logged.key == key), None)

    def rejected_before(self, change: GatedChange, candidate: str) -> int:
        """The number of rejected other versions of a change."""
        rejected = {
            logged.candidate
            for logged in self._read()
            if logged.change == str(change) and logged.decision == "reject"
        }
        return len(rejected - {candidate})

    def add(self, decision: LoggedDecision) -> None:
        """Append a decision, unless it is already the latest of its key."""
        latest = self.find(decision.key)
        if latest is not None and replace(latest, decided_at="") == decision:
            return
        document = {**asdict(decision), "decided_at": utc_now()}
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(document) + "\n")
        except OSError as error:
            raise MachineError.from_os_error(error, self._path) from error

    def _read(self) -> Iterator[LoggedDecision]:
        try:
            lines = read_regular(self._path).splitlines()
        except FileNotFoundError:
            return
        except OSError as error:
            raise InvalidFileError([Diagnostic.unreadable(self._path, error)]) from error
        for line in lines:
            try:
                document: dict[str, Any] = read_json(line)
                yield replace(
                    LoggedDecision(**document), more_trials=tuple(document["more_trials"])
                )
            except (ValueError, TypeError, KeyError):
                continue


def key_of_comparison(
    compared_cases: Sequence[CaseComparison],
    policy: GatePolicy,
    *,
    endpoint_of: Callable[[str], str],
) -> str:
    """The digest of everything that a decision depends on, apart from the trials.

    It covers the requests and judges of both sides, the baseline, tiers and policy, and no
    commit: a comparison is the same after a rebase.

    Args:
        endpoint_of: Returns the digest of a provider's endpoint; empty without one.
    """
    candidates = {
        id(compared_case.candidate.eval): compared_case.candidate.eval
        for compared_case in compared_cases
        if compared_case.candidate is not None
    }.values()
    bases = [
        compared_case.base.eval
        for compared_case in compared_cases
        if compared_case.base is not None
    ]
    judges = [judge for eval_ in candidates for judge in eval_.model_judges]
    providers = {
        *(eval_.model.provider for eval_ in (*candidates, *bases)),
        *(model.partition(":")[0] for judge in judges for model in judge.models),
    }
    # `asdict` takes seconds for ten thousand cases.
    cases = TypeAdapter(GateCase)
    endpoints = sorted(f"{name} {digest}" for name in providers if (digest := endpoint_of(name)))
    return digest_of(
        [
            TypeAdapter(GatePolicy).dump_python(policy, mode="json"),
            [
                [
                    cases.dump_python(compared_case.case, mode="json"),
                    compared_case.candidate.digest if compared_case.candidate is not None else "",
                    compared_case.base.eval.prompt.digest if compared_case.base is not None else "",
                ]
                for compared_case in compared_cases
            ],
            sorted(
                {f"{judge.name} {judge.digest}" for eval_ in candidates for judge in eval_.judges}
            ),
            *([endpoints] if endpoints else []),
        ]
    )


def candidate_of(compared_cases: Sequence[CaseComparison]) -> str:
    """The digest of the changed prompts."""
    prompts = {
        f"{compared_case.candidate.eval.prompt.name} {compared_case.candidate.eval.prompt.digest}"
        for compared_case in compared_cases
        if compared_case.candidate is not None and compared_case.case.state == "changed"
    }
    return digest_of(sorted(prompts))
