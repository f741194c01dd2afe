"""Prompts as lines, edits of them, and the changes of an edit in statements.

An anchor without a match is an error. All anchors of an edit are found in the text before the
edit, so the order of its operations does not matter.
"""

from __future__ import annotations

import difflib
import json
import re
import textwrap
import tomllib
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, product
from typing import TYPE_CHECKING, Literal, TypeAlias, cast

from regauge.digests import JSON, digest_of
from regauge.errors import RegaugeError
from regauge.lexicon import Lexicon
from regauge.prompts import Message, Replaceable, SectionError, section_below
from regauge.statements import (
    Tree,
    alike,
    compare,
    content_words,
    insert,
    merge,
    normalise,
    parse,
    renumber,
)
from regauge.yaml_document import YamlError, compose_document

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from regauge.prompts import MessageSection
    from regauge.statements import AtomChange, Node, TextComparison

_WORD_OR_MARK = re.compile(r"\w+|[^\w\s]")
_RULE_OF_TABLE = re.compile(r"[|\s]*:?-[-:|\s]*")
_BLOCK = re.compile(
    r"^[ \t]*(?P<fence>`{3,}|~{3,})[ \t]*(?P<kind>json|ya?ml|toml)\b[^\n]*\n(?P<body>.*?)"
    r"^[ \t]*(?P=fence)",
    re.MULTILINE | re.DOTALL | re.IGNORECASE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of one message.

    Attributes:
        occurrence: The number of equal lines above it in the same message.
    """

    message: int
    number: int
    text: str
    occurrence: int


@dataclass(frozen=True, kw_only=True)
class PromptText:
    """The messages of a prompt, for edits line by line."""

    messages: tuple[Message, ...]

    @classmethod
    def from_contents(cls, *contents: str) -> PromptText:
        """A system message, and any further contents as user messages."""
        return cls(
            messages=tuple(
                Message(role="user" if index else "system", content=content)
                for index, content in enumerate(contents)
            )
        )

    @cached_property
    def digest(self) -> str:
        """The digest of every character."""
        return digest_of([[message.role, message.content] for message in self.messages])

    @cached_property
    def shape(self) -> str:
        """The digest up to white space, which identifies equal texts."""
        return digest_of(
            [[message.role, " ".join(message.content.split())] for message in self.messages]
        )

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """Every line, in order."""
        lines: list[Line] = []
        for index, message in enumerate(self.messages):
            seen_lines: Counter[str] = Counter()
            for number, text in enumerate(message.content.split("\n")):
                lines.append(
                    Line(message=index, number=number, text=text, occurrence=seen_lines[text])
                )
                seen_lines[text] += 1
        return tuple(lines)

    @property
    def trees(self) -> tuple[Tree, ...]:
        """The statements of each message."""
        return tuple(parse(message.content) for message in self.messages)

    def with_content(self, index: int, content: str) -> PromptText:
        """The text with another content of one message; trailing white space is kept."""
        messages = list(self.messages)
        old = messages[index].content
        content = content.rstrip() + old[len(old.rstrip()) :]
        messages[index] = replace(messages[index], content=content)
        return PromptText(messages=tuple(messages))

    @cached_property
    def size(self) -> int:
        """The number of words and marks, as a proxy for tokens."""
        return sum(count_words(message.content) for message in self.messages)

    @property
    def full_text(self) -> str:
        """All messages in one text."""
        return "\n".join(message.content for message in self.messages)


def count_words(text: str) -> int:
    """The number of words and marks in a text.

    >>> count_words("at most 3 entries.")
    5
    """
    return len(_WORD_OR_MARK.findall(text))


class EditError(RegaugeError):
    """An edit does not fit the text: its anchor is missing, a duplicate, or in use."""


@dataclass(frozen=True, slots=True)
class Anchor:
    """One line of the text, found by its content.

    Attributes:
        line: The whole line; white space around it may be left out.
        occurrence: The number of one of several equal lines, from 0; None for a unique line.
    """

    line: str
    occurrence: int | None = None
    message: int | None = None


@dataclass(frozen=True, slots=True)
class Insert:
    """New lines after or before the anchor."""

    anchor: Anchor
    text: str
    side: Literal["after", "before"] = "after"


@dataclass(frozen=True, slots=True)
class Replace:
    """Another text for the anchor's line, or for the only match of `find` in it."""

    anchor: Anchor
    text: str
    find: str = ""


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete the anchor's line."""

    anchor: Anchor


@dataclass(frozen=True, slots=True)
class ReplaceSection:
    """Another text for the section below the anchor, as the only operation of an edit."""

    anchor: Anchor
    text: str


Op: TypeAlias = Insert | Replace | Delete | ReplaceSection


def op_from_json(document: JSON, *, blank: bool = False) -> Op:
    """An operation from `to_json` or from a model's response.

    Args:
        document: The operation.
        blank: Whether lines may be blank, as in a rewrite that was split into operations.
    """
    if not isinstance(document, dict):
        raise EditError(f"an operation is a JSON object, not {type(document).__name__}")
    kind, line, text = document.get("op"), document.get("line"), document.get("text", "")
    if not isinstance(line, str) or not (blank or line.strip()) or not isinstance(text, str):
        raise EditError("an operation names the `line` it is about, and a `text` where it adds one")
    occurrence, message = document.get("occurrence"), document.get("message")
    anchor = Anchor(
        line,
        occurrence if type(occurrence) is int else None,
        message if type(message) is int else None,
    )
    match kind:
        case "insert_after" | "insert_before" if text.strip() or blank:
            return Insert(anchor, text, "after" if kind == "insert_after" else "before")
        case "replace" if text.strip() or blank:
            find = document.get("find")
            return Replace(anchor, text, find if isinstance(find, str) else "")
        case "delete":
            return Delete(anchor)
        case "replace_section" if text.strip():
            return ReplaceSection(anchor, _without_blank_ends(text))
        case "insert_after" | "insert_before" | "replace" | "replace_section":
            raise EditError(f"{kind} needs a `text`")
        case _:
            raise EditError(
                f"there is no operation {kind!r}; there are insert_after, insert_before, replace,"
                " delete, replace_section"
            )


def op_to_json(op: Op) -> dict[str, JSON]:
    """The operation as a plain document."""
    kind = f"insert_{op.side}" if isinstance(op, Insert) else kind_of(op)
    document: dict[str, JSON] = {"op": kind, "line": op.anchor.line}
    if op.anchor.occurrence is not None:
        document["occurrence"] = op.anchor.occurrence
    if op.anchor.message is not None:
        document["message"] = op.anchor.message
    if not isinstance(op, Delete):
        document["text"] = op.text
    if isinstance(op, Replace) and op.find:
        document["find"] = op.find
    return document


def kind_of(op: Op) -> str:
    """The kind of an operation in one word: `insert`, `replace`, `delete`, ..."""
    return "replace_section" if isinstance(op, ReplaceSection) else type(op).__name__.lower()


def _without_blank_ends(text: str) -> str:
    """A text without blank lines before and after it; indentation is kept."""
    lines = text.split("\n")
    nonblank_lines = [number for number, line in enumerate(lines) if line.strip()]
    return "\n".join(lines[nonblank_lines[0] : nonblank_lines[-1] + 1])


# Of their words; other forms of one word and a changed word in five pass. Lower refuses edits that
# differ in what matters, higher tests one edit twice.
_NEAR = 0.8
REWRITE = "rewrite"
"""The strategy of an edit that was derived from a whole new text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """A small revision: up to three operations with one purpose.

    Attributes:
        strategy: The kind of idea, such as `add-rule` or `restore`.
        proposer: The source: `rules`, `examples` or `model:<id>`.
        rationale: The reason in a sentence; it never enters the prompt.
    """

    ops: tuple[Op, ...]
    strategy: str
    proposer: str
    rationale: str = ""

    @property
    def digest(self) -> str:
        """The digest of the operations."""
        return digest_of([op_to_json(op) for op in self.ops])

    def to_json(self) -> dict[str, JSON]:
        """A plain document, for the audit trail."""
        return {
            "ops": [op_to_json(op) for op in self.ops],
            "strategy": self.strategy,
            "proposer": self.proposer,
            "rationale": self.rationale,
        }

    @classmethod
    def from_json(cls, document: Mapping[str, JSON]) -> Edit:
        """Read the document that `to_json` writes."""
        return cls(
            ops=tuple(op_from_json(op, blank=True) for op in cast("list[JSON]", document["ops"])),
            strategy=str(document.get("strategy", "")),
            proposer=str(document.get("proposer", "")),
            rationale=str(document.get("rationale", "")),
        )

    @property
    def added_text(self) -> str:
        """The new text, line by line."""
        return "\n".join(op.text for op in self.ops if not isinstance(op, Delete))


def apply(text: PromptText, ops: Sequence[Op]) -> PromptText:
    r"""The text with all operations carried out.

    >>> text = PromptText.from_contents("Rules:\n- Be brief.")
    >>> apply(text, [Insert(Anchor("- Be brief."), "- Reply in JSON.")]).full_text
    'Rules:\n- Be brief.\n- Reply in JSON.'

    Raises:
        EditError: An anchor is missing or not unique, two operations change the same line, or a
            section is replaced next to them.
    """
    if any(isinstance(op, ReplaceSection) for op in ops):
        return _with_section(text, ops)
    before: dict[Line, list[str]] = defaultdict(list)
    after: dict[Line, list[str]] = defaultdict(list)
    instead: dict[Line, list[str]] = {}
    for op in ops:
        line = _line(text, op.anchor)
        if isinstance(op, Insert):
            (after if op.side == "after" else before)[line] += op.text.split("\n")
            continue
        if line in instead:
            raise EditError(f"two operations change the line {op.anchor.line!r}")
        instead[line] = _replaced_lines(line.text, op) if isinstance(op, Replace) else []
    contents: list[list[str]] = [[] for _ in text.messages]
    for line in text.lines:
        contents[line.message] += [*before[line], *instead.get(line, [line.text]), *after[line]]
    for index, lines in enumerate(contents):
        text = text.with_content(index, "\n".join(lines))
    return text


def ops_between(before: PromptText, after: PromptText) -> tuple[Op, ...]:
    """Operations, each on one line, that lead from one text to another."""
    return tuple(op for block in blocks_between(before, after) for op in block)


def blocks_between(before: PromptText, after: PromptText) -> list[list[Op]]:
    """The same operations, those of neighbouring lines together."""
    return [
        block
        for index in range(len(before.messages))
        for block in _message_blocks(
            index,
            before.messages[index].content.split("\n"),
            after.messages[index].content.split("\n"),
        )
    ]


def are_near_duplicates(texts: Iterable[str], other: Iterable[str]) -> bool:
    """Return whether two edits add and remove nearly the same words.

    >>> are_near_duplicates(["- Reply in JSON only.", ""], ["- Only reply in JSON!", ""])
    True
    """
    words = zip(map(content_words, texts), map(content_words, other), strict=True)
    return all(
        len(words & other_words) >= _NEAR * len(words | other_words) for words, other_words in words
    )


def section_at(text: PromptText, anchor: Anchor) -> tuple[int, MessageSection]:
    """The message with the section below a line, and its place in there."""
    if anchor.message is None:
        return Replaceable(section=anchor.line).locate(text.messages)
    if anchor.message not in range(len(text.messages)):
        raise SectionError(f"the prompt has no message {anchor.message}")
    return anchor.message, section_below(text.messages[anchor.message].content, anchor.line)


def section_text(text: PromptText, index: int, place: MessageSection) -> str:
    """The text of a section without its heading or tags and surrounding blank lines."""
    return "\n".join(text.messages[index].content.split("\n")[place.first : place.end])


def _with_section(text: PromptText, ops: Sequence[Op]) -> PromptText:
    """The text with another section below the same heading or between the same tags."""
    op, *other_ops = ops
    if other_ops or not isinstance(op, ReplaceSection):
        raise EditError("a section is replaced by an edit that does nothing else")
    try:
        index, place = section_at(text, op.anchor)
        lines = text.messages[index].content.split("\n")
        lines[place.first : place.end] = op.text.split("\n")
        after = text.with_content(index, "\n".join(lines))
    except SectionError as error:
        raise EditError(str(error)) from error
    try:
        stays_inside = section_text(after, *section_at(after, op.anchor)) == op.text
    except SectionError:
        stays_inside = False
    fences = [line for line in op.text.split("\n") if line.lstrip().startswith(("```", "~~~"))]
    # A code block that is not closed takes in what follows.
    if not stays_inside or len(fences) % 2:
        raise EditError(f"the new text of {op.anchor.line!r} would not stay inside the section")
    return after


def _line(text: PromptText, anchor: Anchor) -> Line:
    """The line of an anchor: by its whole text, else without outer white space."""
    lines = [
        line for line in text.lines if anchor.message is None or line.message == anchor.message
    ]
    exact = [line for line in lines if line.text == anchor.line]
    if not exact and anchor.line.strip():
        stripped = anchor.line.strip()
        exact = [line for line in lines if line.text.strip() == stripped]
    if not exact:
        raise EditError(f"no line of the prompt is {anchor.line!r}")
    if anchor.occurrence is not None:
        if not 0 <= anchor.occurrence < len(exact):
            raise EditError(f"there is no occurrence {anchor.occurrence} of {anchor.line!r}")
        exact = [exact[anchor.occurrence]]
    if len(exact) > 1:
        raise EditError(f"{len(exact)} lines of the prompt are {anchor.line!r}")
    return exact[0]


def _replaced_lines(old: str, op: Replace) -> list[str]:
    if not op.find:
        return op.text.split("\n")
    if old.count(op.find) != 1:
        raise EditError(f"{op.find!r} occurs {old.count(op.find)} times in {old!r}, not once")
    return old.replace(op.find, op.text).split("\n")


def _message_blocks(index: int, old: list[str], new: list[str]) -> Iterator[list[Op]]:
    occurrences = [old[:number].count(text) for number, text in enumerate(old)]

    def anchor(number: int) -> Anchor:
        # Blank lines also match by their white space, so their place among all blanks is unsure.
        return Anchor(old[number], occurrences[number], index)

    matcher = difflib.SequenceMatcher(a=old, b=new, autojunk=False)
    for tag, a_from, a_to, b_from, b_to in matcher.get_opcodes():
        if tag == "equal":
            continue
        shared = min(a_to - a_from, b_to - b_from)
        ops: list[Op] = [Replace(anchor(a_from + n), new[b_from + n]) for n in range(shared)]
        ops += [Delete(anchor(number)) for number in range(a_from + shared, a_to)]
        extra_lines = new[b_from + shared : b_to]
        if extra_lines and a_from + shared > 0:
            ops += [Insert(anchor(a_from + shared - 1), text, "after") for text in extra_lines]
        else:
            ops += [Insert(anchor(0), text, "before") for text in extra_lines]
        yield ops


_RE = Lexicon("regauge.refine", "changes")

# The least similarity of a lost clause to another one of its sentence.
_RECAST = 0.5
# A shorter beginning of a statement may begin another one.
_CUT_OFF_MIN = 12
# A renaming changes no more words than these in one statement.
_RENAMED_MAX = 3


Unit: TypeAlias = "list[tuple[int, AtomChange]]"
"""One change as a user counts it: a moved step, a new example, a renamed key."""


def comparisons(before: PromptText, after: PromptText) -> tuple[TextComparison, ...]:
    """Comparisons of two texts, message by message."""
    return tuple(compare(was, now) for was, now in zip(before.trees, after.trees, strict=True))


def renumber_text(before: PromptText, after: PromptText) -> PromptText:
    """A later text with its numbers and references in order."""
    for index, tree in enumerate(before.trees):
        after = after.with_content(index, renumber(tree, after.messages[index].content))
    return after


def edit_between(edit: Edit, before: PromptText, after: PromptText) -> Edit:
    """An edit with the operations that lead to another text."""
    return replace(edit, ops=ops_between(before, after))


def rule_edit(before: PromptText, after: PromptText, strategy: str, reason: str) -> Edit:
    """An edit without a model that leads from one text to another."""
    ops = ops_between(before, after)
    return Edit(ops=ops, strategy=strategy, proposer="rules", rationale=reason)


def merge_changes(base: PromptText, first: PromptText, other: PromptText) -> PromptText:
    """A text with the changes that two texts make to the same one.

    Raises:
        MergeError: Both change the same place.
    """
    for index, trees in enumerate(zip(base.trees, first.trees, other.trees, strict=True)):
        base = base.with_content(index, merge(*trees))
    return base


def units_of(before: PromptText, after: PromptText) -> list[Unit]:
    """The changes between two texts as a user counts them, without renumbering."""
    return _units(comparisons(before, after))


def _units(pairs: Sequence[TextComparison]) -> list[Unit]:
    groups: dict[object, Unit] = {}
    for index, comparison in enumerate(pairs):
        group_keys = _recast(index, comparison)
        for change in comparison.changes:
            key = _key(index, comparison, change)
            if (old := comparison.replaced_by_added.get(id(change))) and change.kind == "added":
                # A replacement belongs to the replaced change.
                group_keys.setdefault(key, _key(index, comparison, old))
            groups.setdefault(group_keys.get(key, key), []).append((index, change))
    return [*groups.values()]


def _only_removes(unit: Unit) -> bool:
    return all(change.kind == "removed" for _, change in unit)


def without_losses(before: PromptText, after: PromptText) -> PromptText:
    """A later text with the layout and the lost statements of the text before.

    A text that only loses statements stays as it is.
    """
    pairs = comparisons(before, after)
    changes = [change for unit in _units(pairs) if not _only_removes(unit) for change in unit]
    return _compose(before, pairs, changes) if changes else after


def parts_of(before: PromptText, after: PromptText) -> Iterator[PromptText]:
    """Texts with one of several changes each, or only with what it adds; without mere losses."""
    pairs = comparisons(before, after)
    units = _units(pairs)
    for unit in units:
        if len(units) > 1 and not _only_removes(unit):
            yield _compose(before, pairs, unit)
        if any(change.was and change.was.kind == "clause" for _, change in unit):
            continue  # a sentence that was written again is one change
        added_changes = [entry for entry in unit if entry[1].kind == "added"]
        if 0 < len(added_changes) < len(unit):
            yield _compose(before, pairs, added_changes)


def reductions(
    before: PromptText, after: PromptText, *, keep_blocks: bool = False
) -> Iterator[PromptText]:
    """Texts without some of several changes: half of them, a quarter, and so on to single ones.

    Args:
        before: The text before.
        after: The text with all changes.
        keep_blocks: Count new statements that follow each other as one change.
    """
    pairs = comparisons(before, after)
    units = _units(pairs)
    if keep_blocks:
        units = _join_blocks(pairs, units)
    size = (len(units) + 1) // 2 if len(units) > 1 else 0
    while size:
        for start in range(0, len(units), size):
            rest = units[:start] + units[start + size :]
            yield _compose(before, pairs, [change for unit in rest for change in unit])
        size //= 2


def _join_blocks(pairs: Sequence[TextComparison], units: Sequence[Unit]) -> list[Unit]:
    """Units whose new statements follow each other as one; what is only removed stays apart."""
    places = {
        id(atom): (index, number)
        for index, pair in enumerate(pairs)
        for number, atom in enumerate(pair.after.atoms)
    }
    removals = [unit for unit in units if _only_removes(unit)]
    blocks: list[tuple[set[tuple[int, int]], Unit]] = []
    for unit in (unit for unit in units if not _only_removes(unit)):
        spots = {places[id(change.now)] for _, change in unit if change.now is not None}
        around = {(index, n + step) for index, n in spots for step in (-1, 1)}
        touching = [block for block in blocks if block[0] & around]
        blocks = [block for block in blocks if block not in touching]
        for block_spots, block_unit in touching:
            spots, unit = spots | block_spots, [*block_unit, *unit]  # noqa: PLW2901
        blocks.append((spots, unit))
    return [*(unit for _, unit in blocks), *removals]


def restates(statement: str, other: str) -> bool:
    """Return whether a statement is another one with other values, or its whole where that is cut.

    >>> restates("Use at most 15 words.", "Use at most 150 words.")
    True
    >>> restates("Keep `reason` to 15 words.", "Keep `title` to 15 words.")
    False
    """
    new, old = normalise(statement), normalise(other)
    is_whole = len(old) >= _CUT_OFF_MIN and new.startswith(old)
    return new != old and (is_whole or _RE.value.sub("#", new) == _RE.value.sub("#", old))


def headless(before: PromptText, after: PromptText) -> str:
    """A heading that is taken away from statements that stay; empty without one."""
    for comparison in comparisons(before, after):
        tree = comparison.before
        kinds = {id(change.was): change.kind for change in comparison.changes if change.was}
        if any(c.kind == "added" and c.now and c.now.kind == "heading" for c in comparison.changes):
            continue  # it has another one
        for heading in tree.nodes("heading"):
            title = tree.text_of(heading).strip()
            if kinds.get(id(heading)) == "removed" and any(
                id(atom) not in kinds and tree.heading(atom) == title for atom in tree.atoms
            ):
                return title
    return ""


def miscounted(before: PromptText, after: PromptText) -> str:
    """A number or ordinal that no longer counts up, of steps outside a list; empty for none."""
    for was, now in zip(before.messages, after.messages, strict=True):
        old, new = _step_labels(was.content), _step_labels(now.content)
        for family, labels in new.items():
            counts_up = len(old.get(family, ())) > 1 and not _first_gap(old[family])
            if counts_up and (label := _first_gap(labels)):
                return label
    return ""


def _step_labels(text: str) -> dict[str, list[tuple[int, str]]]:
    """The numbers of steps outside a list, by form, each with its text."""
    families: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
    for match in _RE.counted.finditer(text):
        label = match[0].strip(" \t*-•")
        if word := match["ordinal"]:
            for number, words in enumerate(_RE.entry("ordinals")):
                names = words.split()
                # "One" alone is not a number of a step.
                if word.casefold() in names and (match["step"] or names[0] not in {"one", "eins"}):
                    form = f"{(match['step'] or '').casefold()}{number}"
                    families[form].append((names.index(word.casefold()) + 1, label))
        elif match["part"]:
            above = match["part"].partition(".")[0]
            families[f"{above}."].append((int(match["below"]), label))
        else:
            form = next(name for name in ("hash", "dash", "inline") if match[name])
            families[form].append((int(match[form]), label))
    return families


def _first_gap(labels: Sequence[tuple[int, str]]) -> str:
    """The first label that neither follows the one before nor begins again at 1."""
    last = 0
    for number, label in labels:
        if number not in {last + 1, 1}:
            return label
        last = number
    return ""


def left_open(before: PromptText, after: PromptText) -> str:
    """A tag or fence that is open in a later text only; empty without one."""
    for was, now in zip(before.messages, after.messages, strict=True):
        old, new = _balance(was.content), _balance(now.content)
        closed = [name for end, name in _RE.tag.findall(was.content) if end and not old[name]]
        for mark in ("```", *closed):
            if new[mark] and not old[mark]:
                return mark if mark == "```" else f"<{mark}>"
    return ""


def bared_input(before: PromptText, after: PromptText) -> str:
    """An input that is no longer in a tag, with the tag, in words; empty for none."""
    for was, now in zip(before.messages, after.messages, strict=True):
        tags_now = _tags_around_inputs(now.content)
        for slot, tags in _tags_around_inputs(was.content).items():
            if lost_tags := tags - tags_now.get(slot, tags):
                return f"{slot} out of <{min(lost_tags)}>"
    return ""


def _tags_around_inputs(text: str) -> dict[str, set[str]]:
    """The tags that are open where each input first is."""
    tags: dict[str, set[str]] = {}
    for slot in _RE.slot.finditer(text):
        balance = _tag_balance(text[: slot.start()])
        tags.setdefault(slot[0], {name for name, number in balance.items() if number > 0})
    return tags


def torn_block(before: PromptText, after: PromptText) -> str:
    """The table or data block that an edit tears, by its kind; empty without one."""
    for was, now in zip(before.messages, after.messages, strict=True):
        if _odd_rows(now.content) > _odd_rows(was.content):
            return "a table"
        old, new = (
            [_is_readable(*block.group("kind", "body")) for block in _BLOCK.finditer(text)]
            for text in (was.content, now.content)
        )
        if len(old) == len(new) and any(
            first > second for first, second in zip(old, new, strict=True)
        ):
            return "a block of data"
    return ""


def _odd_rows(text: str) -> int:
    """The number of tables without a header, and of rows unlike the first of their table."""
    number = 0
    for is_table, lines in groupby(text.split("\n"), lambda line: line.lstrip().startswith("|")):
        if is_table:
            rows = [line.replace(r"\|", "").strip().strip("|") for line in lines]
            has_header = len(rows) > 1 and _RULE_OF_TABLE.fullmatch(rows[1]) is not None
            number += sum(row.count("|") != rows[0].count("|") for row in rows)
            number += not has_header
    return number


def _is_readable(kind: str, body: str) -> bool:
    """Return whether a fenced block parses as data of its kind."""
    readers = {"json": json.loads, "toml": tomllib.loads}
    try:
        readers.get(kind.lower(), compose_document)(_RE.slot.sub("0", textwrap.dedent(body)))
    except (ValueError, YamlError):
        return False
    return True


def _balance(text: str) -> Counter[str]:
    """The number of tags without an end by name, and of fences without an end."""
    balance = _tag_balance(text)
    balance["```"] = sum(line.lstrip().startswith("```") for line in text.split("\n")) % 2
    return balance


def _tag_balance(text: str) -> Counter[str]:
    """The number of tags without an end, by name."""
    balance = Counter[str]()
    for end, name in _RE.tag.findall(text):
        balance[name] += -1 if end else 1
    return balance


def changed_lines(before: PromptText, after: PromptText) -> tuple[str, str]:
    """The lines that are only in the text after, and those that are only in the text before."""
    old, new = ([line.text for line in text.lines] for text in (before, after))
    old_lines, new_lines = set(old), set(new)
    added_lines = [line for line in new if line not in old_lines]
    removed_lines = [line for line in old if line not in new_lines]
    return "\n".join(added_lines), "\n".join(removed_lines)


def changed_texts(before: PromptText, after: PromptText) -> tuple[list[str], list[str]]:
    """The added or reworded statements of a later text, and the removed or reworded ones."""
    pairs = comparisons(before, after)
    added_texts = [statement for pair in pairs for statement in pair.added_texts]
    return added_texts, [statement for pair in pairs for statement in pair.removed_texts]


def changed_statements(before: PromptText, after: PromptText) -> tuple[str, str]:
    """The same statements, line by line."""
    added_texts, removed_texts = changed_texts(before, after)
    return "\n".join(added_texts), "\n".join(removed_texts)


def changed_places(before: PromptText, after: PromptText) -> str:
    """The headings with new statements in a later text."""
    places = {
        f"{index} {comparison.after.heading(change.now)}"
        for index, comparison in enumerate(comparisons(before, after))
        for change in comparison.changes
        if change.now is not None
    }
    return "\n".join(sorted(places))


def lost_statements(before: PromptText, after: PromptText) -> list[list[str]]:
    """The statements that a later text does not have, moved or reworded, by their sentences."""
    pairs = comparisons(before, after)
    statement_counts = Counter(
        _statement_text(comparison.after, atom)
        for comparison in pairs
        for atom in comparison.after.atoms
    )
    sentences: dict[int, list[str]] = defaultdict(list)
    for comparison in pairs:
        tree = comparison.before
        for change in comparison.changes:
            if (
                change.was is not None
                and change.kind == "removed"
                and change.was.kind != "heading"  # alone it states nothing
                and not statement_counts[_statement_text(tree, change.was)]
            ):
                sentence = tree.parent(change.was) if change.was.kind == "clause" else None
                sentences[id(sentence or change.was)].append(tree.text_of(change.was))
    return [*sentences.values()]


def count_lost_words(before: PromptText, after: PromptText) -> int:
    """The number of lost words of deleted and reworded statements."""
    words = sum(count_words(text) for texts in lost_statements(before, after) for text in texts)
    for comparison in comparisons(before, after):
        for change in comparison.changes:
            if change.kind == "reworded" and change.was and change.now:
                old, new = comparison.old_text(change), comparison.new_text(change)
                if not restates(new, old):  # a corrected value is not a loss
                    words += (_tokens(old) - _tokens(new)).total()
    return words


def _statement_text(tree: Tree, atom: Node) -> str:
    """The text of an atom without its numbers, which differ in a repeated list."""
    return re.sub(r"\d+", "#", normalise(tree.text_of(atom)))


def _tokens(text: str) -> Counter[str]:
    return Counter(_RE.token.findall(text.casefold()))


def _key(index: int, comparison: TextComparison, change: AtomChange) -> object:
    """The common property of changes of one unit: block, renaming or inputs."""
    was, now = comparison.old_text(change), comparison.new_text(change)
    if change.kind != "moved" and sorted(_RE.slot.findall(was)) != sorted(_RE.slot.findall(now)):
        return "inputs"
    if change.kind == "reworded":
        renamed = _rename(was, now)
        return ("renamed", *renamed) if renamed else id(change)
    tree, atom = comparison.after, change.now
    if change.kind == "removed":
        tree, atom = comparison.before, change.was
    if change.kind == "moved" or atom is None:
        return id(change)
    return change.kind, index, id(_block(tree, atom, _fresh(comparison, change.kind)))


def _rename(was: str, now: str) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """The few words that a statement loses and gains; None for many."""
    old, new = _tokens(was) - _tokens(now), _tokens(now) - _tokens(was)
    if 0 < old.total() <= _RENAMED_MAX and new.total() <= _RENAMED_MAX:
        return tuple(sorted(old.elements())), tuple(sorted(new.elements()))
    return None


def new_statements(
    before: PromptText, after: PromptText, is_known: Callable[[str], bool]
) -> Iterator[str]:
    """The added or reworded statements of a later text, without those that gain a few known words.

    A corrected label or unit is not a new statement, whatever it is next to.
    """
    for comparison in comparisons(before, after):
        for change in comparison.changes:
            if change.now is None or change.kind == "moved":
                continue
            now = comparison.new_text(change)
            renamed = _rename(comparison.old_text(change), now) if change.was else None
            if renamed is None or not is_known(" ".join(renamed[1])):
                yield now


def _recast(index: int, comparison: TextComparison) -> dict[object, object]:
    """The common keys of changes in a sentence that is new, gone or exchanges words, by own keys.

    These changes depend on each other.
    """
    unit_keys: dict[object, object] = {}
    old, new = comparison.before, comparison.after
    clauses = [
        change
        for change in comparison.changes
        if "clause" in {n.kind for n in (change.was, change.now) if n}
    ]
    for clause, other in product(clauses, clauses):
        if (
            clause.was
            and clause.kind == "removed"
            and other.now
            and other.kind != "moved"
            and alike(old.text_of(clause.was), new.text_of(other.now)) >= _RECAST
        ):
            around = old.parent(clause.was), new.parent(other.now)
            same_places = [
                _key(index, comparison, change)
                for change in clauses
                if (change.was and comparison.before.parent(change.was) is around[0])
                or (change.now and comparison.after.parent(change.now) is around[1])
            ]
            unit_keys |= dict.fromkeys(same_places, same_places[0])
    # Nothing of these sentences stays as it is; where clauses are only lost, they are not part.
    old_sentences = (
        (s, [c for c in clauses if c.was in s.children]) for s in old.nodes("sentence")
    )
    new_sentences = (
        (s, [c for c in clauses if c.now in s.children]) for s in new.nodes("sentence")
    )
    for sentence, own_changes in (
        *(pair for pair in old_sentences if {c.kind for c in pair[1]} == {"moved", "removed"}),
        *(pair for pair in new_sentences if {c.kind for c in pair[1]} == {"reworded", "added"}),
    ):
        if len(own_changes) == sum(child.kind == "clause" for child in sentence.children):
            homes = [old.parent(c.was) for c in own_changes if c.was and c.now]
            lost_clauses = [
                c for c in clauses if c.was and not c.now and old.parent(c.was) in homes
            ]
            own_keys = [_key(index, comparison, change) for change in (*own_changes, *lost_clauses)]
            unit_keys |= dict.fromkeys(own_keys, unit_keys.get(own_keys[0], own_keys[0]))
    return unit_keys


def _fresh(comparison: TextComparison, kind: str) -> set[int]:
    return {
        id(change.now if kind == "added" else change.was)
        for change in comparison.changes
        if change.kind == kind
    }


def _block(tree: Tree, atom: Node, fresh: set[int]) -> Node:
    """The largest new node around an atom; two tags belong together."""
    parent = tree.parent(atom)
    if atom.kind == "tag" and parent is not None and parent.kind == "block":
        return parent
    enclosing = atom
    atoms = {id(node) for node in tree.atoms}
    for above in reversed(tree.path(atom)):
        inner_atoms = {id(node) for node in above.walk() if id(node) in atoms}
        if above.kind == "text" or not inner_atoms <= fresh:
            break
        enclosing = above
    return enclosing


def _compose(
    before: PromptText, pairs: Sequence[TextComparison], changes: Sequence[tuple[int, AtomChange]]
) -> PromptText:
    text = before
    for index, comparison in enumerate(pairs):
        own_changes = [change for message, change in changes if message == index]
        if own_changes:
            text = text.with_content(index, comparison.compose(own_changes))
    return text


@dataclass(frozen=True, slots=True)
class RulePlace:
    """A place for a rule: next to an entry of a list, or after a sentence.

    Attributes:
        words: The words of the section.
        side: After the entry, or before it.
    """

    message: int
    node: Node
    heading: str
    words: frozenset[str]
    side: Literal["after", "before"] = "after"


def rule_places(text: PromptText) -> list[RulePlace]:
    """The places of a prompt: the last entries of its lists, or else its last sentences."""
    has_lists = any(True for tree in text.trees for _ in _lists(tree))
    by_heading: dict[tuple[int, str], RulePlace] = {}
    for index, tree in enumerate(text.trees):
        nodes = _lists(tree) if has_lists else _sentences(tree)
        for node in nodes:
            heading = tree.heading(node)
            home = by_heading.get((index, heading))
            words = content_words(f"{heading} {tree.text_of(tree.parent(node) or node)}")
            words |= home.words if home else frozenset()
            by_heading[index, heading] = RulePlace(index, node, heading, words)
    return list(by_heading.values())


def steps_for(text: PromptText, home: RulePlace, rule: str) -> list[RulePlace]:
    """Further places in a numbered list, where order counts: its start, and the step for the rule.

    That step is the first entry with common words.
    """
    tree = text.trees[home.message]
    above = tree.parent(home.node)
    if home.node.kind != "entry" or above is None or not tree.text_of(home.node)[0].isdigit():
        return []
    entries = [child for child in above.children if child.kind == "entry"]
    about = content_words(rule)
    needing = (entry for entry in entries if content_words(tree.text_of(entry)) & about)
    entries_found = dict.fromkeys((next(needing, entries[0]), entries[0]))
    return [replace(home, node=entry, side="before") for entry in entries_found]


def with_rule(text: PromptText, home: RulePlace, rule: str) -> PromptText:
    r"""The text with a rule in a place, written as its neighbours are.

    >>> from regauge.refine.edits import PromptText
    >>> text = PromptText.from_contents("# Rules\n1. Be brief.\n2. Use JSON.\n\n{{input}}")
    >>> with_rule(text, rule_places(text)[0], "- Be kind.").messages[0].content
    '# Rules\n1. Be brief.\n2. Use JSON.\n3. Be kind.\n\n{{input}}'
    """
    tree, node = text.trees[home.message], home.node
    bare = _bare_rule(rule)
    if node.kind == "entry":
        return text.with_content(home.message, insert(tree, node, bare, home.side))
    # Where sentences have lines of their own, so has the rule.
    start = tree.text.rfind("\n", 0, node.start) + 1
    indent = tree.text[start : node.start]
    ends = tree.text[node.end : node.end + 1] in {"", "\n"}
    inline = not ends or bool(indent.strip())
    joint = " " if inline else f"\n{indent}"
    content = tree.text[: node.end] + joint + bare + tree.text[node.end :]
    return text.with_content(home.message, content)


def find_rule(text: PromptText, rule: str) -> list[tuple[int, Node]]:
    """The statements of a prompt that state a rule; empty unless all of it is there."""
    required = statement_words(parse(_bare_rule(rule)))
    places: dict[str, tuple[int, Node]] = {}
    for index, tree in enumerate(text.trees):
        places |= {words: (index, node) for words, node in statement_words(tree).items()}
    return (
        [places[words] for words in required]
        if required and required.keys() <= places.keys()
        else []
    )


def statement_words(tree: Tree) -> dict[str, Node]:
    """The statements of a text by their words; an entry of `label: a, b` also with the label."""
    nodes: dict[str, Node] = {}
    for node in tree.statements:
        nodes.setdefault(normalise(tree.text_of(node)), node)
        sentence = tree.parent(node)
        if node.kind == "clause" and sentence is not None and sentence.children[0].kind == "gap":
            label = tree.text_of(sentence.children[0])
            nodes.setdefault(normalise(label + tree.text_of(node)), node)
    return nodes


def _lists(tree: Tree) -> list[Node]:
    """The last entries of lists of instructions, without footnotes and nested lists."""
    return [
        node.children[-1]
        for node in tree.nodes("list")
        if not tree.is_data(node)
        and all(above.kind != "entry" for above in tree.path(node))
        and "{{" not in tree.text_of(node.children[-1])
        and not tree.text_of(node).startswith("[^")
    ]


def _sentences(tree: Tree) -> list[Node]:
    return [
        node
        for node in tree.nodes("sentence")
        if not tree.is_data(node)
        and "{{" not in tree.text_of(node)
        and len(content_words(tree.text_of(node))) > 1
    ]


def _bare_rule(rule: str) -> str:
    tree = parse(rule.strip())
    marker = next(tree.nodes("marker"), None)
    return tree.text if marker is None or marker.start else tree.text[marker.end :].strip()
