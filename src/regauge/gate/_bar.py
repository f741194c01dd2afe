"""The bar of a change: the acceptance criteria, which come from the base, and edits of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, get_args

from regauge.datasets import Script, Tier, dataset_files
from regauge.gate._code import files_named_in, files_not_loaded, files_of_code, is_other_code
from regauge.gate._commit import target_of_base
from regauge.judges import AsyncFunctionJudge, Rule, calibrated_judges, judge_status
from regauge.project import CALIBRATION_SUFFIX, ENDPOINT_IDENTITY
from regauge.runner import declared_evals

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterator, Mapping, Sequence
    from pathlib import Path

    from regauge.datasets import Dataset, GoldenCase
    from regauge.gate._commit import BaseCommit
    from regauge.judges import ModelJudge
    from regauge.project import Settings
    from regauge.prompts import Prompt
    from regauge.runner import DeclaredEval, Eval


def is_function_judge(judge: object) -> bool:
    """Return whether a judge is a function, so that its digest covers the code it uses."""
    is_rule = isinstance(judge, Rule) and judge.kind == "function"
    return is_rule or isinstance(judge, AsyncFunctionJudge)


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedBar:
    """One part of the bar that a change lowers.

    Attributes:
        part: Name of the part, such as `on_broken in [tool.regauge.gate]`.
        base: Value on the base; empty for a file.
        head: Value now; empty for a file.
    """

    part: str
    base: str = ""
    head: str = ""

    def __str__(self) -> str:
        return f"{self.part}: {self.base} -> {self.head}" if self.base else f"{self.part} changed"


_TIERS: Final = get_args(Tier)
# A setting or judge fits on one line with its value; longer values are cut.
_VALUE_CHARS_MAX: Final = 60
# Values of a setting, strictest first.
_RANKED: Final[Mapping[str, tuple[str, ...]]] = {
    "gate.on_broken": ("block", "net", "warn"),
    "gate.on_undecided": ("block", "warn"),
    "gate.on_drifted": ("block", "warn"),
    "gate.on_new": ("block", "warn"),
    "gate.on_anchor_loss": ("block", "warn"),
    "gate.on_judge_change": ("refuse", "note"),
}
# Settings whose larger values are stricter; below, whose smaller values are.
_LARGER: Final = frozenset(
    {
        "gate.alpha_case",
        "gate.alpha_suite",
        "gate.baseline_trials",
        "gate.first_trials",
        "gate.new_case_trials",
        "gate.new_case_passes",
        "calibration.floor",
        "calibration.min_labels",
    }
)
_SMALLER: Final = frozenset({"gate.min_effect", "gate.accepted_max"})
_DATA: Final = frozenset({".json", ".jsonl"})


def moved_settings(base: Settings, head: Settings) -> Iterator[MovedBar]:
    """Yield the gate settings that are looser than on the base.

    A setting with neither a rank nor a direction, such as `ref`, is moved by any change. Settings
    of providers that are new move nothing.
    """
    now_set, base_set = head.model_dump(mode="json"), base.model_dump(mode="json")
    for table in ("gate", "calibration"):
        for name, before in base_set[table].items():
            if _is_looser(f"{table}.{name}", before, now_set[table][name]):
                yield _setting(f"{name} in [tool.regauge.{table}]", before, now_set[table][name])
    # The floor of guards applies if the base enables it.
    for name in ("floor", "pull_request") if base_set["mutate"]["pull_request"] else ():
        before, now = base_set["mutate"][name], now_set["mutate"][name]
        if before and (not now or now < before):
            yield _setting(f"{name} in [tool.regauge.mutate]", before, now)
    if now_set["record"] == "none" != base_set["record"]:
        yield _setting("record in [tool.regauge]", base_set["record"], "none")
    if base_set["judge_model"] not in {None, now_set["judge_model"]}:
        yield _setting(
            "judge_model in [tool.regauge]", base_set["judge_model"], now_set["judge_model"]
        )
    yield from _moved_endpoints(base_set["providers"], now_set["providers"])


def _moved_endpoints(
    base_endpoints: Mapping[str, Any], endpoints: Mapping[str, Any]
) -> Iterator[MovedBar]:
    for provider, endpoint in base_endpoints.items():
        table = f"[tool.regauge.providers.{provider}]"
        now: Mapping[str, Any] | None = endpoints.get(provider)
        if now is None:
            yield MovedBar(part=table, base="set", head="not set")
            continue
        for name in ENDPOINT_IDENTITY:
            if now[name] != endpoint[name]:
                yield _setting(f"{name} in {table}", endpoint[name], now[name])
        # A lower price evades a limit in dollars.
        for model, price in endpoint["prices"].items():
            today = now["prices"].get(model)
            if today is None or any((today[kind] or 0) < (price[kind] or 0) for kind in price):
                yield _setting(f"price of {model} in {table}", price, today)


def _setting(part: str, before: object, now: object) -> MovedBar:
    return MovedBar(part=part, base=_format_value(before), head=_format_value(now))


def _format_value(value: object) -> str:
    text = "not set" if value is None else json.dumps(value, ensure_ascii=False, default=str)
    return _cut(text)


def _cut(text: str) -> str:
    return text if len(text) <= _VALUE_CHARS_MAX else f"{text[:_VALUE_CHARS_MAX]}…"


def _is_looser(name: str, before: Any, now: Any) -> bool:
    if before == now:
        return False
    if (ranks := _RANKED.get(name)) is not None:
        return ranks.index(now) > ranks.index(before)
    if isinstance(before, str) or isinstance(now, str):
        return True
    if name in _LARGER:
        return bool(now < before)
    # No limit is the loosest value.
    return name not in _SMALLER or (before is not None and (now is None or now > before))


def _paired_cases(
    dataset: Dataset, before: Dataset | None
) -> Iterator[tuple[GoldenCase, GoldenCase]]:
    """Yield the cases that the base has, too, each with the base's."""
    for case in dataset:
        then = before.get(case.id) if before is not None else None
        if then is not None:
            yield case, then


def moved_tiers(dataset: Dataset, before: Dataset | None) -> Iterator[MovedBar]:
    """Yield the cases with a lower tier than on the base.

    Args:
        before: Golden cases of the base; None if they are today's.
    """
    for case, then in _paired_cases(dataset, before):
        if _TIERS.index(case.tier) > _TIERS.index(then.tier):
            yield MovedBar(part=f"tier of {case.id}", base=then.tier, head=case.tier)


def moved_checks(dataset: Dataset, before: Dataset | None) -> Iterator[MovedBar]:
    """Yield the cases that lost a check of the base, or that pass with a smaller share of them.

    An added check moves nothing, unless a share suffices: then it outweighs the others.

    Args:
        before: Golden cases of the base; None if they are today's.
    """
    for case, then in _paired_cases(dataset, before):
        if not then.checks:
            continue
        part = f"checks of {case.id}"
        if case.checks and (case.pass_at or 1) < (then.pass_at or 1):
            yield MovedBar(
                part=part, base=f"pass_at {then.pass_at or 1:g}", head=f"pass_at {case.pass_at:g}"
            )
        elif (case.pass_at or 1) < 1 and case.checks != then.checks:
            yield _setting(part, then.checks, case.checks)
        else:
            removed = [check for check in then.checks if check not in case.checks]
            if removed:
                yield _setting(part, removed, None)


def moved_expectations(dataset: Dataset, before: Dataset | None) -> Iterator[MovedBar]:
    """Yield the cases with another expectation than on the base, whatever their inputs are.

    With a changed prompt, another expectation can turn a broken case into a fixed one.

    Args:
        before: Golden cases of the base; None if they are today's.
    """
    for case, then in _paired_cases(dataset, before):
        if then.expected != case.expected:
            yield _setting(f"expected of {case.id}", then.expected, case.expected)


def moved_scripts(dataset: Dataset, before: Dataset | None) -> Iterator[MovedBar]:
    """Yield the conversations with other expectations, limits or tool results than on the base.

    Args:
        before: Golden cases of the base; None if they are today's.
    """
    files: set[str] = set()
    for case, then in _paired_cases(dataset, before):
        if then.script is None:
            continue
        now, was = case.script or Script(), then.script
        if now.golden != was.golden:
            yield _setting(f"expected and checks in turns of {case.id}", was.golden, now.golden)
        for name in ("persona", "max_turns", "max_steps"):
            if getattr(now, name) != getattr(was, name):
                yield _setting(f"{name} of {case.id}", getattr(was, name), getattr(now, name))
        results = [
            None if script.tools is None else script.tools.to_json() for script in (was, now)
        ]
        if results[0] != results[1] and was.tools is not None and was.tools.name not in files:
            files.add(was.tools.name)
            yield MovedBar(part=f"results of tools in fixtures/tools/{was.tools.name}.yml")


def edited_partners(eval_: Eval, base_commit: BaseCommit) -> Mapping[str, MovedBar]:
    """Return the personas and functions of conversations that differ from the base's, by name."""
    edited: dict[str, MovedBar] = {}
    for name, persona in eval_.partners.personas.items():
        before = base_commit.prompt(persona.prompt)
        if before is not None and before.digest != persona.prompt.digest:
            edited[name] = MovedBar(part=f"the persona {name}")
    for name, function in eval_.partners.functions.items():
        then = target_of_base(function, base_commit)
        if then is not None and then.digest != function.digest:
            edited[name] = MovedBar(part=f"the code of {name}, which serves tool calls,")
    return edited


def moved_evaluators(prompt: Prompt, before: Prompt | None) -> Iterator[MovedBar]:
    """Yield the `evaluators` of a prompt file that only the base has.

    Args:
        before: The prompt on the base; None if it is new.
    """
    now = [(evaluator.name, evaluator.kind, evaluator.body) for evaluator in prompt.evaluators]
    for old in before.evaluators if before is not None else ():
        if (old.name, old.kind, old.body) not in now:
            successor = next((new for new in prompt.evaluators if new.name == old.name), None)
            yield _setting(
                f"evaluator {old.name} of {prompt.name}",
                {old.kind: old.body},
                {successor.kind: successor.body} if successor is not None else None,
            )


def moved_judging(
    base_commit: BaseCommit, evals: Sequence[tuple[Eval, bool]]
) -> Iterator[MovedBar]:
    """Yield judges that evals of the base lost, and judges of the project whose code changed.

    Args:
        evals: Evals with a changed prompt, and whether a baseline of this base has their judges.
    """
    if not evals:
        return
    before = base_commit.evals
    if any(before.get(name) or base_commit.is_eval_code(name) for name in base_commit.changed):
        yield from _lost_evals(base_commit, before, evals)
    new_paths = {old: new for new, old in base_commit.renamed.items()}
    for eval_, is_known in evals:
        name = base_commit.eval_name(eval_)
        of_prompt = {
            new_paths.get(path, path)
            for path, evals_of_file in before.items()
            if any(name in declared_eval.texts[:1] for declared_eval in evals_of_file)
        }
        if of_prompt or is_known:
            yield from _changed_judges(base_commit, eval_, of_prompt, is_known=is_known)
        yield from _advisory_judges(base_commit, eval_)


def _lost_evals(
    base_commit: BaseCommit,
    before: Mapping[str, Sequence[DeclaredEval]],
    evals: Sequence[tuple[Eval, bool]],
) -> Iterator[MovedBar]:
    """Yield evals of the base whose judges no eval of the change has, by the source of `@golden`.

    A baseline has the digests of an eval's judges. The source counts if fewer evals are known than
    the base has.
    """
    now = [
        declared_eval
        for path in base_commit.eval_files
        for declared_eval in declared_evals(path.read_bytes())
    ]
    evals_known: dict[tuple[str, str], list[bool]] = {}
    for eval_, is_known in evals:
        names = base_commit.eval_name(eval_), eval_.prompt.name
        evals_known.setdefault(names, []).append(is_known)
    datasets = {path.stem for path in dataset_files(base_commit.project.fixtures_dir)}
    for (base_name, name), knows in evals_known.items():
        of_base = [
            declared_eval
            for evals_of_file in before.values()
            for declared_eval in evals_of_file
            if base_name in declared_eval.texts[:1]
        ]
        if sum(knows) < len(of_base):
            of_prompt = [declared_eval for declared_eval in now if name in declared_eval.texts[:1]]
            yield from _lost_judges(of_base, of_prompt, datasets)


def _lost_judges(
    before: Sequence[DeclaredEval], now: Sequence[DeclaredEval], datasets: Collection[str]
) -> Iterator[MovedBar]:
    """Yield evals whose judges no eval of their dataset has, if the dataset is still there."""

    def dataset_of(declared_eval: DeclaredEval) -> str:
        prompt, *texts = declared_eval.texts
        return next((text for text in texts if text in datasets), prompt)

    for declared_eval in before:
        rest = [new for new in now if dataset_of(new) == dataset_of(declared_eval)]
        if any({*declared_eval.judges} <= {*new.judges} for new in rest):
            continue
        successor = next((new for new in rest if new.function == declared_eval.function), None)
        has = successor.judges if successor is not None else ()
        yield MovedBar(
            part=f"judges of {declared_eval.function}",
            base=_cut(", ".join(name for name in declared_eval.judges if name not in has)),
            head=_cut(", ".join(name for name in has if name not in declared_eval.judges))
            or "not set",
        )


def _changed_judges(
    base_commit: BaseCommit, eval_: Eval, of_prompt: set[str], *, is_known: bool
) -> Iterator[MovedBar]:
    """Yield the judges whose code or data changed, unless their digest covers it.

    The digest of a function that a baseline knows covers the loaded code it uses; a judge object
    sets its own. Compared are: the files of its class with their imports, other code in files of
    its evals, and files that this code names.

    Args:
        of_prompt: Files with evals of the prompt on the base, under their names now.
        is_known: Whether a baseline of this base has the judges.
    """
    for judge in eval_.judges:
        files = files_of_code(base_commit, judge)
        if not files:
            continue
        named_files = files_named_in(base_commit, files)
        digested = is_known and is_function_judge(judge)
        code = files_not_loaded(base_commit, files) if digested else files | of_prompt
        changed = sorted(
            name
            for name in code | named_files
            if base_commit.differs(name) and is_other_code(base_commit, name)
        )
        if changed:
            yield MovedBar(part=f"code of judge {judge.name} ({', '.join(changed)})")


def is_same_function(base_commit: BaseCommit, judge: object) -> bool:
    """Return whether a judge is a function that the base has with the same code, as reformatted."""
    files = files_of_code(base_commit, judge) if is_function_judge(judge) else frozenset[str]()
    return bool(files) and not any(
        base_commit.differs(name) and is_other_code(base_commit, name)
        for name in files | files_named_in(base_commit, files)
    )


def _advisory_judges(base_commit: BaseCommit, eval_: Eval) -> Iterator[MovedBar]:
    """Yield the LLM judges, also in checks of cases, that the change makes advisory."""
    calibrated = {
        judge.name: judge for outer in eval_.model_judges for judge in calibrated_judges(outer)
    }
    for name, judge in calibrated.items():
        status = judge_status(judge, base_commit.project)
        if not status.blocking and _blocked_on_base(base_commit, judge):
            yield MovedBar(part=f"judge {name}", base="blocking", head=f"advisory: {status.reason}")


def _blocked_on_base(base_commit: BaseCommit, judge: ModelJudge) -> bool:
    """Return whether the change voids the calibration of a judge on the base."""
    # Few projects have LLM judges.
    from regauge.judges.calibration import (
        calibration_path,
        labels_path,
        parse_calibrations,
        shortfall,
    )

    project, inside = base_commit.project, base_commit.repository.inside
    file = parse_calibrations(base_commit.read(calibration_path(judge.name, project)) or b"")
    record = file.find(judge.digest) if file is not None else None
    if file is None or record is None:
        rubrics = f"{inside(project.prompts_dir / 'judges')}/"
        return file is not None and any(name.startswith(rubrics) for name in base_commit.changed)
    labels = inside(labels_path(record.labels.judge or judge.name, project))
    return not shortfall(record, base_commit.settings.calibration) and bool(
        base_commit.differs(labels) or shortfall(record, project.settings.calibration)
    )


def moved_files(
    base_commit: BaseCommit,
    directory: Path,
    *,
    new_stems: Mapping[str, str],
    deleted_stems: Container[str] = (),
) -> Iterator[MovedBar]:
    """Yield files of labels, calibrations or baselines that differ from the base.

    Added labels with the calibration that they need, new files, and files renamed or deleted with
    their prompt move nothing.

    Args:
        new_stems: The names of renamed prompts now, by those on the base.
        deleted_stems: The names of deleted prompts.
    """
    inside = base_commit.repository.inside(directory)
    for name in sorted(base_commit.changed):
        path = base_commit.repository.top / name
        if not name.startswith(f"{inside}/") or path.suffix not in _DATA:
            continue
        if path.stem in deleted_stems and not path.exists():
            continue
        base = base_commit.repository.read(base_commit.commit, name)
        now = path if path.exists() else path.with_stem(new_stems.get(path.stem, path.stem))
        if base is not None and not _is_kept(now, base) and not _is_renewed(base_commit, name):
            yield MovedBar(part=base_commit.project.relative(path).as_posix())


def _is_renewed(base_commit: BaseCommit, name: str) -> bool:
    """Return whether a file is a calibration, whose labels only got more."""
    labels = name.removesuffix(CALIBRATION_SUFFIX) + ".jsonl"
    path = base_commit.repository.top / labels
    if labels not in base_commit.changed or not (base_commit.repository.top / name).is_file():
        return False
    base = base_commit.repository.read(base_commit.commit, labels)
    return name.endswith(CALIBRATION_SUFFIX) and base is not None and _is_kept(path, base)


def _is_kept(path: Path, base: bytes) -> bool:
    """Return whether a file is the base's, or as labels keeps every line of the base."""
    data = path.read_bytes() if path.is_file() else None
    if data is None or path.suffix != ".jsonl":
        return data == base
    return {*base.splitlines()} <= {*data.splitlines()}
