"""regauge: a CI-integrated regression harness for prompts.

The names below load what they need on first use, so `import regauge` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.on_demand import lazy_names

if TYPE_CHECKING:
    from regauge.datasets import (
        Dataset as Dataset,
        GoldenCase as GoldenCase,
        load_dataset as load_dataset,
    )
    from regauge.errors import (
        DatasetError as DatasetError,
        JudgeError as JudgeError,
        PromptError as PromptError,
        ProviderError as ProviderError,
        RegaugeError as RegaugeError,
        UnmeasuredError as UnmeasuredError,
    )
    from regauge.judges import Judge as Judge, Verdict as Verdict
    from regauge.prompts import (
        Message as Message,
        Prompt as Prompt,
        PromptVersion as PromptVersion,
        load_prompt as load_prompt,
    )
    from regauge.providers import (
        Completion as Completion,
        CompletionRequest as CompletionRequest,
        Provider as Provider,
        Usage as Usage,
    )
    from regauge.runner import EvalResult as EvalResult, Trial as Trial, golden as golden
else:
    __getattr__, __dir__ = lazy_names(__name__)
