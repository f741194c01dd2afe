"""`lint` sees what loading a single file does not."""

from __future__ import annotations

import pytest
from inline_snapshot import snapshot

from regauge.errors import GitError
from regauge.project import Project
from regauge.prompts import PromptLock, lint_prompts, lint_warnings, parse_prompt

GOOD = "version: 1.0.0\nmessages:\n  - role: user\n    content: Say hello to {{x}}.\n"


def lock(project, *names: str) -> PromptLock:
    result = PromptLock(project.prompts / "prompts.lock")
    for name in names:
        path = project.prompts / f"{name}.prompt.yml"
        result = result.add(parse_prompt(path.read_text(), path=path))
    result.save()
    return result


def found(project, **options) -> str:
    diagnostics = lint_prompts(Project(root=project.root), **options)
    return "\n".join(map(str, diagnostics)).replace(f"{project.root}/", "")


def test_a_clean_project_has_no_errors(project):
    project.write("good", GOOD)
    lock(project, "good")
    assert found(project) == ""
    project.commit("all")
    assert found(project) == ""
    assert lint_warnings(Project(root=project.root)) == []


def test_errors_of_all_files_come_together(project):
    project.write("broken", "messages: [")
    project.write("bare", GOOD.partition("\n")[2])
    project.write("locked", GOOD)
    lock(project, "locked")
    project.write("locked", GOOD.replace("hello", "hi"))
    project.write("judges/locked", GOOD)
    project.write("unused", f"inputs: [x, y]\n{GOOD}")
    project.write("schema", f"responseFormat: json_schema\njsonSchema: {{type: objct}}\n{GOOD}")
    assert found(project) == snapshot("""\
prompts/bare.prompt.yml:1: has no version
  fix: regauge bump bare major, which starts it at 1.0.0
prompts/broken.prompt.yml:1: not YAML: a `[` or `{` above is not closed, or has no value between its commas
  fix: close it, or remove it
prompts/locked.prompt.yml: a second prompt named 'locked'; the other is prompts/judges/locked.prompt.yml
  fix: rename one: names of prompts are unique
prompts/locked.prompt.yml:1: the content changed, but the version is still 1.0.0, which is released
  fix: regauge bump locked minor
prompts/schema.prompt.yml:2: the output schema is not a JSON schema: 'objct' is not valid under any of the given schemas (at $.type)
prompts/schema.prompt.yml:3: version 1.0.0 is not in prompts.lock
  fix: regauge bump schema
prompts/unused.prompt.yml:1: input 'y' is declared, but no message uses it
  fix: use {{y}} in a message, or remove the input
prompts/unused.prompt.yml:2: version 1.0.0 is not in prompts.lock
  fix: regauge bump unused\
""")


def test_lines_removed_from_the_lock_are_found_through_git(project):
    project.write("good", GOOD)
    whole = lock(project, "good")
    project.commit("all")
    PromptLock(whole.path).save()
    assert "good@1.0.0 was removed; HEAD has it" in found(project)
    project.commit("removed")
    assert "good@1.0.0 was removed" not in found(project)
    assert "good@1.0.0 was removed; HEAD~1 has it" in found(project, against="HEAD~1")
    with pytest.raises(GitError, match="git knows no commit 'nope'"):
        found(project, against="nope")


def test_parameters_of_tools_must_be_schemas(project):
    tools = "tools:\n  - name: look\n  - name: find\n    parameters: {type: objct}\n"
    project.write("good", GOOD.replace("messages:", f"{tools}messages:"))
    lock(project, "good")
    assert found(project).startswith(
        "prompts/good.prompt.yml:4: the parameters of tool 'find' are not a JSON schema: 'objct' is"
    )


def test_a_lock_outside_of_the_repository_is_compared_with_no_commit(project, tmp_path):
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    project.write("good", GOOD)
    lock(project, "good")
    project.commit("all")
    project.prompts.rename(outside / "prompts")
    project.prompts.symlink_to(outside / "prompts")
    PromptLock(project.prompts / "prompts.lock").save()
    assert "was removed" not in found(project)


def test_warnings_of_equal_lines_name_the_line_of_each(project):
    text = "version: 1.0.0\nmessages:\n  - role: system\n    content: |\n"
    text += (
        "      Never refrain from guessing.\n      Be kind.\n      Never refrain from guessing.\n"
    )
    text += "  - role: user\n    content: >-\n      Never refrain\n      from guessing.\n"
    project.write("odd", text)
    shown = [str(warning) for warning in lint_warnings(Project(root=project.root))]
    lines = [text.partition("odd.prompt.yml:")[2].partition(":")[0] for text in shown]
    assert lines == ["2", "5", "7"]


def test_a_repeated_sentence_that_is_written_with_escapes_is_on_the_line_of_the_messages(project):
    words = "Answer with one w\\u006frd and nothing else."
    text = f'messages:\n  - role: user\n    content: "{words} {words}"\n'
    project.write("escaped", f"version: 1.0.0\n{text}")
    (warning,) = lint_warnings(Project(root=project.root))
    assert (warning.line, "repeats 'Answer with one word" in warning.message) == (2, True)


def test_a_broken_lock_is_told_with_the_files(project):
    project.write("bare", GOOD.partition("\n")[2])
    (project.prompts / "prompts.lock").write_text("<<<<<<< HEAD\n")
    assert "prompts/prompts.lock:1: this line is no" in found(project)
    assert "bare.prompt.yml:1: has no version" in found(project)
    project.commit("broken lock")
    (project.prompts / "prompts.lock").unlink()
    assert "prompts.lock" not in found(project)


def test_sentences_that_are_said_twice_are_warned_of(project):
    project.write(
        "twice",
        "version: 1.0.0\nmessages:\n  - role: system\n    content: |\n"
        "      - Answer with one word and nothing else.\n"
        "      Be kind. Be kind.\n"
        "  - role: user\n    content: |\n"
        "      Hello. Answer with one word\n"
        "      and nothing else. answer  with one word and nothing else.\n"
        "      ```\n      Answer with one word and nothing else.\n      ```\n",
    )
    (project.prompts / "forgotten.yml").write_text("a: b")
    warnings = lint_warnings(Project(root=project.root))
    assert "\n".join(map(str, warnings)).replace(f"{project.root}/", "") == snapshot("""\
prompts/forgotten.yml: is not loaded as a prompt
  fix: name it forgotten.prompt.yml, or keep it elsewhere
prompts/twice.prompt.yml:9: repeats 'answer  with one word and nothing else.'
  fix: write it once, where it matters most\
""")
