"""Prompts: files, rendering, digests, versions.

`_prompt.py` is the value and how it is rendered; `_parse.py` makes it of a file. Versions are
released in `_edit.py`, which changes files in place, and `_lock.py`, and found again in
`_history.py`; `_lint.py` checks a whole project.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.on_demand import names_of
from regauge.prompts._yaml import read_text as read_prompt_text

if TYPE_CHECKING:
    from regauge.prompts._contents import content_errors, without_errors
    from regauge.prompts._edit import Bump, bump, set_contents, set_model
    from regauge.prompts._files import (
        CANDIDATES_ENV,
        LOADED_SUFFIX,
        find_prompt,
        load_prompt,
        prompt_files,
    )
    from regauge.prompts._history import (
        Commit,
        Repository,
        VersionRecord,
        load_version,
        prompt_at,
        text_at,
        version_records,
    )
    from regauge.prompts._lint import lint_prompts, lint_warnings
    from regauge.prompts._lock import LOCK_NAME, LockEntry, PromptLock, lock_of
    from regauge.prompts._parse import parse_prompt, prompt_name
    from regauge.prompts._prompt import Prompt
    from regauge.prompts._replaceable import (
        MessageSection,
        Replaceable,
        SectionError,
        begins_section,
        replaceable_faults,
        section_below,
    )
    from regauge.prompts._rubric import RubricKind, RubricSpec
    from regauge.prompts._tools import tool_calls_of
    from regauge.prompts._types import (
        ATTACHED,
        Acknowledgement,
        Attachment,
        ChangelogEntry,
        Evaluator,
        InputSpec,
        Message,
        Part,
        PromptVersion,
        Role,
        Semver,
        ToolCall,
        attachment_of,
        content_of,
        input_text,
    )
else:
    __getattr__ = names_of(
        __name__,
        {
            "_contents": "content_errors without_errors",
            "_edit": "Bump bump set_contents set_model",
            "_files": "CANDIDATES_ENV LOADED_SUFFIX find_prompt load_prompt prompt_files",
            "_history": (
                "Commit Repository VersionRecord load_version prompt_at text_at version_records"
            ),
            "_lint": "lint_prompts lint_warnings",
            "_lock": "LOCK_NAME LockEntry PromptLock lock_of",
            "_parse": "parse_prompt prompt_name",
            "_prompt": "Prompt",
            "_replaceable": (
                "MessageSection Replaceable SectionError begins_section replaceable_faults "
                "section_below"
            ),
            "_rubric": "RubricKind RubricSpec",
            "_tools": "tool_calls_of",
            "_types": (
                "ATTACHED Acknowledgement Attachment ChangelogEntry Evaluator InputSpec Message"
                " Part PromptVersion Role Semver ToolCall attachment_of content_of input_text"
            ),
        },
    )

__all__ = [
    "ATTACHED",
    "CANDIDATES_ENV",
    "LOADED_SUFFIX",
    "LOCK_NAME",
    "Acknowledgement",
    "Attachment",
    "Bump",
    "ChangelogEntry",
    "Commit",
    "Evaluator",
    "InputSpec",
    "LockEntry",
    "Message",
    "MessageSection",
    "Part",
    "Prompt",
    "PromptLock",
    "PromptVersion",
    "Replaceable",
    "Repository",
    "Role",
    "RubricKind",
    "RubricSpec",
    "SectionError",
    "Semver",
    "ToolCall",
    "VersionRecord",
    "attachment_of",
    "begins_section",
    "bump",
    "content_errors",
    "content_of",
    "find_prompt",
    "input_text",
    "lint_prompts",
    "lint_warnings",
    "load_prompt",
    "load_version",
    "lock_of",
    "parse_prompt",
    "prompt_at",
    "prompt_files",
    "prompt_name",
    "read_prompt_text",
    "replaceable_faults",
    "section_below",
    "set_contents",
    "set_model",
    "text_at",
    "tool_calls_of",
    "version_records",
    "without_errors",
]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
