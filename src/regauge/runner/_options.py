"""Options of a run: read once at the edge, passed down as one value."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from regauge.errors import UsageError
from regauge.model_id import parse_model_id
from regauge.project import TRIALS_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from regauge.datasets import Shard
    from regauge.project import RecordMode, Settings

__all__ = ["RunOptions", "resolve_options"]

_FAIL_FAST_AHEAD = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """All options of a run.

    Attributes:
        record: Whether the model may be asked: `none` never, `missing` where no answer is
            recorded, `all` always.
        trials: Draws per case where the eval does not say.
        concurrency: Requests in flight at once; `auto` adapts to rate limits.
        models: Each `provider:model` to run every case with, instead of the prompts' own; empty
            runs the prompts' own.
        judge_model: `provider:model` of judges that name none; None is what the settings say.
        rejudge: Whether what judges measured is worked out again from their recorded calls.
        budget_usd: What the run may spend, in US dollars.
        budget_tokens: Tokens it may use, in and out, of prompts and judges.
        budget_calls: Calls it may make, of prompts and judges.
        ahead: How many answers may be drawn ahead of the case that is judged; None is twice
            the concurrency.
        shard: The part of the cases to run; None runs all.
        cluster: The scheduler whose workers call models, or `local`; None calls them from here.
    """

    record: RecordMode
    trials: int = 1
    concurrency: int | Literal["auto"] = "auto"
    models: tuple[str, ...] = ()
    budget_usd: float | None = None
    ahead: int | None = None
    judge_model: str | None = None
    rejudge: bool = False
    budget_tokens: int | None = None
    budget_calls: int | None = None
    shard: Shard | None = None
    cluster: str | None = None


def resolve_options(
    settings: Settings,
    environ: Mapping[str, str],
    *,
    record: RecordMode | None,
    trials: int | None,
    concurrency: str | None,
    budget_usd: float | None,
    fail_fast: bool,
    models: Sequence[str] = (),
    judge_model: str | None = None,
    rejudge: bool = False,
    budget_tokens: int | None = None,
    budget_calls: int | None = None,
    shard: Shard | None = None,
    cluster: str | None = None,
) -> RunOptions:
    """Let options of the command line override settings, and settings the defaults.

    Args:
        settings: `[tool.regauge]`.
        environ: The environment; `CI` decides the default record mode.
        record: `--record`.
        trials: `--trials`.
        concurrency: `--concurrency`, a number or `auto`.
        models: `--model`, in the order of the reports.
        budget_usd: `--budget-usd`.
        budget_tokens: `--budget-tokens`.
        budget_calls: `--budget-calls`.
        judge_model: `--judge-model`.
        rejudge: `--rejudge`.
        shard: `--shard` and `--shard-by`.
        cluster: `--cluster`.
        fail_fast: Whether the run stops at its first failures (`-x`), so that little may be
            spent ahead of them.

    Raises:
        UsageError: A number is out of range, a model is named twice, or `judge_model` names no
            provider.
    """
    if judge_model is not None:
        parse_model_id(judge_model, at="--judge-model")
    for number, model in enumerate(models):
        if model in models[:number]:
            raise UsageError(f"--model names {model} twice\n  fix: name each model once")
    if trials is not None and not 1 <= trials <= TRIALS_MAX:
        raise UsageError(f"--trials must be from 1 to {TRIALS_MAX}, not {trials}")
    if budget_usd is not None and not 0 <= budget_usd < math.inf:
        raise UsageError(f"--budget-usd must be a number of dollars from 0 up, not {budget_usd}")
    for name, limit in (("tokens", budget_tokens), ("calls", budget_calls)):
        if limit is not None and limit < 0:
            raise UsageError(f"--budget-{name} must be a number from 0 up, not {limit}")
    if cluster is not None:
        from regauge.cluster import parse_address

        cluster = parse_address(cluster)
    in_ci = environ.get("CI", "").strip().lower() not in {"", "0", "false", "no"}
    return RunOptions(
        record=record or settings.record or ("none" if in_ci else "missing"),
        trials=trials or settings.trials,
        concurrency=_concurrency(concurrency) if concurrency else settings.concurrency,
        models=tuple(models),
        budget_usd=settings.budget_usd if budget_usd is None else budget_usd,
        ahead=_FAIL_FAST_AHEAD if fail_fast else None,
        judge_model=judge_model or settings.judge_model,
        rejudge=rejudge,
        budget_tokens=budget_tokens,
        budget_calls=budget_calls,
        shard=shard,
        cluster=cluster,
    )


def _concurrency(text: str) -> int | Literal["auto"]:
    if text == "auto":
        return "auto"
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 1024:  # noqa: PLR2004 - the range stands in the message
        raise UsageError(f"--concurrency takes a number from 1 to 1024, or auto, not {text!r}")
    return int(text)
