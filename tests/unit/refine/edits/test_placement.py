"""Where rules may stand, and what is made of an edit that does not suffice or is too narrow."""

from __future__ import annotations

from dataclasses import replace

from regauge.refine.edits import (
    Anchor,
    Edit,
    Insert,
    PromptText,
    Replace,
    Statement,
    apply,
    other_places,
    second_places,
    statements,
)
from regauge.refine.guards import CaseText, Guard
from regauge.refine.loop._candidates import candidates_of
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
    return PromptText.of(SECTIONS.format(rules="\n".join(rules)))


def rule_of(text: PromptText, line: str) -> Statement:
    return next(one for one in statements(text) if one.text == line)


def test_a_rule_takes_the_place_of_a_line_that_no_check_speaks_of_or_moves():
    text = PromptText.of(f"# Form\n{SHORT}\n{UTC}\n# Content\n{LOCAL}\n- Name the host.\n{{{{i}}}}")

    edits = second_places(text, rule_of(text, UTC), [SHORT, "Name the host."])

    made = {edit.strategy: apply(text, edit.ops).whole.split("\n") for edit in edits}
    assert made["take-place"][2:4] == ["# Content", UTC]
    assert LOCAL not in made["take-place"]
    assert made["move-last"][-2] == UTC
    assert all(lines.count(UTC) == 1 for lines in made.values())


def test_a_line_under_the_same_heading_is_taken_out_and_nothing_else_changes():
    text = prompt(UTC, LOCAL)

    edits = second_places(text, rule_of(text, UTC), [SHORT])

    assert edits[0].strategy == "take-out"
    assert apply(text, edits[0].ops) == prompt(UTC)


def test_a_rule_that_is_added_has_other_places_and_replaces_what_is_made_of_its_letters():
    garbled = "- vieG sietm ni CTU."
    text = prompt(garbled, JSON)
    here = Edit(ops=(Insert(Anchor(SHORT), UTC),), strategy="rewrite", proposer="model")

    made = [apply(text, edit.ops) for edit in other_places(text, here, [SHORT, JSON])]

    assert made == [prompt(UTC, JSON), prompt(garbled, JSON, UTC)]


def test_of_edits_that_help_the_one_that_leaves_fewest_failures_is_accepted():
    half = "- JSON."  # the shorter one, which is tested first

    def ok(text, case, check):
        if check == "json" and half in text:
            return case not in TRAIN[5:]
        return passes(text, case, check)

    here = world(without("json"), propose=lambda *_: [adding(half), adding(JSON, SHORT)], passes=ok)

    state = here.run()

    assert here.events[:7].count("confirmed") == 2
    assert state.stop.reason == "goal-met"
    assert half not in state.text.whole
    assert JSON in state.text.whole


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
    assert [edit.cluster.check for edit in state.accepted] == ["utc"]
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
        tried = any(entry.finding == "overfit" for entry in state.memory.tried)
        return [adding(JSON if tried else narrow)]

    here = world(without("json"), propose=propose, passes=ok)

    state = here.run()

    assert here.events.count("rolled-back") == 1
    assert state.stop.reason == "goal-met"
    assert JSON in state.text.whole
    assert narrow not in state.text.whole


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
        guard = Guard(here.setting.base, cases, LINES.values(), here.setting.policy.guard)
        here.setting = replace(here.setting, guard=guard)
        return here.run()

    narrow, wide = run(wide=False), run(wide=True)

    assert narrow.stop.reason == "suite-refused"
    assert "of the others" in narrow.stop.text
    assert wide.stop.reason == "goal-met"


def test_a_line_that_is_only_suspected_stays_where_the_rule_helps_beside_it():
    """Both repair the check; only one of them takes a line away."""
    kind = "- Be kind."

    def propose(state, action):
        del state, action
        return [replace(replacing(kind, JSON), strategy="take-place"), adding(JSON, UTC)]

    here = world(apply(without("json"), adding(kind).ops), propose=propose)

    state = here.run()

    assert state.stop.reason == "goal-met"
    assert kind in state.text.whole


def test_only_the_strategies_that_were_asked_for_are_made_of_an_edit():
    text = prompt("- vieG sietm ni CTU.", JSON)
    here = Edit(ops=(Insert(Anchor(SHORT), UTC),), strategy="rewrite", proposer="model")

    def strategies(*wanted):
        now = world(text, strategies=wanted, propose=lambda *_: [here])
        now.run()
        state = next(s for s in now.states if s.open and s.cluster.check == "utc")
        kept, _ = candidates_of(now.setting, state, [here])
        return [candidate.edit.strategy for candidate in kept]

    assert strategies("rewrite") == ["rewrite"]
    assert strategies() == ["rewrite", "replace-garbled", "add-rule"]


def test_a_cure_that_loses_an_entry_of_a_list_comes_after_one_that_loses_none():
    listed = "rules: be short, be kind, never guess"
    base = PromptText.of(f"Help.\n{listed}\n{{{{input}}}}")

    def ok(text, case, check):
        return check != "json" or JSON in text

    def propose(*_):
        cure = Insert(Anchor("Help."), JSON)
        loss = Replace(Anchor(listed), listed.replace(", be kind", ""))
        return [Edit(ops=(cure, loss), strategy="rewrite", proposer="model")]

    state = world(base, propose=propose, passes=ok).run()

    assert listed in state.text.whole
    assert JSON in state.text.whole
