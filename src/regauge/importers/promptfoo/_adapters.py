"""Programs that call providers of promptfoo as it does; an import writes and never runs them."""

from __future__ import annotations

import json
import re
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["command_adapter", "javascript_adapter", "python_adapter"]

_PYTHON = '''\
"""Calls {function} of {path}, a Python provider of promptfoo."""

import asyncio
import inspect
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / {folder}))

import {module} as provider

OPTIONS = json.loads({config})


def answer(case):
    variables = dict(case.inputs)
    prompt = variables.pop({prompt_input})
    context = {{"vars": {variables}}}
    response = provider.{function}(prompt, OPTIONS, context)
    if inspect.isawaitable(response):
        response = asyncio.run(response)
    if response.get("error"):
        raise RuntimeError(str(response["error"]))
    output = response.get("output")
    return {{"text": output if isinstance(output, str) else json.dumps(output)}}
'''

_JAVASCRIPT = """\
// Calls {path}, a JavaScript provider of promptfoo, with the inputs of a case.
import {{ readFileSync }} from "node:fs";
import {{ pathToFileURL }} from "node:url";

const options = {config};
const inputs = JSON.parse(readFileSync(0, "utf8"));
const {{ [{prompt_input}]: prompt, ...others }} = inputs;
const vars = {variables};
console.log = console.error;
const loaded = await import(pathToFileURL({path_json}));
let provider = loaded.default?.default ?? loaded.default ?? loaded;
if (typeof provider === "function" && provider.prototype?.callApi) {{
  provider = new provider({{ id: {identifier}, ...options }});
}}
const call = typeof provider === "function" ? provider : provider.callApi.bind(provider);
const response = await call(prompt, {{ vars, prompt: {{ raw: prompt, label: prompt }} }}, options);
const result = typeof response === "string" ? {{ output: response }} : response;
if (result.error) {{
  console.error(result.error);
  process.exit(1);
}}
const {{ output }} = result;
const text = typeof output === "string" ? output : JSON.stringify(output);
process.stdout.write(JSON.stringify({{ text }}), () => process.exit(0));
"""

_COMMAND = '''\
"""Runs a command with the prompt as its last argument but two, as promptfoo does."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMMAND = {command}
OPTIONS = json.loads({config})

variables = json.load(sys.stdin)
prompt = variables.pop({prompt_input})
context = {{"vars": {variables}}}
done = subprocess.run(
    [*shlex.split(COMMAND), prompt, json.dumps(OPTIONS), json.dumps(context)],
    cwd=ROOT / {folder},
    stdout=subprocess.PIPE,
    text=True,
    check=False,
)
if done.returncode:
    sys.exit(done.returncode)
sys.stdout.write(json.dumps({{"text": done.stdout.strip()}}))
'''


def _vars(prompt_input: str, *, own_prompt: bool, javascript: bool = False) -> str:
    """The variables of a test, without the rendered prompt where it is none of them."""
    if javascript:
        return "inputs" if own_prompt else "others"
    return (
        "dict(variables, **{" + json.dumps(prompt_input) + ": prompt})"
        if own_prompt
        else "variables"
    )


def _options(identifier: str, config: Mapping[str, Any]) -> str:
    return json.dumps({"id": identifier, "config": dict(config)}, ensure_ascii=False, default=str)


def python_adapter(
    path: str, function: str, *, config: Mapping[str, Any], prompt_input: str, own_prompt: bool
) -> str:
    """A module whose `answer` calls a Python provider; empty where its name is no module's."""
    place = PurePosixPath(path)
    if not re.fullmatch(r"[A-Za-z_]\w*", place.stem):
        return ""
    return _PYTHON.format(
        path=path,
        function=function or "call_api",
        folder=json.dumps(place.parent.as_posix()),
        module=place.stem,
        config=repr(_options(path, config)),
        prompt_input=json.dumps(prompt_input),
        variables=_vars(prompt_input, own_prompt=own_prompt),
    )


def javascript_adapter(
    path: str, *, config: Mapping[str, Any], prompt_input: str, own_prompt: bool
) -> str:
    """A module of node that calls a JavaScript provider; it runs in the project's root."""
    return _JAVASCRIPT.format(
        path=path,
        path_json=json.dumps(path),
        config=_options(path, config),
        identifier=json.dumps(path),
        prompt_input=json.dumps(prompt_input),
        variables=_vars(prompt_input, own_prompt=own_prompt, javascript=True),
    )


def command_adapter(
    command: str, folder: str, *, config: Mapping[str, Any], prompt_input: str, own_prompt: bool
) -> str:
    """A program that runs a command with the prompt."""
    return _COMMAND.format(
        command=json.dumps(command),
        folder=json.dumps(folder),
        config=repr(_options(f"exec:{command}", config)),
        prompt_input=json.dumps(prompt_input),
        variables=_vars(prompt_input, own_prompt=own_prompt),
    )
