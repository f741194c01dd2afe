"""What `replaceable` marks: where a section begins and ends, and marks that stand for none."""

from __future__ import annotations

from pathlib import Path

import pytest
from inline_snapshot import snapshot

from regauge.errors import PromptError
from regauge.project import Project
from regauge.prompts import (
    Replaceable,
    SectionError,
    lint_prompts,
    parse_prompt,
    replaceable_errors,
    section_below,
)

MESSAGE = """\
You rate alerts.

## Labels

- critical: wake somebody up.
### Exceptions
- a test alert is no alert.

```yaml
## Form
```

## Form
Answer in JSON.
Keys:
- severity
- reason

At most 30 words.
<tone>

Be brief.
</tone>
"""
MARKED = """\
version: 1.0.0
replaceable:
{marks}
messages:
  - role: system
    content: |
      ## Labels
      - now: at once.
  - role: user
    content: |
      ## Labels
      {{{{alert}}}}
"""


def below(heading: str, content: str = MESSAGE) -> str:
    """The text of a section."""
    place = section_below(content, heading)
    return "\n".join(content.split("\n")[place.first : place.end])


def read(*marks: str):
    text = MARKED.format(marks="\n".join(f"  - {mark}" for mark in marks))
    return parse_prompt(text, path=Path("prompts/p.prompt.yml"))


@pytest.mark.parametrize(
    ("heading", "text"),
    [
        # Deeper headings belong to it, and so does what looks like one in a code block.
        (
            "## Labels",
            (
                "- critical: wake somebody up.\n### Exceptions\n- a test alert is no alert.\n\n"
                "```yaml\n## Form\n```"
            ),
        ),
        ("### Exceptions", "- a test alert is no alert.\n\n```yaml\n## Form\n```"),
        ("Keys:", "- severity\n- reason"),
        (" Keys: ", "- severity\n- reason"),
        ("<tone>", "Be brief."),
    ],
)
def test_a_section_ends_as_its_form_says_and_has_no_blank_lines_around_it(heading, text):
    assert below(heading) == text


@pytest.mark.parametrize(
    ("heading", "content", "said"),
    [
        ("## Tone", MESSAGE, "no line is '## Tone'"),
        ("Be brief.", MESSAGE, "no line is 'Be brief.'"),
        ("# A", "# A\nx\n# A\ny", "2 lines are '# A'"),
        ("# A", "# A\n\n# B\ny", "nothing below '# A'"),
        ("<a>", "<a>\nx", "no line below '<a>' is '</a>'"),
    ],
)
def test_what_begins_no_section_or_several_is_an_error(heading, content, said):
    with pytest.raises(SectionError, match=f"^{said}$"):
        section_below(content, heading)


def test_marks_are_read_with_their_message_words_and_line():
    prompt = read("{section: '## Labels', message: system, words: 40}")
    assert prompt.replaceable == (Replaceable(section="## Labels", message="system", words=40),)
    assert prompt.replaceable[0].line == 3
    index, place = prompt.replaceable[0].locate(prompt.messages)
    assert (index, place.first, place.end) == (0, 1, 2)
    assert replaceable_errors(prompt) == []
    assert prompt.digest == read("'## Other'").digest, "a mark changes nothing of what is asked"


def test_errors_of_marks_are_told_with_their_lines():
    with pytest.raises(PromptError) as caught:
        read(
            "## Labels",
            "Labels:",
            "{section: '# A', message: sytem, words: 0, note: x}",
            "be brief",
            "'# A'",
            "'# A'",
            "{message: user}",
        )
    assert str(caught.value) == snapshot("""\
prompts/p.prompt.yml:3: a section of replaceable must be a text, not nothing
  fix: write the line that begins the section, in quotes: - '## Labels'
prompts/p.prompt.yml:4: 'Labels' is a key here, not a text
  fix: quote it: - 'Labels:'
prompts/p.prompt.yml:5: a section of replaceable has no key 'note'
  fix: known keys: section, message, words
prompts/p.prompt.yml:5: `message` 'sytem' is unknown
  fix: did you mean 'system'?
prompts/p.prompt.yml:5: `words` of a section of replaceable must be a whole number from 1 on
prompts/p.prompt.yml:6: 'be brief' begins no section
  fix: a heading is '## Labels', 'Labels:' or '<labels>'
prompts/p.prompt.yml:8: replaceable has '# A' twice
prompts/p.prompt.yml:9: a section of replaceable has no 'section'
  fix: write the line that begins the section, in quotes: - '## Labels'""")


def test_a_mark_that_stands_for_no_section_fails_lint(project):
    marks = ["'## Labels'", "'## Tone'", "{section: '## Labels', message: assistant}"]
    project.write("p", MARKED.format(marks="\n".join(f"  - {mark}" for mark in marks)))
    diagnostics = lint_prompts(Project(root=project.root))
    said = "\n".join(
        str(diagnostic) for diagnostic in diagnostics if "replaceable" in diagnostic.message
    )
    assert said.replace(f"{project.root}/", "") == snapshot("""\
prompts/p.prompt.yml:3: `replaceable` names no section: 2 messages have the line '## Labels'
  fix: set the role: `message: system`, below `section:`
prompts/p.prompt.yml:4: `replaceable` names no section: no message has the line '## Tone'
  fix: write the line that begins it as the message has it: a heading such as '## Labels' or 'Labels:', or a tag such as '<labels>'
prompts/p.prompt.yml:5: `replaceable` names no section: no assistant message has the line '## Labels'
  fix: write the line that begins it as the message has it: a heading such as '## Labels' or 'Labels:', or a tag such as '<labels>'\
""")


def test_a_mark_that_nothing_can_replace_fails_lint(project):
    slot = MARKED.format(marks="  - <expression>")
    project.write("p", f"{slot.rstrip()}\n  - role: user\n    content: |\n{SLOT}")
    words = "  - {section: '## Labels', message: system, words: 1}"
    project.write("q", MARKED.format(marks=words))
    diagnostics = lint_prompts(Project(root=project.root))
    said = [diagnostic for diagnostic in diagnostics if "replaceable" in diagnostic.message]
    nothing, few = (diagnostic.message for diagnostic in said)
    assert nothing == "`replaceable`: '<expression>' holds nothing but inputs, which have to stay"
    assert few.startswith("`replaceable`: '## Labels' has 6 words and marks, and `words: 1` is")


SLOT = """\
      <expression>
      {{expression}}
      </expression>
"""
