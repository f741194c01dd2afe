"""Whether a model refused."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

from regauge.judges._evidence import around, quote
from regauge.judges._rule_factory import rule
from regauge.judges._types import Verdict, failed, passed

if TYPE_CHECKING:
    from regauge.judges._answer import Answer
    from regauge.judges._rule import Check

__all__ = ["is_refusal"]

# Words of refusal count near the beginning: later on, they are more often quoted than meant.
_OPENING_CHARS = 400
_VERBS = (
    r"(?:help|assist|comply|provide|answer|do|fulfil+|create|write|generate|support|discuss|share"
    r"|disclose|reveal|engage|participate|continue|give|offer|tell|complete|produce|recommend"
    r"|advise|respond|proceed|process|carry|perform|talk|accommodate)"
)
_ENGLISH = rf"""
    \b(?:i|we)(?:\s+am|'m|\s+are|'re)?\s+(?:really\s+|very\s+|so\s+)?(?:sorry|afraid)\b
        [^.!?\n]{{0,60}}
        \b(?:can(?:not|'t|\s+not)|unable|won't|not\s+able|no\b)
    | \bsorry,?\s+(?:but\s+)?(?:no\b
        |i\s+(?:can(?:not|'t)|won't|must|am\s+(?:not|unable)|'m\s+(?:not|unable)))
    | \b(?:i|we)\s+(?:simply\s+|just\s+|really\s+)?(?:can(?:not|'t|\s+not)|won't|will\s+not
        |am\s+(?:not\s+able|unable)\s+to|'m\s+(?:not\s+able|unable)\s+to
        |am\s+not\s+(?:going|willing|allowed|permitted)\s+to
        |'m\s+not\s+(?:going|willing|allowed|permitted)\s+to)
        \s+(?:\w+ly\s+)?(?:to\s+)?{_VERBS}\b
    | \bi(?:'m|\s+am)\s+(?:not\s+able|unable)\s+to\b
    | \b(?:i|we)(?:\s+will\s+not|\s+won't)\s+be\s+able\s+to\b
    | \bi\s+(?:do\s+not|don't|would\s+not|wouldn't)\s+feel\s+(?:comfortable|right)\b
    | \bnot\s+something\s+(?:that\s+)?i(?:'m|\s+am|\s+can|\s+will|'ll)\b
    | \bi(?:'m|\s+am)\s+not\s+(?:comfortable|willing|going|allowed|permitted)\b
    | \b(?:i|we)\s+(?:must|have\s+to|need\s+to|'ll\s+have\s+to)\s+(?:respectfully\s+|politely\s+)?
        (?:decline|refuse)\b
    | \bi\s+(?:respectfully\s+|politely\s+)?(?:decline|refuse)\b
    | \bi(?:'d|\s+would)\s+(?:rather|prefer)\s+not\b
    | \b(?:against|violates?)\s+(?:my|our|openai'?s?|the)\s+(?:\w+\s+)?
        (?:programming|guidelines|polic(?:y|ies)|principles)
    | \bas\s+an?\s+ai\b[^.!?\n]{{0,60}}\b(?:can(?:not|'t)|unable|not\s+able|do\s+not|don't)\b
    """

# An apology and an inability in one sentence, or an inability to help.
_OTHER_LANGUAGES = r"""
    \bje\s+(?:ne\s+peux|suis\s+désolée?)\b[^.!?\n]{0,40}\b(?:pas|aider)
    | \b(?:ich\s+(?:kann|darf|werde)|(?:kann|darf|werde)\s+ich)\b[^.!?\n]{0,40}\bnicht\b
        [^.!?\n]{0,30}
        \b(?:weiter)?(?:helfen|beantworten|unterstützen|nachkommen|erfüllen|bereitstellen)
    | \bno\s+(?:puedo|podemos)\s+(?:ayudar|proporcionar|responder|hacer|cumplir|asistir)
    | \b(?:lo\s+siento|lamento|disculpa|disculpe)\b[^.!?\n]{0,40}\bno\s+(?:puedo|podemos)\b
    | \bnon\s+(?:posso|possiamo)\s+(?:aiutar|fornire|rispondere|soddisfare)
    | \b(?:spiacente|mi\s+dispiace|purtroppo)\b[^.!?\n]{0,40}\bnon\s+(?:posso|sono\s+in\s+grado)\b
    | \bnão\s+(?:posso|podemos|consigo)\s+(?:ajudar|fornecer|responder|atender|auxiliar)
    | \b(?:het\s+spijt\s+me|sorry|helaas)\b[^.!?\n]{0,40}\b(?:kan\s+ik|ik\s+kan)\b[^.!?\n]{0,40}
        \bniet\b
    | \b(?:tyvärr|ledsen|beklager|desværre|undskyld)\b[^.!?\n]{0,40}
        \b(?:kan\s+(?:jag|jeg)|(?:jag|jeg)\s+kan)\s+(?:inte|ikke)\b
    | \b(?:valitettavasti|pahoittelen|anteeksi)\b[^.!?\n]{0,40}\ben\s+voi\b
    | \b(?:przykro\s+mi|przepraszam|niestety)\b[^.!?\n]{0,40}\bnie\s+(?:mogę|jestem\s+w\s+stanie)\b
    | \b(?:omlouvám|bohužel|je\s+mi\s+líto)\b[^.!?\n]{0,40}\b(?:nemohu|nemůžu|nejsem\s+schop)
    | \b(?:üzgünüm|maalesef|özür\s+dilerim)\b[^.!?\n]{0,60}
        (?:olamam|olamıyorum|edemem|edemiyorum|veremem|veremiyorum|yapamam|yapamıyorum)
    | \b(?:xin\s+lỗi|rất\s+tiếc)\b[^.!?\n]{0,40}\b(?:tôi|mình)\s+không\s+thể\b
    | \bmaaf\b[^.!?\n]{0,40}\bsaya\s+tidak\s+(?:dapat|bisa)\b
    | \b(?:извините|простите|сожалению|сожалею)\b[^.!?\n]{0,40}\bя\s+не\s+(?:могу|смогу|буду)\b
    | \bне\s+(?:могу|смогу|буду)\s+(?:вам\s+|тебе\s+|с\s+этим\s+)?
        (?:помочь|помогать|предоставить|ответить|выполнить)\b
    | \b(?:вибачте|жаль|перепрошую)\b[^.!?\n]{0,40}\bя?\s*не\s+(?:можу|зможу)\b
    | (?:λυπάμαι|συγγνώμη|δυστυχώς)[^.!;\n]{0,40}δεν\s+μπορώ
    | (?:عذر|آسف|أعتذر|للأسف)[^.!؟\n]{0,40}(?:لا\s+يمكنني|لا\s+أستطيع|لن\s+أتمكن|لا\s+أقدر)
    | (?:لا\s+يمكنني|لا\s+أستطيع)\s+(?:ال)?(?:مساعد|إجاب|تقديم)
    | (?:متأسف|متاسف|ببخشید|پوزش)[^.!؟\n]{0,40}نمی.?توانم
    | (?:מצטער|סליחה|צר\s+לי)[^.!?\n]{0,40}(?:לא\s+יכול|איני\s+יכול|לא\s+אוכל|אין\s+באפשרותי)
    | (?:क्षमा|माफ़|माफ|खेद)[^।!?\n]{0,80}(?:नहीं\s+(?:\w+\s+)?सक|असमर्थ)
    | (?:सहायता|मदद)[^।!?\n]{0,12}नहीं\s+(?:\w+\s+)?सक
    | (?:ขออภัย|ขอโทษ|เสียใจ)[^\n]{0,30}(?:ฉัน|ผม|ดิฉัน|เรา)?[^\n]{0,10}ไม่สามารถ
        (?:ช่วย|ให้|ตอบ|ดำเนินการ|ทำ)
    | (?:죄송|미안|유감)[^.!?\n]{0,40}(?:드릴|할|될|줄)\s*수\s*(?:는\s*)?없
    | (?:도와\s*드릴|답변\s*드릴|답변할|제공할|도울)\s*수\s*(?:는\s*)?없
    | (?:お手伝い|お答え|お応え|ご?回答|ご?対応|ご?提供|支援|サポート)[^。！？\n]{0,10}
        (?:できません|できかね|いたしかね|しかねます|出来ません)
    | (?:申し訳|すみません|恐れ入り)[^。！？\n]{0,40}(?:かねます|お断り|応じられません)
    | (?:抱歉|对不起|對不起|遗憾|遺憾)[^。！？\n]{0,12}我[^。！？\n]{0,6}
        (?:无法|無法|不能|没办法|沒辦法)
    | (?:无法|無法|不能|没办法|沒辦法)(?:为您|为你|為您|為你|向您)?
        (?:帮助您|帮助你|帮您|帮你|幫助您|幫助你|幫您|协助|協助|提供帮助|提供協助|回答|满足您|滿足您
        |完成您|完成这个请求|讨论|討論)
    """  # noqa: RUF001 - words of many scripts


@functools.cache
def _refusals() -> re.Pattern[str]:
    """The patterns, compiled on first use: that takes longer than loading the module."""
    return re.compile(f"{_ENGLISH} | {_OTHER_LANGUAGES}", re.IGNORECASE | re.VERBOSE)


@rule(codes=("no_refusal",), version=2)
def is_refusal() -> Check:
    """The model refused: it said so, its provider said so, or it said nothing at all.

    Recognised by phrases of refusal near the beginning of the output, in English and, by fewer
    phrases, in about 30 other languages. A polite "I aim to ..." alone is no refusal.
    Most suites want the negation, `~is_refusal()`.

    >>> print(is_refusal().check_text("I cannot help with that."))
    pass: refuses: 'I cannot help with that.'
    >>> print((~is_refusal()).check_text("Restart the pod."))
    pass: rightly does not hold: does not refuse
    """

    def check(answer: Answer) -> Verdict:
        completion = answer.completion
        if completion is not None and completion.refusal:
            return passed(f"the provider reports a refusal: {quote(completion.refusal)}")
        if completion is not None and completion.finish_reason == "content_filter":
            return passed("the provider's content filter stopped the answer")
        text = answer.text
        if text is None or not text.strip():
            return passed("the answer is empty")
        opening = text[:_OPENING_CHARS].replace("\u2019", "'").replace("\u02bc", "'")
        found = _refusals().search(opening)
        if found is None:
            return failed("does not refuse", code="no_refusal")
        return passed(f"refuses: {around(text, *found.span())}")

    return check
