"""The tree of a text: it is the text, in any language and layout, and edits keep it in step."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given, strategies as st

from regauge.statements import (
    AtomChange,
    MergeError,
    compare,
    content_words,
    delete,
    guess_language,
    insert,
    is_negated,
    merge,
    move,
    normalise,
    parse,
    references,
    replace,
)

LINES = st.sampled_from([
    "", "  ", "# Rules", "## 2. Form", "Title\n=====", "Keys:", "**Bold**", "【注意】", "- a b", "* c", "  - d",
    "1. Read it.", "2. Do it. Then stop.", "3) c", "a) x", "(i) y", "①一", "1、短く", "Step 1: go", "Step 2: end",
    "As in step 2, and not as in step 1.", "{{input}}", "<x>", "</x>", "```", "| a | b |", '{"a": 1}', "Input: a",
    "Output: b", "a -> b", "彼は。終わり！", "किताब। फिर", "ماذا؟ نعم", "z. B. am 3. Mai.", "---", "\ttab", "x\r", "\x0b",
])  # fmt: skip
TEXTS = st.one_of(st.lists(LINES, max_size=9).map("\n".join), st.text(max_size=60))


@given(text=TEXTS)
@example(text="1. a\n\n\n   b\n2. c")
@example(text="# Rules\n\n---")
def test_the_leaves_of_a_tree_are_the_text_and_ranges_nest(text):
    tree = parse(text)

    assert "".join(tree.text_of(leaf) for leaf in tree.leaves) == text
    for node in tree.root.walk():
        ends = [node.start, *(child.end for child in node.children)]
        if node.children:
            assert [child.start for child in node.children] == ends[:-1]
            assert ends[-1] == node.end
    assert all(tree.text_of(atom).strip() for atom in tree.atoms)


@given(before=TEXTS, after=TEXTS, data=st.data())
def test_a_text_with_none_of_the_changes_is_the_text_before_and_with_all_says_what_the_other_says(
    before, after, data
):
    found = compare(parse(before), parse(after))

    assert found.compose(()) == before
    made, at = found.compose(found.changes).casefold(), 0
    for atom in found.after.atoms:
        for words in re.findall(r"[^\d]+", found.after.text_of(atom).casefold()):
            at = made.index(words.strip(), at)
    assert not compare(parse(before), parse(before)).changes
    some = (
        data.draw(st.lists(st.sampled_from(found.changes), unique_by=id)) if found.changes else []
    )
    found.compose(some)


def test_an_open_fence_at_the_end_gets_no_second_period():
    text = "```\n1. Read it.\n"
    assert compare(parse(text), parse("")).compose(()) == text


def entries(*texts):
    return "\n".join(f"{n}. {text}" for n, text in enumerate(texts, 1))


STEPS = st.lists(
    st.sampled_from(["Read it.", "Sort the rows.", "Name hosts.", "Give times.", "Stop."]),
    min_size=2, max_size=5, unique=True,
)  # fmt: skip


@given(
    steps=STEPS,
    at=st.integers(0, 4),
    to=st.integers(0, 4),
    new=st.text("abc", min_size=3, max_size=5),
)
def test_lists_stay_numbered_and_references_follow_their_step(steps, at, to, new):
    at, to = at % len(steps), to % len(steps)
    text = f"{entries(*steps)}\n\nRepeat step {at + 1}."
    tree = parse(text)
    nodes = list(tree.nodes("entry"))

    inserted = insert(tree, nodes[to], new)
    expected = [*steps[: to + 1], new, *steps[to + 1 :]]
    assert inserted == f"{entries(*expected)}\n\nRepeat step {expected.index(steps[at]) + 1}."
    assert delete(parse(inserted), list(parse(inserted).nodes("entry"))[to + 1]) == text
    if at != to:
        moved = move(tree, nodes[at], nodes[to], "before")
        expected = [one for n, one in enumerate(steps) if n != at]
        expected.insert(to - (at < to), steps[at])
        assert moved == f"{entries(*expected)}\n\nRepeat step {expected.index(steps[at]) + 1}."
        assert [one.kind for one in compare(tree, parse(moved)).changes if at - to not in {0, 1, -1}] in (
            [], ["moved"],
        )  # fmt: skip
    changed = replace(tree, nodes[at], f"{at + 7}. {new}")
    assert changed == text.replace(steps[at], new)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Lies es z. B. am 3. Mai. Übersetze es!", ["Lies es z. B. am 3. Mai.", "Übersetze es!"]),
        ("短く書く。嘘はつかない！本当？はい", ["短く書く。", "嘘はつかない！", "本当？", "はい"]),
        ("हिंदी में लिखो। छोटा रखो।", ["हिंदी में लिखो।", "छोटा रखो।"]),
        ("인사는 하지 않습니다. `note`는 짧게 씁니다. id를 씁니다.", ["인사는 하지 않습니다.", "`note`는 짧게 씁니다.", "id를 씁니다."]),
        ("Be brief. `note` is short, e.g. one word.", ["Be brief.", "`note` is short, e.g. one word."]),
        ("**Task**\n\nSort it.\n\n---\n\nStop.", ["Sort it.", "Stop."]),
        ("[^1]: Sort it.\n[^2]: Stop.", ["Sort it.", "Stop."]),
        ("هل هذا صحيح؟ أجب بنعم.", ["هل هذا صحيح؟", "أجب بنعم."]),
        ("Name hosts, e.g. web-1. Use v1.2 of J. Doe's list.", ["Name hosts, e.g. web-1.", "Use v1.2 of J. Doe's list."]),
        ("A line that was broken\nto fit goes on.\nThis one is new", ["A line that was broken\nto fit goes on.", "This one is new"]),
        ("Block what runs as root, and quote at most five findings.", ["Block what runs as root", "quote at most five findings"]),
        ("1. Eins\n   a) zwei\n   b) drei\n(i) vier\n② fünf", ["Eins", "zwei", "drei", "vier", "fünf"]),
    ],
)  # fmt: skip
def test_sentences_end_where_a_reader_of_the_language_ends_them(text, said):
    tree = parse(text)
    assert [tree.text_of(one) for one in tree.statements] == said


@pytest.mark.parametrize(
    "text",
    [
        "Input: my order is late\nOutput: delivery",
        "Nachricht: Wo ist es?\nArt: Frage\n\nNachricht: Danke\nArt: Lob",
        'Example: {"level": "warn"}',
        "Q: why?\n\nA: because",
        '```json\n{"a": 1}\n```',
        '{\n "a": [1, 2]\n}',
        "late again -> delivery\nbroken -> refund",
        "<examples>\nThe order never came.\n</examples>",
        "{{input}}",
    ],
)  # fmt: skip
def test_examples_and_data_do_not_instruct(text):
    tree = parse(f"Be brief.\n\n{text}\n\nUse JSON.")
    assert [tree.text_of(one) for one in tree.statements] == ["Be brief.", "Use JSON."]


@pytest.mark.parametrize(
    ("before", "after", "composed"),
    [
        ("You are kind.\nBe brief.", "Reply in JSON.\nBe brief.", "You are kind.\nReply in JSON.\nBe brief."),
        ("Read all. Be brief.", "Stop now. Be brief.", "Read all.\nStop now. Be brief."),
        ("1. Read all.\n2. End.", "1. Stop now.\n2. End.", "1. Read all.\n2. Stop now.\n3. End."),
        ("<x>{{x}}</x>", "{{x}} Be brief.", "<x>{{x}}</x>\n{{x}} Be brief."),
    ],
)  # fmt: skip
def test_a_first_statement_that_is_added_alone_has_its_own_line(before, after, composed):
    comparison = compare(parse(before), parse(after))
    added_changes = [change for change in comparison.changes if change.kind == "added"]
    assert comparison.compose(added_changes) == composed


@pytest.mark.parametrize("close", [")", "）"])
def test_a_lettered_step_keeps_its_references(close):
    text = f"a{close} Read.\nb{close} Reply.\n\nSee b{close} and (b), plan b."
    tree = parse(text)
    added = insert(tree, tree.nodes("entry").__next__(), "Think.")
    assert (
        added
        == f"a{close} Read.\nb{close} Think.\nc{close} Reply.\n\nSee c{close} and (c), plan b."
    )


def test_a_node_knows_its_heading_and_the_step_it_refers_to():
    tree = parse(
        "# A\nx\n## Steps\n1. Read.\n2. Answer as in Schritt 1.\n<tone>\nBe kind.\n</tone>\n# B\ny"
    )
    assert [tree.heading(one) for one in tree.statements] == [
        "# A",
        "## Steps",
        "## Steps",
        "<tone>",
        "# B",
    ]
    (one,) = references(tree)
    assert one.target is not None
    assert tree.text_of(one.target) == "1. Read."


def test_a_deleted_sentence_takes_what_would_be_empty_with_it():
    tree = parse("# A\n- One. Two.\n- Three.\n\n# B\nFour, and five or six here.")
    gone = {tree.text_of(one): delete(tree, one) for one in tree.statements}
    assert gone["One."].startswith("# A\n- Two.\n- Three.")
    assert gone["Two."].startswith("# A\n- One.\n- Three.")
    assert gone["Three."] == "# A\n- One. Two.\n\n# B\nFour, and five or six here."
    clauses = parse("Block what runs as root, and quote at most five findings.")
    assert [delete(clauses, one) for one in clauses.statements] == [
        "Quote at most five findings.",
        "Block what runs as root.",
    ]


def test_one_change_of_several_leaves_the_others_out():
    before = parse("1. Read the claim.\n2. Replace names by [PRIVATE].\n3. Answer as in step 2.")
    after = parse(
        "1. Replace names by [PRIVATE].\n2. Check the number.\n3. Answer as in step 1.\n\nBe kind."
    )
    found = compare(before, after)
    made = {one.kind: found.compose([one]) for one in found.changes}
    assert {(one.kind, found.after.text_of(one.now) if one.now else "") for one in found.changes} == {
        ("removed", ""), ("added", "Check the number."), ("added", "Be kind."),
    }  # fmt: skip
    assert made["removed"] == "1. Replace names by [PRIVATE].\n2. Answer as in step 1."
    added = next(one for one in found.changes if one.now and found.after.text_of(one.now)[0] == "C")
    assert found.compose([added]) == (
        "1. Read the claim.\n2. Replace names by [PRIVATE].\n3. Check the number.\n4. Answer as in step 2."
    )


def test_an_added_sentence_alone_begins_where_the_added_line_did():
    before, after = parse("- a one\n- b two"), parse("- a one\n- New. Other.\n- b two")
    found = compare(before, after)
    assert [found.compose([one]) for one in found.changes] == [
        "- a one\n- New.\n- b two", "- a one\n- Other.\n- b two",
    ]  # fmt: skip


@given(base=STEPS, first=st.integers(0, 4), second=st.integers(0, 4))
def test_changes_of_two_statements_are_put_together_either_way(base, first, second):
    first, second = first % len(base), second % len(base)

    def changed(*places):
        return parse(
            " ".join(f"Say {n} here." if n in places else one for n, one in enumerate(base))
        )

    assert merge(changed(), changed(first), changed()) == changed(first).text
    if first == second:
        return
    both = merge(changed(), changed(first), changed(second))
    assert both == merge(changed(), changed(second), changed(first)) == changed(first, second).text


def test_two_changes_of_one_statement_cannot_be_put_together():
    texts = [parse(f"Be brief. Use {form} for all.") for form in ("JSON", "YAML", "XML")]
    with pytest.raises(MergeError, match="'Use JSON for all\\.' is changed twice"):
        merge(*texts)


@pytest.mark.parametrize(
    ("text", "language", "negated"),
    [
        ("Do not answer in prose.", "en", True),
        ("Antworte nie mit einem ganzen Satz.", "de", True),
        ("Schreibe einen Satz über das Wohngebäude.", "de", False),
        ("N'écris jamais de liste dans la réponse.", "fr", True),
        ("No escribas la respuesta en una lista.", "es", True),
        ("箇条書きは使わないでください。", "ja", True),
        ("要約を日本語で書いてください。", "ja", False),
        ("不要写列表。", "zh", True),
        ("Не пиши список в ответе.", "ru", True),
        ("Vastaa suomeksi.", "", None),
    ],
)  # fmt: skip
def test_languages_and_negations_are_recognised_and_an_unknown_one_is_said_to_be(
    text, language, negated
):
    assert guess_language(text) == language
    assert is_negated(text) is negated


def test_words_of_any_script_tell_the_subject():
    assert content_words("Das Wohngebäude ist alt") == {"wohngebäud", "alt"}
    assert content_words("料金は東京都で") & content_words("東京の料金")
    assert normalise(" - Ja,  gut. ") == "- ja, gut"
    assert isinstance(compare(parse("a"), parse("b")).changes[0], AtomChange)


def test_one_new_line_in_a_long_text_with_repeated_lines_is_one_change():
    """A line that is there very often still counts: it is what lies between the others."""
    lines = [f"- Rule {number}." if number % 3 else "- Be brief." for number in range(300)]
    before = parse("\n".join(lines))
    for place in (4, 150, 297):
        after = parse("\n".join([*lines[:place], "- Be kind.", *lines[place:]]))
        (change,) = compare(before, after).changes
        assert change.kind == "added"
        (change,) = compare(after, before).changes
        assert change.kind == "removed"
    # Only the repeated line is in both.
    other = [line if line == "- Be brief." else f"- Law {n}." for n, line in enumerate(lines)]
    changes = compare(before, parse("\n".join(other))).changes
    assert all("Be brief" not in before.text_of(one.was) for one in changes if one.was)
