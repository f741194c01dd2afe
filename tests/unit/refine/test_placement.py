"""Where rules may stand, and what is made of an edit that does not suffice or is too narrow."""

from __future__ import annotations

from dataclasses import replace

import pytest

from regauge.refine.edits import (
    Anchor,
    Delete,
    Edit,
    Insert,
    PromptText,
    Replace,
    apply,
    count_lost_words,
    ops_between,
    parts_of,
    renumber_text,
    restates,
    units_of,
    without_losses,
)
from regauge.refine.guards import CaseText, Guard
from regauge.refine.loop._candidates import candidates_of
from regauge.statements import delete
from tests.unit.refine.world import (
    HOLDOUT,
    JSON,
    LINES,
    SHORT,
    TRAIN,
    UTC,
    adding,
    passes,
    replacing,
    without,
    world,
)

LOCAL = "- Use whatever clock hangs on the wall."
SECTIONS = "Help.\n# Form\n- Be short.\n# Content\n{rules}\n# Input\n{{{{input}}}}"


def prompt(*rules: str) -> PromptText:
    return PromptText.from_contents(SECTIONS.format(rules="\n".join(rules)))


UNWATCHED = tuple(f"- Mind the {word}." for word in ("tone", "dates", "names", "links", "units"))


def crowded(*lines: str) -> PromptText:
    return PromptText.from_contents("\n".join(["You help.", "# Rules", *lines, "{{input}}"]))


@pytest.mark.parametrize("rule", [[UTC], []], ids=["followed badly", "missing"])
def test_of_many_statements_the_one_that_hinders_a_rule_is_found_and_no_other_goes(rule):
    """Next to what speaks against it the rule helps in three cases of eight."""

    def ok(text, case, check):
        if check != "utc" or LOCAL not in text:
            return passes(text, case, check)
        return UTC in text and case in TRAIN[:3]

    base = crowded(SHORT, JSON, *UNWATCHED[:3], LOCAL, *UNWATCHED[3:], *rule)
    here = world(base, propose=lambda *_: [] if rule else [adding(UTC)], passes=ok)

    state = here.run()

    kept = {line.text for line in state.text.lines}
    assert kept == {line.text for line in base.lines} - {LOCAL} | {UTC}
    assert state.stop.reason == "goal-met"
    assert "localised" in here.events


def test_a_definition_of_many_entries_is_tried_as_a_whole_although_it_has_many_parts():
    entries = [
        f"  - JSON of every {word} in the answer"
        for word in ("disk", "node", "pod", "shard", "cable")
    ]
    block = "\n".join(["- Answer in JSON when", *entries, "  - the clock is late"])

    def ok(text, case, check):
        return block in text if check == "json" else passes(text, case, check)

    edit = replacing(LOCAL, block)
    base = PromptText.from_contents(f"You help.\n# Rules\n{SHORT}\n{UTC}\n{LOCAL}\n{{{{input}}}}")
    here = world(base, propose=lambda *_: [edit], passes=ok)

    assert here.run().text == apply(base, edit.ops)


def test_the_edit_in_doubt_is_taken_back_and_a_later_one_stays():
    here = world(
        without("json", "utc"),
        passes=lambda text, case, check: (
            passes(text, case, check) and not (check == "json" and case in HOLDOUT)
        ),
    )

    state = here.run()

    assert [n.text[:18] for s in here.states for n in s.notes if n.event == "rolled-back"] == [
        "add-rule for json/"
    ]
    assert [edit.mode.check for edit in state.accepted] == ["utc"]
    assert state.text == apply(without("json", "utc"), adding(UTC).ops)
    assert state.stop.proposal


def test_another_edit_is_sought_when_the_suite_refused_one():
    """The first one forgets the holdout; the second one does not."""
    narrow = "- Answer in JSON to trains."

    def ok(text, case, check):
        if check == "json" and narrow in text:
            return case in TRAIN
        return passes(text, case, check)

    def propose(state, action):
        tried = any(entry.result == "overfit" for entry in state.memory.attempts)
        return [adding(JSON if tried else narrow)]

    here = world(without("json"), propose=propose, passes=ok)

    state = here.run()

    assert here.events.count("rolled-back") == 1
    assert state.stop.reason == "goal-met"
    assert JSON in state.text.full_text
    assert narrow not in state.text.full_text


def test_an_edit_that_names_cases_must_help_those_it_does_not_name():
    """All held-out cases are of the kind it names, so that the holdout has nothing against it."""
    line = "- Answer in JSON for freight orders."
    freight = (*TRAIN[:2], *HOLDOUT)
    cases = [
        CaseText(id=case, texts=("a freight order" if case in freight else "an order",))
        for case in (*TRAIN, *HOLDOUT)
    ]

    def run(*, wide):
        def ok(text, case, check):
            if check == "json" and line in text:
                return wide or case in HOLDOUT or case in TRAIN[:6]
            return passes(text, case, check)

        here = world(without("json"), propose=lambda *_: [adding(line)], passes=ok)
        guard = Guard(here.config.base, cases, LINES.values(), here.config.policy.guard)
        here.config = replace(here.config, guard=guard)
        return here.run()

    narrow, wide = run(wide=False), run(wide=True)

    assert narrow.stop.reason == "suite-refused"
    assert "of the others" in narrow.stop.text
    assert wide.stop.reason == "goal-met"


def test_a_cure_that_loses_an_entry_of_a_list_comes_after_one_that_loses_none():
    listed = "rules: be short, be kind, never guess"
    base = PromptText.from_contents(f"Help.\n{listed}\n{{{{input}}}}")

    def ok(text, case, check):
        return check != "json" or JSON in text

    def propose(*_):
        cure = Insert(Anchor("Help."), JSON)
        loss = Replace(Anchor(listed), listed.replace(", be kind", ""))
        return [Edit(ops=(cure, loss), strategy="rewrite", proposer="model")]

    state = world(base, propose=propose, passes=ok).run()

    assert listed in state.text.full_text
    assert JSON in state.text.full_text


STEPS = """Check the claim.
1. Replace every name by [PRIVATE].
2. Note handwritten remarks.
3. Name missing papers as in step 2.
{{input}}"""


def units(text, *steps):
    """A rewrite of the numbered list."""
    lines = [f"{n}. {step}" for n, step in enumerate(steps, 1)]
    body = [line for line in text.split("\n") if not line[0].isdigit()]
    return PromptText.from_contents("\n".join([body[0], *lines, *body[1:]]))


def rewritten(before, after):
    return Edit(ops=ops_between(before, after), strategy="rewrite", proposer="model")


def test_an_inserted_or_moved_step_is_one_change_and_no_part_of_it_loses_another():
    """Whatever follows from it in numbers and references."""
    one, two, three = (line[3:] for line in STEPS.split("\n")[1:4])
    new = "Check whether a policy number is given."
    base = PromptText.from_contents(STEPS)
    wanted = {
        "inserted": units(STEPS, new, one, two, three.replace("2", "3")),
        "moved": units(STEPS, two, three.replace("2", "1"), one),
    }
    for after in wanted.values():
        here = world(base, propose=lambda *_, after=after: [rewritten(base, after)])
        guard = here.config.guard
        assert len(units_of(base, after)) == 1
        assert not guard.objection(rewritten(base, after), base, after)
        here.run()
        state = next(s for s in here.states if s.open_modes)
        kept, _ = candidates_of(state, [rewritten(base, after)])
        for candidate in kept:
            assert all(step[:12] in candidate.text.full_text for step in (one, two, three))
    literal = Edit(
        ops=(Insert(Anchor("Check the claim."), f"1. {new}"),), strategy="m", proposer="m"
    )
    here = world(base)
    here.run()
    state = next(s for s in here.states if s.open_modes)
    kept, _ = candidates_of(state, [literal])
    assert wanted["inserted"] in [candidate.text for candidate in kept]


@pytest.mark.parametrize(
    ("steps", "label"),
    [
        ("First, read the mail. |Second, name the product. |Third, reply in two lines.", "Third"),
        ("Firstly, read the mail.\n|Secondly, name it.\n|Thirdly, reply in two lines.", "Thirdly"),
        ("- Step one: read it.\n|- Step two: name it.\n|- Step three: reply.", "Step three"),
        ("Erstens: Lies die Mail.\n|Zweitens: Nenne sie.\n|Drittens: Antworte.", "Drittens"),
        ("#1 Read the mail.\n|#2 Name the product.\n|#3 Reply in two lines.", "#3"),
        ("1 - Read the mail.\n|2 - Name the product.\n|3 - Reply in two lines.", "3"),
        ("2.1 Read the mail.\n|2.2 Name the product.\n|2.3 Reply in two lines.", "2.3"),
        ("Always (1) read the mail, |(2) name it, |(3) reply in two lines.", "(3)"),
    ],
)
def test_steps_that_are_no_list_stay_in_order(steps: str, label: str):
    first, second, third = steps.split("|")
    base = PromptText.from_contents(f"Sort mails.\n\n{first}{second}{third}")
    guard = world(base).config.guard
    gone = PromptText.from_contents(f"Sort mails.\n\n{first}{third}")
    assert guard.objection(rewritten(base, gone), base, gone) == f"it leaves {label!r} out of order"
    shorter = PromptText.from_contents(f"Sort mails.\n\n{first}{second}".rstrip())
    assert "out of order" not in guard.objection(rewritten(base, shorter), base, shorter)


@pytest.mark.parametrize(
    ("steps", "reference"),
    [
        ("[1] Read.\n[2] Name the product.\n[3] Send what [2] gave.", "Send what [2] gave."),
        ("a. Read.\nb. Name the product.\nc. Redo step b.", "Redo step b."),
        ("(a) Read.\n(b) Name the product.\n(c) See (b).", "See (b)."),
        ("1) Read, then do rule 3.\n2) Name the product.\n3) Send it.", "Read, then do rule 3."),
    ],
)
def test_a_step_that_a_letter_or_bracket_refers_to_stays(steps: str, reference: str):
    base = PromptText.from_contents(f"Sort mails.\n\n{steps}")
    guard = world(base).config.guard
    lines = base.full_text.splitlines()
    gone = lines[-1] if "rule 3" in steps else lines[-2]
    after = PromptText.from_contents("\n".join(line for line in lines if line != gone))
    after = renumber_text(base, after)
    expected = f"it takes out the step that {reference!r} refers to"
    assert guard.objection(rewritten(base, after), base, after) == expected


def test_a_step_that_another_refers_to_is_not_taken_out():
    base = PromptText.from_contents(STEPS)
    guard = world(base).config.guard
    gone = Edit(ops=(Delete(Anchor("2. Note handwritten remarks.")),), strategy="m", proposer="m")
    one, _, three = (line[3:] for line in STEPS.split("\n")[1:4])
    after = units(STEPS, one, three)
    assert "it takes out the step that 'Name missing papers as in step 2.' refers to" in (
        guard.objection(gone, base, after)
    )


def test_what_a_rewrite_loses_next_to_its_cure_is_kept():
    base = PromptText.from_contents(f"Help.\n- Be kind.\n{SHORT}\n{{{{input}}}}")
    after = PromptText.from_contents(f"Help.\n{SHORT}\n{JSON}\n- Stay calm.\n{{{{input}}}}")
    here = world(base, propose=lambda *_: [rewritten(base, after)])

    state = here.run()

    assert JSON in state.text.full_text
    assert "- Be kind." in state.text.full_text
    assert "calm" not in state.text.full_text


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('Say `level`.\n\nExample: {"level": "warn"}', 'Say `severity`.\n\nExample: {"severity": "warn"}'),
        ("<report>\nBe kind.\n</report>", "Be kind."),
        ("Read {{a}} first.\n\nThen {{b}}.", "Read {{b}} first.\n\nThen {{a}}."),
        ('Sort.\n\nInput: a\nOutput: {"k": 1}\n\nInput: b\nOutput: {"k": 2}',
         'Sort.\n\nInput: a\nOutput: {"k": 1}\n\nInput: c d\nOutput: {"k": 3}\n\nInput: b\nOutput: {"k": 2}'),
        ("| a | b |\n|---|---|\n| 1 | 2 |", "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |"),
        ("<case>\nIt hums.\n</case>\n<case>\nIt rings.\n</case>",
         "<case>\nIt hums.\n</case>\n<case>\nIt smells odd.\n</case>\n<case>\nIt rings.\n</case>"),
        ("It is red what can wait for a week, and blue what must be done today.",
         "It is red what must be done today, and blue what can wait for a week."),
        ("Be kind.", "Be kind.\n\n<tone>\nWrite short words.\nName no host.\n</tone>"),
    ],
)  # fmt: skip
def test_what_a_person_calls_one_change_is_one_unit(before, after):
    assert len(units_of(PromptText.from_contents(before), PromptText.from_contents(after))) == 1


@pytest.mark.parametrize(
    ("before", "after", "kept"),
    [
        ("1. Be kind.\n2. Be brief.", "+ Be kind.\n+ Be very brief.", "1. Be kind.\n2. Be very brief."),
        (
            "Pick a kind: red, green or blue. Be kind.\n- Use JSON.",
            "Pick a kind: red, green or blue. Be very kind.\n* Use JSON.",
            "Pick a kind: red, green or blue. Be very kind.\n- Use JSON.",
        ),
        ("1. Read it, and decide what to do.\n2. Go.", "1. Read it, and decide what to do.\n2. Stop.\n3. Go.", None),
        ("1. Sort: red, green, blue.\n2. Go.", "1. Sort: red, green, blue.\n2. See rule 1.\n3. Go.", None),
        ("1. Pick: red, green, blue.\n2. Go.", "1. Sort.\n2. Pick: red, green, blue.\n3. Go.", None),
        (
            "# A\nBe kind.\n\n# B\nUse JSON.\nClause: copy it, word by word, but for now.\n",
            "# A\nBe kind.\nClause: copy it, word by word.\n\n# B\nUse JSON.\n",
            None,
        ),
        ("- red: it burns.\n- blue: it waits.", "- red: it waits.\n- blue: it burns.", None),
        ("| red | it burns |\n| blue | it waits |", "| red | it waits |\n| blue | it burns |", None),
        ("- feeling: angry, neutral or happy", "- mood: angry, neutral or happy", None),
        ("Be kind.\n\n{{diff}}\n\nBe brief.", "Be kind.\n\n<d>\n{{diff}}\n</d>\n\nBe brief.", None),
    ],
)  # fmt: skip
def test_the_changes_of_an_edit_leave_the_rest_as_it_is(before, after, kept):
    texts = PromptText.from_contents(before), PromptText.from_contents(after)
    assert without_losses(*texts).full_text == (after if kept is None else kept)


@pytest.mark.parametrize(
    ("line", "other", "same"),
    [
        ("Use at most 15 words.", "Use at most 150 words.", True),
        ("用不超过15个字。", "用不超过150个字。", True),
        ('channel is "mail" or "phone"', 'channel is "email" or "telephone"', True),
        ('- frist: immer "zwei Wochen"', '- frist: immer "zw', True),
        ("Be brief.", "Be brief.", False),
        ("Keep `reason` to at most 15 words.", "Keep `title` to at most 15 words.", False),
        ("Be brief and kind.", "Be brief", False),
    ],
)
def test_a_statement_with_other_values_or_the_whole_of_a_cut_one_restates_it(line, other, same):
    assert restates(line, other) == same


def test_a_corrected_value_is_no_loss():
    before = PromptText.from_contents("- Use at most 250 words.\n- Be kind.")
    after = PromptText.from_contents("- Use at most 25 words.\n- Be kind.")
    assert count_lost_words(before, after) == 0


def test_swapped_clauses_come_back_as_one_whole_sentence():
    before = PromptText.from_contents(
        "Sort.\n\nRed is what can wait a week, and blue what we must do today."
    )
    cured = "Sort.\n\nRed is what we must do today, and blue what can wait a week."
    after = PromptText.from_contents(f"{cured}\n\nYour work is important.")

    assert cured in without_losses(before, after).full_text
    assert cured in {part.full_text for part in parts_of(before, after)}
    assert all(part.full_text.count(" what ") == 2 for part in parts_of(before, after))


@pytest.mark.parametrize("number", range(4))
def test_a_text_that_only_loses_a_statement_stays_as_it_is(number: int):
    before = PromptText.from_contents(
        "Read it. Never repeat a Secret, and guess what it meant. 1. Look first, then act."
    )
    tree = before.trees[0]
    after = before.with_content(0, delete(tree, tree.atoms[number]))
    assert without_losses(before, after) == after
