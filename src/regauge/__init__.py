"""regauge: a CI-integrated regression harness for prompts.

The names below load what they need on first use, so `import regauge` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regauge.datasets import Dataset, GoldenCase, load_dataset
    from regauge.errors import (
        DatasetError,
        JudgeError,
        PromptError,
        ProviderError,
        RegaugeError,
        UnmeasuredError,
    )
    from regauge.judges import Judge, Verdict
    from regauge.prompts import Message, Prompt, PromptVersion, load_prompt
    from regauge.providers import Completion, CompletionRequest, Provider, Usage
    from regauge.runner import EvalResult, Trial, golden

__all__ = [
    "Completion",
    "CompletionRequest",
    "Dataset",
    "DatasetError",
    "EvalResult",
    "GoldenCase",
    "Judge",
    "JudgeError",
    "Message",
    "Prompt",
    "PromptError",
    "PromptVersion",
    "Provider",
    "ProviderError",
    "RegaugeError",
    "Trial",
    "UnmeasuredError",
    "Usage",
    "Verdict",
    "golden",
    "load_dataset",
    "load_prompt",
]

_HOME = {
    "Completion": "providers",
    "CompletionRequest": "providers",
    "Dataset": "datasets",
    "DatasetError": "errors",
    "EvalResult": "runner",
    "GoldenCase": "datasets",
    "Judge": "judges",
    "JudgeError": "errors",
    "Message": "prompts",
    "Prompt": "prompts",
    "PromptError": "errors",
    "PromptVersion": "prompts",
    "Provider": "providers",
    "ProviderError": "errors",
    "RegaugeError": "errors",
    "Trial": "runner",
    "UnmeasuredError": "errors",
    "Usage": "providers",
    "Verdict": "judges",
    "golden": "runner",
    "load_dataset": "datasets",
    "load_prompt": "prompts",
}


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{home}"), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
