# ruff: noqa: E501, RUF001 - a prompt and its faults, one to a line
"""Minutes of meetings in Japanese: headings, bullets without spaces, several sentences to a line."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from benchmarks.refine_tasks._written import Add, Drop, Rule, Say, Swap, WrittenTask, rate_of

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["TASK"]

TEXT = """\
あなたは製造会社の総務部で会議の議事録をまとめる担当者です。読者は会議に出席していない社員です。

【形式】
・決定事項は最大5件の箇条書きにしてください。
・日付は必ず西暦で書いてください。
・文体は「です・ます」調です。
・見出しには番号を付けません。
・要約は200字以内にしてください。
・会議名はそのまま写してかまいません。

【内容】
発言者の個人名は役職名に置き換えてください。途中で退席した人も出席者に含まれます。未決の事項は「保留」と書いてください。議題の順番は会議のとおりです。
金額は税抜きで記載してください。社外の会社名は略さずに書きます。

【分類】
・「重要」は安全に関わる議題です。
・「通常」は予算に関わる議題です。
・「参考」はそれ以外の議題です。
・分類は議題ごとに一つだけ付けてください。
・雑談は議題として扱いません。

【出力】
最後の行に次回の会議日を書いてください。推測した内容は書かないでください。録音の雑音については触れません。

議事メモ：{{memo}}
"""
_HEDGES = r"なるべく|できれば|可能なら|場合によって"


def _classes(rule: Rule, prompt: str, units: Sequence[str]) -> float:
    """The definitions count as they stand under their heading, each once."""
    rate = rate_of(rule, units, _HEDGES)
    wrong = re.search(r"「重要」は予算|「通常」は安全", prompt)
    return min(rate, 0.15) if wrong else rate


def _beside(rule: Rule, prompt: str, units: Sequence[str]) -> float:
    rate = rate_of(rule, units, _HEDGES)
    return min(rate, 0.35) if _SPOILER in prompt and "会議名はそのまま" in prompt else rate


_SPOILER = "原文の表記をすべて優先します。"
_MAX = "決定事項は最大5件の箇条書きにしてください。"
_YEAR = "日付は必ず西暦で書いてください。"
_SUMMARY = "要約は200字以内にしてください。"
_NAMES = "発言者の個人名は役職名に置き換えてください。"
_OPEN = "未決の事項は「保留」と書いてください。"
_TAX = "金額は税抜きで記載してください。"
_SAFE = "「重要」は安全に関わる議題です。"
_BUDGET = "「通常」は予算に関わる議題です。"
_ONE = "分類は議題ごとに一つだけ付けてください。"
_NEXT = "最後の行に次回の会議日を書いてください。"
_GUESS = "推測した内容は書かないでください。"

RULES = (
    Rule(
        name="decisions",
        line=_MAX,
        needs=(r"決定事項", r"最大5件"),
        against=(r"最大(?!5件)\d+件|すべて文章",),
        absent=0.3,
        reason="決定事項が5件を超えている",
        advice=_MAX,
        faults={
            "drop": Drop(),
            "number": Say("決定事項は最大15件の箇条書きにしてください。"),
            "soften": Say("決定事項はなるべく最大5件の箇条書きにしてください。"),
        },
    ),
    Rule(
        name="year",
        line=_YEAR,
        needs=(r"日付", r"西暦で書いて"),
        against=(r"和暦で",),
        absent=0.35,
        reason="日付が西暦ではない",
        advice=_YEAR,
        rate=_beside,
        faults={
            "drop": Drop(),
            "negate": Say("日付は必ず和暦で書いてください。"),
            "interact": Add(_SPOILER, "会議名はそのまま写してかまいません。"),
        },
    ),
    Rule(
        name="summary",
        line=_SUMMARY,
        needs=(r"要約", r"200字以内"),
        against=(r"要約は(?!200字以内)\d+字|200行",),
        absent=0.25,
        reason="要約が200字を超えている",
        advice=_SUMMARY,
        faults={
            "drop": Drop(),
            "number": Say("要約は2000字以内にしてください。"),
            "unit": Say("要約は200行以内にしてください。"),
            "soften": Say("要約はできれば200字以内にしてください。"),
        },
    ),
    Rule(
        name="names",
        line=_NAMES,
        needs=(r"個人名", r"置き換えてください"),
        against=(r"置き換えないで",),
        absent=0.2,
        reason="個人名が残っている",
        advice=_NAMES,
        faults={
            "drop": Drop(),
            "negate": Say("発言者の個人名は役職名に置き換えないでください。"),
            "soften": Say("発言者の個人名は可能なら役職名に置き換えてください。"),
        },
    ),
    Rule(
        name="open",
        line=_OPEN,
        needs=(r"未決", r"「保留」と書いて"),
        against=(r"未決の事項は(?:省い|「決定」)",),
        absent=0.15,
        reason="未決の事項に「保留」と書かれていない",
        advice=_OPEN,
        faults={
            "drop": Drop(),
            "negate": Say("未決の事項は省いてください。"),
            "wrong": Say("未決の事項は「決定」と書いてください。"),
        },
    ),
    Rule(
        name="tax",
        line=_TAX,
        needs=(r"金額", r"税抜き"),
        against=(r"税込み",),
        absent=0.3,
        reason="金額が税抜きではない",
        advice=_TAX,
        faults={
            "drop": Drop(),
            "negate": Say("金額は税込みで記載してください。"),
            "soften": Say("金額は場合によって税抜きで記載してください。"),
        },
    ),
    Rule(
        name="important",
        line=_SAFE,
        needs=(r"「重要」", r"安全"),
        absent=0.3,
        reason="安全の議題が「重要」ではない",
        advice=_SAFE,
        rate=_classes,
        faults={"drop": Drop(), "swapped": Swap("安全に関わる", "予算に関わる")},
    ),
    Rule(
        name="one",
        line=_ONE,
        needs=(r"分類", r"一つだけ"),
        against=(r"いくつでも",),
        absent=0.4,
        reason="一つの議題に分類が二つある",
        advice=_ONE,
        faults={
            "drop": Drop(),
            "negate": Say("分類は議題ごとにいくつでも付けてください。"),
            "replaced": Say("分類は一つの会議で変えません。"),
        },
    ),
    Rule(
        name="next",
        line=_NEXT,
        needs=(r"最後の行", r"次回の会議日"),
        against=(r"最初の行に次回|次回の会議日は書かない",),
        absent=0.15,
        reason="最後の行に次回の会議日がない",
        advice=_NEXT,
        faults={
            "drop": Drop(),
            "negate": Say("次回の会議日は書かないでください。"),
            "wrong": Say("最初の行に次回の会議日を書いてください。"),
        },
    ),
    Rule(
        name="guess",
        line=_GUESS,
        needs=(r"推測", r"書かない"),
        against=(r"推測した内容も書いて",),
        absent=0.45,
        reason="推測した内容が書かれている",
        advice=_GUESS,
        faults={"drop": Drop(), "negate": Say("推測した内容も書いてください。")},
    ),
)

TASK = WrittenTask(
    name="gijiroku",
    text=TEXT,
    rules=RULES,
    hedges=_HEDGES,
    units=r"(?<=。)|\n",
    closing=("議事メモ：{{memo}}",),
    fluff=(
        "丁寧に作業してください。",
        "落ち着いてよく考えてください。",
        "これはとても大切な仕事です。",
        "最後にもう一度確認してください。",
    ),
    golden=lambda number, _, token: f"部長：{300 + 17 * number}万円、保留、整理番号{token[:6]}",
    text_of=lambda case, _, token: f"メモ{case} 整理番号{token}",
)
