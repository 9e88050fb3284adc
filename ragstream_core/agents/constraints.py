"""Which sentences limit or demand something: English, German, Chinese and Japanese.

Sentences of another language have none: an English word list would only find wrong ones there.
"""

from __future__ import annotations

import re

from ragstream_core.prompting.remembering import remembered

_ENGLISH = re.compile(
    r"\b(?:must(?:n't)?|cannot|can't|can not|may not|shall|should not|have to|has to|mandatory"
    r"|requires?|requirement|(?:is|are|be) (?:required|limited|refused)|refuses|limited to"
    r"|limits? (?:is|are|of|the)|at most|at least|no more than|maximum|minimum|not supported"
    r"|unsupported|does(?:n't| not) support|deprecated|forbidden|not allowed"
    r"|(?<!was )(?<!were )(?<!had )(?<!although )never"
    # "the only", "not only", "only a few" and "only 26" say how many there are
    r"|(?<!the )(?<!not )(?<!was )(?<!were )only(?! (?:an?|one|the|few|small|in|for) )(?! [\d(]))\b"
    r"|(?:^|[.:;|] )(?:do(?: not|n't)|only(?! in \d))\b",
    re.IGNORECASE,
)
_GERMAN = re.compile(
    r"\b(?:muss|müssen)\b(?! nicht\b)|\b(?:darf|dürfen)\b[^.;]{0,60}?\b(?:nur|nicht|kein\w{0,2}"
    r"|höchstens|nie(?:mals)?)\b|\b(?:höchstens|mindestens|verboten|untersagt|unzulässig"
    r"|vorgeschrieben|verpflichtend|zwingend|niemals|nicht (?:erlaubt|zulässig|gestattet"
    r"|unterstützt)|(?<!nicht )(?:erforderlich|notwendig))\b",
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
_KANA = re.compile(r"[\u3040-\u30ff]")
_HAN = re.compile(r"[\u3400-\u9fff]")
_LETTER = re.compile(r"[^\W\d_]")
_WORD = re.compile(r"[^\W\d_]+")
_SAYS = {
    "en": "the a an of to and in is are be for with must not do does only at most it its this that"
    " has have by on or as when from may can if",
    "de": "der die das und ist nicht ein eine einen einem einer zu den dem des mit für auf im von"
    " werden wird sind muss müssen darf dürfen nur sich bei oder als auch vor nach",
    "fr": "le la les des et est une un dans pour pas que qui du ne doit au aux sur par ce cette",
    "es": "el la los las y es un una en para que del no se debe al con por lo su",
    "it": "il lo la gli le e è un una di per che non si deve del della con al nel",
    "pt": "o os as e é um uma em para que do da não se deve ao com por no na",
    "nl": "de het een en is niet van op te voor met dat moet mag wordt zijn bij",
}
_FUNCTION_WORDS = {name: frozenset(words.split()) for name, words in _SAYS.items()}
_PATTERNS = {"en": _ENGLISH, "de": _GERMAN, "zh": _CHINESE, "ja": _JAPANESE}


def language_of(text: str) -> str:
    """Return the language of a sentence by its script and its function words.

    Returns:
        ``en``, ``de``, ``fr``, ``es``, ``it``, ``pt``, ``nl``, ``zh``, ``ja``, or an empty text.
        Letters of ASCII without any function word count as English.
    """
    if _KANA.search(text):
        return "ja"
    letters = len(_LETTER.findall(text))
    if 3 * len(_HAN.findall(text)) > letters:
        return "zh"
    words = [word.lower() for word in _WORD.findall(text)]
    counts = {name: sum(w in known for w in words) for name, known in _FUNCTION_WORDS.items()}
    best = max(counts, key=lambda name: counts[name])  # English first, where several have as many
    return best if counts[best] or text.isascii() else ""


@remembered
def is_constraint(text: str) -> bool:
    """Say whether a sentence limits or demands something (must, never, only, at most, …)."""
    pattern = _PATTERNS.get(language_of(text))
    return pattern is not None and pattern.search(text) is not None
