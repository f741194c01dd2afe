"""Calls and their results as JSON text, between the driver of a cluster and its workers."""

from __future__ import annotations

import json
from dataclasses import asdict
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final

from pydantic import TypeAdapter

from regauge.datasets import GoldenCase
from regauge.digests import digest_of
from regauge.errors import ProviderError
from regauge.git import git, work_tree
from regauge.prompts import Message
from regauge.providers import AttemptError, Completion, CompletionRequest, Quota

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from regauge.providers import Endpoint


encode: Final = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False, default=dict).encode
_MESSAGES: Final = TypeAdapter(tuple[Message, ...])
_FIELDS: Final = ("model", "provider", "parameters", "response_format", "tools", "trial")
_WORDS: Final = ("origin", "named_by", "optional")


def find_identity(root: Path) -> dict[str, str]:
    """The version of regauge, and the commit of the project; empty outside a repository.

    Raises:
        GitError: git cannot be run.
    """
    commit = b""
    if work_tree(root) is not None:
        commit = git(root, "rev-parse", "HEAD").strip()
    return {"version": version("regauge"), "commit": commit.decode()}


def digest_endpoint(endpoint: Endpoint) -> str:
    """The digest of the settings of an endpoint and its URL; no key is part of it."""
    return digest_of({**endpoint.settings.model_dump(mode="json"), "url": endpoint.url})


def request_to_json(request: CompletionRequest, *, root: Path) -> dict[str, Any]:
    """Convert a request to JSON for a worker, whose project is in another directory.

    Raises:
        ProviderError: Attachments are outside of the project.
    """
    document = {name: getattr(request, name) for name in (*_FIELDS, *_WORDS)}
    document["messages"] = [
        {**message.to_json(), "attachments": [asdict(part) for part in message.attachments]}
        for message in request.messages
    ]
    if request.files is not None and any(message.attachments for message in request.messages):
        if not request.files.is_relative_to(root):
            raise ProviderError(
                f"{request.origin or 'the prompt'}: its attachments are in {request.files}, which"
                " workers of a cluster do not have\n  fix: leave out --cluster",
                kind="bad-request",
            )
        document["files"] = request.files.relative_to(root).as_posix()
    return document


def request_from(document: Mapping[str, Any], *, root: Path) -> CompletionRequest:
    """Read the request of `request_to_json`, with paths in the project of the worker."""
    fields: dict[str, Any] = {name: document[name] for name in (*_FIELDS, *_WORDS)}
    fields["tools"] = tuple(document["tools"])
    fields["optional"] = tuple(document["optional"])
    fields["messages"] = _MESSAGES.validate_python(document["messages"])
    fields["files"] = root / document["files"] if "files" in document else None
    return CompletionRequest(**fields)


def case_from(document: Mapping[str, Any]) -> GoldenCase:
    """Read the case of `document_of`."""
    fields: dict[str, Any] = {**document, "tags": tuple(document["tags"])}
    return GoldenCase(**fields)


def result_to_json(completion: Completion, quotas: tuple[Quota, ...]) -> dict[str, Any]:
    """Convert a completion and the rate limits of its server to JSON."""
    return {"completion": completion.to_json(), "quotas": [asdict(quota) for quota in quotas]}


def result_from(document: Mapping[str, Any]) -> tuple[Completion, tuple[Quota, ...]]:
    """Read the completion and the rate limits of `result_to_json`.

    Raises:
        ProviderError: The worker returned an error.
    """
    if "error" in document:
        raise error_from(document["error"])
    quotas = tuple(Quota(**quota) for quota in document["quotas"])
    return Completion.from_json(document["completion"]), quotas


def error_to_json(error: ProviderError) -> dict[str, Any]:
    """Convert the error of an attempt, or of an invalid request, to JSON."""
    document: dict[str, Any] = {"message": str(error), "kind": error.kind, "status": error.status}
    if isinstance(error, AttemptError):
        names = ("transient", "retry_after_s", "param", "never_sent")
        document |= {name: getattr(error, name) for name in names}
        document["quotas"] = [asdict(quota) for quota in error.quotas]
    return document


def error_from(document: Mapping[str, Any]) -> ProviderError:
    """Read the error of `error_to_json`."""
    if "quotas" not in document:
        return ProviderError(**document)
    fields: dict[str, Any] = {**document}
    fields["quotas"] = tuple(Quota(**quota) for quota in fields["quotas"])
    return AttemptError(**fields)
