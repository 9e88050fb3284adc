"""Which sentences bind somebody: they demand, forbid or limit something, now.

A word of demand is not enough. *never* and *only* mostly describe ("the clock never decides"), what
was demanded in the past binds nobody, nor does what stands behind *if* or *because*, and an amount
limits something only if it has a number. Rules for each language, since the word list of one would
find wrong ones in another.
"""

from __future__ import annotations

import re

from ragstream_core.text.languages import language_of
from ragstream_core.text.memo import remembered

_PARTICIPLE = (
    r"(?:\w+ly )?(?:\w+ed|made|kept|shown|given|taken|read|set|run|sent|written|seen|built)"
)
_DIGITS = r"(?:\d|one|two|three|four|five|six|seven|eight|nine|ten|twelve|half|twice)"
_ENGLISH = re.compile(
    r"\bmust(?:n't)?\b(?! have (?:been|had))|\bshall\b|\b(?:cannot|can't|can not)\b"
    r"|\bmay (?:not|only|never)(?! (?:work|receive|get|see|know|find|exist|fit|match|want"
    r"|be (?:able|enough|true|suitable|ideal|the best))|[;,.])\b"
    r"|\bshould (?:return|raise|evaluate|be (?:raised|returned))\b"
    r"|\b(?:can|should|need|will) (?:only|never)\b|\bshould(?:n't| not| always)\b"
    r"|(?<!may )\b(?:has|have|needs?) to (?!do\b)|\brequires?\b|\bis mandatory\b|\bare mandatory\b"
    r"|\b(?:is|are|be) (?:\w+ly )?(?:not |never |only )?(?:required|allowed|permitted|forbidden"
    r"|prohibited|refused|rejected|limited to|restricted to|reserved for|deprecated|unsupported"
    r"|obligatory|illegal|invalid)\b|\b(?:isn't|aren't) (?:allowed|permitted|supported|valid)\b"
    r"|\brefuses\b|\b(?:does(?:n't| not)|do(?:n't| not)) (?:yet )?support\b"
    r"|\b(?:is|are) not (?:yet )?(?:allowed|permitted|supported|valid|accepted)\b"
    r"|\b(?:is|are|will be) (?:\w+ )?deprecated\b|\bdeprecated (?:since|in|as of)\b"
    r"|\b(?:is|are|be) never (?:read|changed|written|stored|sent|shared|used|deleted|removed"
    r"|overwritten|opened|exceeded|reused)\b"
    r"|\b(?:is|are|works?) only (?:possible|valid|available|allowed|supported|permitted|honou?red"
    r"|accepted|needed|captured)\b|\bonly (?:valid|available|allowed|supported|accessible|works?"
    r"|supports?|accepts?)\b"
    r"|\bonly (?:if|when|once|after|while|until|before|appl(?:y|ies))\b"
    r"|\bonly [^.;]{1,60}? (?:if|once(?! ?\W)|unless)\b"
    rf"|(?:^|[.;|] )\**only (?!in \d)[^.;,]{{1,60}}?\b(?:is|are|may|can|{_PARTICIPLE})\b"
    r"|(?:^|[.;|] )\**only (?:one|two|the) \w+(?: \w+){0,5}? (?:\w+s|may|can|at a time)\b"
    r"|(?:^|[.:;|] )\**(?:do(?: not|n't)|never|always|make sure|ensure) \w",
    re.IGNORECASE,
)
_AMOUNT = re.compile(
    rf"\b(?:at most|at least|no (?:more|less|fewer) than|not more than) (?:\w+ )?{_DIGITS}"
    rf"|\b(?:maximum|minimum|limit|quota|budget)s?(?: \w+)? (?:is|are|of|=|:) (?:\w+ )?{_DIGITS}"
    rf"|\blimited to (?:\w+ )?{_DIGITS}",
    re.IGNORECASE,
)
_TELLS = re.compile(
    r"\b(?:had to|must have|could (?:not|only)|(?:was|were|had been|been) (?:\w+ )?(?:never|only"
    r"|not|limited|required|forced|forbidden|refused|allowed|permitted|made)"
    r"|we (?:have to|must|cannot|can't|need to|never)|I (?:must|have to|cannot)"
    r"|(?:do|does|did)(?:n't| not) (?:have|need) to|need not|not only|ha(?:ve|s|d) never"
    r"|(?:when|if) [\w* ]{1,40} (?:is|are) required"
    r"|must be (?:noted|said)|cannot be (?:overstated|denied)|(?:that|which) (?:is|are) not"
    r"|(?:believ|argu|claim|preach|propos|suggest|consider|express|employ|assert)ed|held that"
    r"|they (?:may|might|can) not|if and only if"
    r"|(?:it|they|he|she|who) (?:cannot|can't|can not)"
    r"|(?:cannot|can't|can not) (?:see|know|tell|guess|list|help|get)"
    r"|(?:over|containing) at least \w+)\b",
    re.IGNORECASE,
)
_YEAR = re.compile(r"\b(?:in|before|after|from|during) (?:1[5-9]\d\d|20[01]\d)\b", re.I)

# Only both together tell of the past: 1500 may be milliseconds.
_PAST = re.compile(r"\b(?:was|were|had|did|could|would|became|began)\b", re.IGNORECASE)
_GERMAN = re.compile(
    r"(?<!niemand )\b(?:muss|müssen)\b(?! nicht\b)|\b(?:darf|dürfen)\b[^.;]{0,60}?"
    r"\b(?:nur|nicht|kein\w{0,2}|höchstens|nie(?:mals)?)\b"
    r"|\bnur\b[^.;]{1,60}?\b(?:zulässig|erlaubt|gestattet)\b"
    r"|\b(?:höchstens|mindestens) (?:\w+ )?(?:\d|ein(?:en|er|s)? einzige|einmal|zwei|drei|vier|fünf"
    r"|sechs|sieben|acht|neun|zehn|zwölf)"
    r"|\b(?:verboten|untersagt|unzulässig"
    r"|vorgeschrieben|verpflichtend|zwingend|niemals|nicht (?:erlaubt|zulässig|gestattet"
    r"|unterstützt)|(?<!nicht )(?:erforderlich|notwendig))\b",
    re.IGNORECASE,
)
_FRENCH = re.compile(
    r"(?<!\bne )\b(?:doit|doivent|devez)\b|\b(?:ne|n')\s?(?:doit|doivent|peut|peuvent|faut)\b"
    r"|\bil faut\b|\b(?:interdit|obligatoire|impératif|requis)(?:e|s|es)?\b"
    r"|\b(?:au (?:maximum|plus|moins|minimum)) (?:\w+ )?\d"
    r"|\buniquement (?:si|quand|après)\b"
    r"|\b(?:n'est|ne sont) (?:pas|plus) (?:pris|prise|prises|autorisé|permis|valide|supporté)"
    r"|\b(?:obsolète|déprécié)e?s?\b|(?:^|[.;:] )(?:ne jamais|jamais) \w",
    re.IGNORECASE,
)
_SPANISH = re.compile(
    r"(?<!no )\b(?:debe|deben|debes)\b|\bno (?:se )?(?:debe|deben|puede|pueden|permite|admite)\b"
    r"|\b(?:hay que|es (?:obligatorio|necesario)|(?:está|están) prohibid[oa]s?|prohibido"
    r"|se requiere[n]?)\b|\b(?:como máximo|al menos|como mínimo) (?:\w+ )?\d"
    r"|\bs[oó]lo (?:si|cuando|después)\b|\bno (?:es|está|son|están) (?:compatible|permitid|admitid)"
    r"|\bobsolet[oa]s?\b|(?:^|[.;:] )nunca \w",
    re.IGNORECASE,
)
_CHINESE = re.compile(
    r"(?<!不)必[须須]|不得(?!不)|禁止|[严嚴]禁|不允[许許]|不准(?!确|確)|不可以|[务務]必"
    r"|(?<!了)至少|至多|最多(?=[\d一二三四五六七八九十百两只可为為])|不超[过過]|不支持|只能|[仅僅]限|不能超"
)
_JAPANESE = re.compile(
    r"(?:なければ|なくては)(?:なら|いけ)|(?:ては|では)(?:なら|いけ)|禁止|必須|必要があ(?:る|ります)"
    r"|(?:超えない|以内に|のみ(?:可能|許可|使用))|できません"
)
_SUBORDINATE = {
    language: re.compile(rf"(?<!only )(?<!and )\b({words})\b[^,;:.()]*", re.IGNORECASE)
    for language, words in {
        "en": r"if|when|whether|because|since|(?<=\w )what",
        "de": "wenn|ob|weil|falls",
        "fr": "quand|lorsque|si|parce que",
        "es": "cuando|si|porque",
    }.items()
}
_STRONG = re.compile(r"\b(?:must|shall|muss|müssen|doit|doivent|deben?)\b", re.IGNORECASE)
_PATTERNS = {"de": _GERMAN, "fr": _FRENCH, "es": _SPANISH, "zh": _CHINESE, "ja": _JAPANESE}


def _without_clauses(text: str, language: str) -> str:
    """Leave out what stands behind *if* or *because*, up to a comma or the end.

    If that is all of the sentence, no comma says where the clause ends: a strong demand stays.
    """
    pattern = _SUBORDINATE.get(language)
    if pattern is None:
        return text

    def left(clause: re.Match[str]) -> str:
        is_all = not text[: clause.start()].strip() and not text[clause.end() :].strip(" .")
        return clause[0] if is_all and _STRONG.search(clause[0]) else clause[1]

    return pattern.sub(left, text)


@remembered
def is_constraint(text: str) -> bool:
    """Return whether a sentence demands, forbids or limits something for somebody, now.

    Args:
        text: A sentence in English, German, French, Spanish, Chinese or Japanese; in any other
            language there is no constraint.
    """
    language = language_of(text)
    told = _without_clauses(text, language)
    if language != "en":
        pattern = _PATTERNS.get(language)
        return pattern is not None and pattern.search(told) is not None
    if not (_ENGLISH.search(told) or _AMOUNT.search(told)):
        return False
    past = _YEAR.search(text) and _PAST.search(text)
    return not (_TELLS.search(text) or past)
