"""`regauge show`, `log`, `diff`, `bump` and `lint` as processes, in a real git repository."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
from typing import TYPE_CHECKING

import pytest
from inline_snapshot import snapshot

from tests import processes

if TYPE_CHECKING:
    from pathlib import Path

TEXT = """\
# Greets whoever comes in.
name: Greeter
description: Greets a person.
model: sim:clerk-1
modelParameters:
  temperature: 0
inputs:
  - name: person
    description: Who it is.
  - name: tone
    required: false
    default: kind
messages:
  - role: system
    content: Be {{tone}}.
  - role: user
    content: |
      Greet {{person}}.
"""


class Shop:
    """A project, and the commands run in it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.prompt = root / "prompts/greet.prompt.yml"
        self.lock = root / "prompts/prompts.lock"
        self.prompt.parent.mkdir(parents=True)
        self.prompt.write_text(TEXT, encoding="utf-8")
        self.git("init", "--quiet", "--initial-branch=main")
        self.commit("draft")

    def run(self, *arguments: str, code: int = 0, **environment: str) -> str:
        done = self.process(*arguments, **environment)
        assert "Traceback" not in done.stderr
        assert done.returncode == code, done.stderr
        return (done.stdout + done.stderr).replace(f"{self.root}/", "")

    def process(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return processes.run("regauge", *arguments, cwd=self.root, env=os.environ | environment)

    def git(self, *arguments: str) -> None:
        identity = ["-c", "user.name=Ann", "-c", "user.email=ann@example.org"]
        command = ["git", "-C", str(self.root), *identity, *arguments]
        subprocess.run(command, check=True, capture_output=True)

    def commit(self, subject: str) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--date=2025-06-01T12:00:00Z", "--message", subject)

    def change(self, old: str, new: str) -> None:
        text = self.prompt.read_text(encoding="utf-8")
        assert old in text
        self.prompt.write_text(text.replace(old, new), encoding="utf-8")


@pytest.fixture
def shop(tmp_path):
    return Shop(tmp_path.resolve() / "shop")


@pytest.fixture
def released(shop):
    """1.0.0 and 1.1.0, both committed."""
    shop.run("bump", "greet", "major", "-m", "First release.")
    shop.commit("release 1.0.0")
    shop.change("Greet {{person}}.", "Say hello to {{person}}.")
    shop.run("bump", "greet", "minor", "-m", "Say hello")
    shop.commit("release 1.1.0")
    return shop


def without_digests(text: str) -> str:
    text = re.sub(r"\b(?=[0-9a-f]*[0-9])[0-9a-f]{9,64}\b", "<digest>", text)
    return re.sub(r"20\d\d-\d\d-\d\d", "<day>", text)


def test_bump_changes_version_and_changelog_and_adds_to_the_lock(shop):
    said = shop.run("bump", "greet", "major", "-m", "First: a release.")
    assert without_digests(said) == snapshot("""\
greet 1.0.0  <digest>
  commit prompts/greet.prompt.yml and prompts/prompts.lock
""")
    edited = shop.prompt.read_text(encoding="utf-8")
    assert without_digests(edited) == snapshot("""\
# Greets whoever comes in.
version: 1.0.0
changelog:
  - version: 1.0.0
    date: <day>
    text: "First: a release."
name: Greeter
description: Greets a person.
model: sim:clerk-1
modelParameters:
  temperature: 0
inputs:
  - name: person
    description: Who it is.
  - name: tone
    required: false
    default: kind
messages:
  - role: system
    content: Be {{tone}}.
  - role: user
    content: |
      Greet {{person}}.
""")
    assert edited.endswith(TEXT.partition("\n")[2])
    assert without_digests(shop.lock.read_text()) == snapshot("""\
# Released prompt versions: name@version, digest of its behaviour, digest of its contract.
# Lines are only added, by `regauge bump`; `regauge lint` checks them against the files and git.
greet@1.0.0 <digest> <digest>
""")
    assert shop.run("lint") == "1 prompt: 0 errors, 0 warnings\n"
    assert not list(shop.prompt.parent.glob(".*"))


def test_bump_refuses_what_is_no_release(released):
    said = released.run("bump", "greet", "patch", code=2)
    assert said == snapshot("""\
error: greet does what 1.1.0 did: messages, model, parameters, response format and inputs are the same
  fix: --allow-unchanged releases it all the same
""")
    released.change("{{person}}", "{{guest}}")
    released.change("name: person", "name: guest")
    assert released.run("bump", "greet", "minor", code=2) == snapshot("""\
error: the contract of greet (jsonSchema, inputs, tools) changed since 1.1.0, so 1.2.0 would break its callers
  fix: regauge bump greet major
""")
    before = released.prompt.read_bytes(), released.lock.read_bytes()
    released.run("bump", "greet", "patch", code=2)
    assert before == (released.prompt.read_bytes(), released.lock.read_bytes())
    assert "1.1.0 -> 2.0.0" in released.run("bump", "greet", "major")


def test_bump_keeps_permissions_and_links(shop):
    elsewhere = shop.prompt.parents[1] / "elsewhere.yml"
    elsewhere.write_bytes(shop.prompt.read_bytes())
    elsewhere.chmod(0o640)
    shop.prompt.unlink()
    shop.prompt.symlink_to(elsewhere)
    shop.run("bump", "greet", "major")
    assert shop.prompt.is_symlink()
    assert stat.S_IMODE(elsewhere.stat().st_mode) == 0o640
    assert "version: 1.0.0" in elsewhere.read_text()


def test_show_tells_all_about_a_prompt(released):
    assert without_digests(released.run("show", "greet")) == snapshot("""\
greet 1.1.0
Greeter
Greets a person.
  file       prompts/greet.prompt.yml
  model      sim:clerk-1
  parameters temperature 0
  output     text
  inputs     person, tone (optional)
  released   yes
  digest     <digest>
  contract   <digest>

system (line 22)
Be {{tone}}.

user (line 24)
Say hello to {{person}}.
""")


def test_show_finds_old_versions_and_refs(released):
    assert "Greet {{person}}." in released.run("show", "greet@1.0.0")
    assert "Say hello" in released.run("show", "greet@1.1.0")
    assert "greet (no version)" in released.run("show", "greet@HEAD~2")
    document = json.loads(released.run("show", "greet@1.0.0", "--json"))
    assert document["version"] == "1.0.0"
    assert document["inputs"][1] == {
        "name": "tone",
        "description": "",
        "required": False,
        "default": "kind",
    }
    assert "no commit has version 7.0.0" in released.run("show", "greet@7.0.0", code=2)
    assert "git knows no commit 'nope'" in released.run("show", "greet@nope", code=2)
    for name in ("greet@", "greet@ ", "@"):
        assert f"error: '{name}' has no version\n  fix: " in released.run("show", name, code=2)


def test_show_renders(released):
    (released.root / "who.txt").write_text("Zoë {{tone}}", encoding="utf-8")
    said = released.run("show", "greet", "-i", "person=@who.txt", "-i", 'tone:=["a", 1]')
    assert 'Be ["a", 1].' in said
    assert "Say hello to Zoë {{tone}}." in said
    document = json.loads(released.run("show", "greet", "--json", "-i", "person=Ann"))
    assert document["rendered"][0] == {"role": "system", "content": "Be kind."}
    assert released.run("show", "greet", "-i", "persn=Ann", code=2) == snapshot("""\
error: prompts/greet.prompt.yml:26: input 'person' is missing
  fix: the case gives 'persn', which no message uses: is it 'person'?
""")
    assert "has no value" in released.run("show", "greet", "-i", "person", code=2)
    assert "not JSON" in released.run("show", "greet", "-i", "person:=[", code=2)


def test_control_characters_never_reach_the_terminal(shop):
    shop.change("Be {{tone}}.", '"Be \\e]0;owned\\a {{tone}}."')
    done = shop.process("show", "greet")
    assert "\x1b" not in done.stdout
    assert "\\x1b]0;owned\\x07" in done.stdout


def test_log_lists_versions(released):
    assert without_digests(released.run("log", "greet")) == snapshot("""\
1.1.0     <day>  <digest>  <digest>  Say hello
1.0.0     <day>  <digest>  <digest>  First release.
""")
    released.change("hello", "hi")
    assert released.run("log", "greet").endswith("prompts/greet.prompt.yml: changed since 1.1.0\n")
    document = json.loads(released.run("log", "greet", "--json"))
    assert document["file"] == "changed since 1.1.0"
    assert [row["version"] for row in document["versions"]] == ["1.1.0", "1.0.0"]
    assert document["versions"][1]["date"] == "2025-06-01"
    assert document["versions"][1]["changelog"] == "First release."
    released.change("name: tone", "name: style")
    released.change("{{tone}}", "{{style}}")
    assert "contract changed since 1.1.0\n" in released.run("log", "greet")
    released.prompt.write_text("version: x\n", encoding="utf-8")
    assert released.run("log", "greet").endswith("prompts/greet.prompt.yml: does not parse\n")


def test_diff_compares_with_the_last_release(released):
    assert released.run("diff", "greet") == snapshot(
        "no difference between greet@1.1.0 and prompts/greet.prompt.yml\n"
    )
    released.change("Say hello to", "Say hi to")
    assert without_digests(released.run("diff", "greet")) == snapshot("""\
--- greet@1.1.0
+++ prompts/greet.prompt.yml
@@ -23,4 +23,4 @@
     content: Be {{tone}}.
   - role: user
     content: |
-      Say hello to {{person}}.
+      Say hi to {{person}}.
""")
    assert "-      Greet {{person}}." in released.run("diff", "greet", "1.0.0", "1.1.0")
    assert "-      Greet {{person}}." in released.run("diff", "greet", "main~1")
    assert "git knows no commit 'x'" in released.run("diff", "greet", "x", code=2)
    assert "fix: regauge diff greet 1.0.0" in released.run("diff", "greet@1.0.0", code=2)
    assert "fix: regauge log greet, which lists" in released.run("log", "greet@9", code=2)
    assert "there is no prompt 'x@1'" in released.run("log", "x@1", code=2)


def test_colour_is_only_for_terminals(released):
    released.change("hello", "hi")
    assert "\x1b" not in released.process("diff", "greet").stdout


def test_lint_tells_what_is_wrong(released):
    released.change("hello", "hi")
    (released.root / "prompts/broken.prompt.yml").write_text("messages:\n\t- x\n")
    assert released.run("lint", code=1) == snapshot("""\
error: prompts/broken.prompt.yml:2: not YAML: found character '\\t' that cannot start any token
  fix: indent with spaces: YAML allows no tab there
error: prompts/greet.prompt.yml:2: the content changed, but the version is still 1.1.0, which is released
  fix: regauge bump greet minor
2 prompts: 2 errors, 0 warnings
""")
    document = json.loads(released.run("lint", "--json", code=1))
    assert [(row["path"], row["line"]) for row in document["errors"]] == [
        ("prompts/broken.prompt.yml", 2),
        ("prompts/greet.prompt.yml", 2),
    ]


def test_lint_holds_the_lock_against_a_branch(released):
    lines = released.lock.read_text().splitlines(keepends=True)
    released.lock.write_text("".join(line for line in lines if "1.0.0" not in line))
    assert "greet@1.0.0 was removed; HEAD has it" in released.run("lint", code=1)
    released.git("checkout", "--quiet", "-b", "topic")
    released.commit("drop a release")
    assert released.run("lint") == "1 prompt: 0 errors, 0 warnings\n"
    assert "main has it" in released.run("lint", "--base", "main", code=1)


@pytest.mark.parametrize("message", ["", "  "])
def test_an_empty_message_is_refused(released: Shop, message: str):
    before = released.prompt.read_text()
    released.prompt.write_text(before.replace("Greet {{person}}", "Welcome {{person}}"))
    out = released.run("bump", "greet", "minor", "-m", message, code=2)
    assert out == "error: -m is empty\n  fix: write a value, or leave it out\n"
    assert "version: 1.1.0" in released.prompt.read_text()


def test_a_deleted_lock_is_restored_before_a_release(released: Shop):
    lock = released.lock.read_text()
    released.lock.unlink()
    message = """\
error: prompts/prompts.lock: the lock was removed; HEAD has it
  fix: restore it: git checkout HEAD -- :/prompts/prompts.lock
"""
    assert released.run("bump", "greet", "minor", code=2) == message
    assert not released.lock.exists()
    assert released.run("lint", code=1).startswith(message)
    released.git("checkout", "HEAD", "--", ":/prompts/prompts.lock")
    assert released.lock.read_text() == lock
    assert "does what 1.1.0 did" in released.run("bump", "greet", "minor", code=2)
    released.lock.write_text(
        "".join(line for line in lock.splitlines(keepends=True) if "1.0.0" not in line)
    )
    assert "greet@1.0.0 was removed; HEAD has it" in released.run("bump", "greet", "minor", code=2)


def test_lint_warns_of_changelog_entries_that_are_wrong(released: Shop):
    text = released.prompt.read_text()
    entries = """\
changelog:
  - {version: 1.1.0, text: ""}
  - {version: 1.0.5, text: Be kind., date: 2026-13-40}
  - {version: 1.2.0, text: Be quick.}
  - {version: 0.9.0, text: Before the lock.}
"""
    old = re.search(r"changelog:.*?(?=^\w)", text, re.DOTALL | re.MULTILINE)
    assert old is not None
    released.prompt.write_text(text.replace(old[0], entries))
    assert released.run("lint") == snapshot("""\
warning: prompts/greet.prompt.yml:4: the entry 1.1.0 of changelog has no text
  fix: write what changed, or remove the entry
warning: prompts/greet.prompt.yml:5: the entry 1.0.5 of changelog has the date '2026-13-40'
  fix: write it as in 2026-11-30
warning: prompts/greet.prompt.yml:5: the entry 1.0.5 of changelog is of a version that was never released
  fix: correct the version, or remove the entry
warning: prompts/greet.prompt.yml:6: the entry 1.2.0 of changelog is of a version that was never released
  fix: correct the version, or remove the entry
warning: prompts/greet.prompt.yml:6: the entry 1.2.0 of changelog is out of order
  fix: put the newest version first
1 prompt: 0 errors, 5 warnings
""")
    released.prompt.write_text(text.replace(old[0], entries.replace("1.0.5", "1.1.0")))
    assert released.run("lint", code=1) == snapshot("""\
error: prompts/greet.prompt.yml:5: changelog has version 1.1.0 twice
  fix: join them
1 prompt: 1 error, 0 warnings
""")


def test_lint_fails_for_warnings_only_when_asked(released):
    released.change("  temperature: 0", "  tempratur: 0")
    released.run("bump", "greet", "minor")
    assert "1 prompt: 0 errors, 1 warning" in released.run("lint")
    assert "did you mean 'temperature'?" in released.run("lint", "--strict", code=1)


def test_a_misspelt_key_stops_lint_and_names_the_one_that_was_meant(released):
    released.change("name: Greeter", "x-name: 1\nnmae: Greeter")
    assert "did you mean 'name'?" in released.run("lint", code=1)


def test_lint_of_nothing_is_no_success(tmp_path):
    empty = Shop(tmp_path.resolve() / "empty")
    empty.prompt.unlink()
    assert "nothing was checked" in empty.run("lint", code=2)


def test_commands_work_without_git(released):
    said = released.run("log", "greet", PATH="", code=2)
    assert said.startswith("error: the program `git` was not found")
    assert "greet 1.1.0" in released.run("show", "greet", PATH="")


@pytest.mark.parametrize("name", ["show", "log", "diff", "bump", "lint"])
def test_help_has_examples(shop, name):
    assert f"  regauge {name}" in shop.run(name, "--help")


def test_an_unknown_prompt_is_told_with_the_closest_name(shop):
    for command in (["show"], ["log"], ["diff"], ["bump"]):
        assert "did you mean 'greet'?" in shop.run(*command, "gret", code=2)
