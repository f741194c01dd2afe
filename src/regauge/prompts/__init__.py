"""Prompts: files, rendering, digests, versions.

`_prompt.py` is the value and its rendering; `_parse.py` parses files. `_versions.py` finds prompts
by name and version; `_edit.py` changes files in place and releases versions. `_lint.py` checks a
project, `_content.py` the wording of messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from regauge.on_demand import lazy_names

if TYPE_CHECKING:
    from regauge.prompts._content import (
        content_errors as content_errors,
        fix_messages as fix_messages,
    )
    from regauge.prompts._edit import (
        bump as bump,
        set_contents as set_contents,
        set_model as set_model,
    )
    from regauge.prompts._keys import (
        OWN_KEYS as OWN_KEYS,
        PARAMETER_ALIASES as PARAMETER_ALIASES,
        PromptKeys as PromptKeys,
        RubricKind as RubricKind,
    )
    from regauge.prompts._lint import lint_prompts as lint_prompts, lint_warnings as lint_warnings
    from regauge.prompts._parse import (
        SUFFIXES as SUFFIXES,
        parse_prompt as parse_prompt,
        prompt_name as prompt_name,
    )
    from regauge.prompts._prompt import Prompt as Prompt
    from regauge.prompts._replaceable import (
        MessageSection as MessageSection,
        Replaceable as Replaceable,
        SectionError as SectionError,
        replaceable_errors as replaceable_errors,
        section_below as section_below,
    )
    from regauge.prompts._repository import (
        Commit as Commit,
        Repository as Repository,
        check_links as check_links,
    )
    from regauge.prompts._tools import (
        RubricSpec as RubricSpec,
        tool_calls_of as tool_calls_of,
    )
    from regauge.prompts._types import (
        Acknowledgement as Acknowledgement,
        Attachment as Attachment,
        ChangelogEntry as ChangelogEntry,
        Evaluator as Evaluator,
        InputSpec as InputSpec,
        Message as Message,
        Part as Part,
        PromptVersion as PromptVersion,
        Role as Role,
        Semver as Semver,
        ToolCall as ToolCall,
        compile_template as compile_template,
        content_of as content_of,
        input_text as input_text,
    )
    from regauge.prompts._versions import (
        CANDIDATES_ENV as CANDIDATES_ENV,
        LOADED_SUFFIX as LOADED_SUFFIX,
        LOCK_NAME as LOCK_NAME,
        PromptLock as PromptLock,
        VersionRecord as VersionRecord,
        find_prompt as find_prompt,
        load_prompt as load_prompt,
        load_version as load_version,
        lock_of as lock_of,
        prompt_at as prompt_at,
        prompt_files as prompt_files,
        read_prompt_text as read_prompt_text,
        text_at as text_at,
        version_records as version_records,
    )
else:
    __getattr__, __dir__ = lazy_names(__name__)
