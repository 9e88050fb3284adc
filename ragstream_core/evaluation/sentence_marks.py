"""Says by its form whether a quoted line is whole, and whether it binds somebody.

These rules judge what A4 quotes, so they share nothing with the rules by which A4 chooses. How
often they agree with a person is measured on `tests/benchmarks/gold/sentences.jsonl`.
"""

from __future__ import annotations

import re

_ROW = re.compile(r"\t|\s[|·]\s|^\||^(?:def|class|async def|from|import|\$|>>>)\s|^@\w")
_PAIR = re.compile(r"^[\"'`]?[\w./-]+[\"'`]?\s*(?:[:=]|:=|\+=)\s*\S")
_END = re.compile(r"[.!?。！？؟।][\"'”’»)\]*_`]*$")
_LEAD_IN = re.compile(
    r"(?:[:,;–—-]|\.\.\.|…|\b(?:as follows|following|e\.g\.|i\.e\.|such as))[*_`\"]*$"
)
_MIDDLE = re.compile(r"[,;:.)\]}–—]|(?:and|or|nor|which|whose|whom|than|of|to)\b", re.IGNORECASE)
_LEANS = re.compile(
    r"[*_`]*(?:(?:if|when|because|since|while|although) )?(?:this|these|those|such|it|it's|they"
    r"|he|she|both|otherwise|however|therefore|thus|hence|instead|similarly|but|and|then|also"
    r"|as such)\b(?! (?:page|chapter|handbook|manual)\b)",
    re.IGNORECASE,
)
_EXPLETIVE = re.compile(r"it (?:is|was|may|might|can|could)\b.{0,40}\bthat\b", re.IGNORECASE)
_RUN_ON = re.compile(r" [-•] \*\*|<code>|</|^:::|```|>>> ")
_PHRASE = re.compile(
    r"[*_`]*(?:\w+ed|kept|made|given|shown|optional|where|what|whether|how|stdlib)\b", re.IGNORECASE
)
_VERB = re.compile(
    r"\b(?:is|are|was|were|has|have|had|do|does|did|can|cannot|could|will|would|may|might|must"
    r"|shall|should|need|\w{3,}n't|[a-z]{2,}[^s\W]s|[a-z]{3,}ed|go|say|stand|come|make|take|give"
    r"|hold|get|read|find|keep|run|let|mean|show|use|wait|write|lie)\b"
)
_IMPERATIVE = re.compile(r"[*_]*[A-Z][a-z]+ (?!of\b|for\b|in\b|on\b|and\b|or\b|that\b|which\b)")
_RELATIVE = re.compile(r"\b(?:that|which|who|whose|what|whatever)(?: \w+){0,2} ?$")
_PAIRS = (("(", ")"), ("[", "]"), ("“", "”"))

_BINDS = re.compile(
    r"\bmust\b(?! have been\b)|\bshall\b|\b(?:may|can) (?:not|only|never)\b|\bcannot\b|\bcan't\b"
    r"|\b(?:is|are|be) (?:\w+ly )?(?:not |never |only )?(?:required|allowed|permitted|forbidden"
    r"|prohibited|refused|rejected|limited|restricted|reserved|deprecated|mandatory|illegal|invalid"
    r"|valid only|only valid|supported)\b|\bonly (?:valid|supports?|honou?red|captured|allowed)\b"
    r"|\b(?:isn't|aren't|not) (?:allowed|permitted|supported|accepted|valid)\b"
    r"|\b(?:is|are) (?:forbidden|mandatory|unsupported|obligatory|never)\b|\brequires?\b"
    r"|\brefuses?\b|^[*_`]*required\b|\b(?:at most|at least|no more than|no less than|maximum)\b"
    r"|\b(?:limit|quota|budget) (?:is|are|of)\b|\bonly [\w ]{0,60}\b(?:if|when|once|after)\b"
    r"|(?<!may )\bneeds? to\b|\b(?:has|have) to\b|(?<!how )\bshould\b"
    r"|^(?:always|never|do not|don't|only|make sure|ensure)\b|\bonly$|\bonly one\b|\bare needed\b",
    re.IGNORECASE,
)
_TELLS = re.compile(
    r"\b(?:had to|must have|(?:was|were) (?:never|only|limited|required|forbidden)|could not"
    r"|we (?:have to|must|cannot|can't|need to|never)|I (?:must|have to)"
    r"|never (?:been|again|before|became|had|was)|ha(?:ve|s|d) never|not only"
    r"|(?:that|which) (?:is|are) not|must be (?:noted|said)|cannot be (?:overstated|denied))\b",
    re.IGNORECASE,
)
_AMOUNT = re.compile(r"\b(?:at most|at least|up to|no more than|maximum|minimum)\b", re.IGNORECASE)
_DIGIT = re.compile(r"\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|twelve)\b")
_GERMAN = re.compile(
    r"\b(?:muss|müssen|dürfen|darf)\b|\b(?:höchstens|mindestens|verboten|erforderlich|niemals)\b"
)
_EASTERN = re.compile(
    r"必须|必須|不得|禁止|不允许|至多|最多|不支持|只能|なければなら|てはなら|必要があ"
)


def is_complete(text: str, heading: str = "") -> bool:
    """Return whether a quoted line can be read by itself.

    A row, with bars or with the names of its columns, a pair or a signature can. A sentence has to
    begin at its beginning, end at its end and close its brackets; if it begins with a word that
    leans on the sentence before, its heading has to be shown.
    """
    said = text.strip()
    if _ROW.search(said) or (_PAIR.match(said) and len(said.split()) <= 12):
        return any(c.isalnum() for c in said)
    if not said or _LEAD_IN.search(said) or _RUN_ON.search(said):
        return False
    if any(said.count(a) != said.count(b) for a, b in _PAIRS):
        return False
    first = said.lstrip("*_`\"“‘'([").split(maxsplit=1)[0] if said.lstrip("*_`\"“‘'([") else ""
    begins_low = first[:1].islower() and first.isalpha() and not said.startswith("`")
    if begins_low or (_MIDDLE.match(said) and not said[0].isupper()):
        return False
    if _LEANS.match(said) and not heading and not _EXPLETIVE.match(said):
        return False
    return bool(_END.search(said)) and not _PHRASE.match(said) and _has_main_verb(said)


def _has_main_verb(text: str) -> bool:
    """Return whether a verb stands outside of clauses with *that* or *which*, or comes first."""
    return bool(_IMPERATIVE.match(text)) or any(
        not _RELATIVE.search(text[: match.start()]) for match in _VERB.finditer(text)
    )


def is_binding(text: str) -> bool:
    """Return whether a line demands, forbids or limits something, now and for the reader.

    What somebody once had to do, what "we" have to do in a derivation, and amounts without a number
    bind nobody.
    """
    if _GERMAN.search(text) or _EASTERN.search(text):
        return True
    if not _BINDS.search(text) or _TELLS.search(text):
        return False
    rest = _AMOUNT.sub("", text)
    return bool(_BINDS.search(rest)) or bool(_DIGIT.search(rest))
