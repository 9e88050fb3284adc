"""The language of a text, by its script and its small words."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

_KANA = re.compile(r"[\u3040-\u30ff]")
_HAN = re.compile(r"[\u3400-\u9fff]")
_LETTER = re.compile(r"[^\W\d_]")
_WORD = re.compile(r"[^\W\d_]+")
_SAYS = {
    "en": "the a an of to and in is are be for with must not do does only at most it its this that"
    " has have by on or as when from may can if",
    "de": "der die das und ist nicht ein eine einen einem einer zu den dem des mit für auf im von"
    " werden wird sind muss müssen darf dürfen nur sich bei oder als auch vor nach",
    "fr": "le la les des et est une un dans pour pas que qui du ne doit au aux sur par ce cette il"
    " on son sa ses leur sont avec sans après chaque",
    "es": "el la los las y es un una en para que del no se debe al con por lo su está sin cada hay"
    " después",
    "it": "il lo la gli le e è un una di per che non si deve del della con al nel",
    "pt": "o os as e é um uma em para que do da não se deve ao com por no na",
    "nl": "de het een en is niet van op te voor met dat moet mag wordt zijn bij",
}
_FUNCTION_WORDS = {name: frozenset(words.split()) for name, words in _SAYS.items()}
_NAMES = {
    "de": "German", "fr": "French", "es": "Spanish", "it": "Italian", "pt": "Portuguese",
    "nl": "Dutch",
}  # fmt: skip
_BY_SCRIPT = {
    "CJK": "Chinese", "HIRAGANA": "Japanese", "KATAKANA": "Japanese", "HANGUL": "Korean",
    "GREEK": "Greek", "THAI": "Thai",
}  # fmt: skip
_ASKS = {
    "de": "wann wer wo warum welche welcher welches welchen wieviel wieso woher wohin",
    "fr": "quand où pourquoi quel quelle quels quelles combien qui quoi",
    "es": "cuándo cómo dónde qué quién cuál cuánto cuánta cuántos cuántas",
    "it": "quando dove perché quale quali chi quanto quanti quanta",
    "pt": "quando onde qual quais quem quanto quantos quantas",
    "nl": "wanneer hoe waar waarom welke hoeveel",
}

# Those that no English text has; one of them is enough.
_QUESTION_WORDS = {name: frozenset(words.split()) for name, words in _ASKS.items()}
_LEAST_WORDS, _LEAST_SHARE = 2, 0.1
_LOOKED_AT = 600


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
    plain = text.isascii()  # English first, where several have as many; last with other letters
    for name, known in _QUESTION_WORDS.items():
        counts[name] += _LEAST_WORDS * any(word in known for word in words)
    best = max(counts, key=lambda name: (counts[name], not plain and name != "en"))
    return best if counts[best] or text.isascii() else ""


def other_than_english(text: str) -> str:
    """Return the language of a text that is surely not English, for people; else an empty text.

    Args:
        text: A question or a passage; its first 600 letters are looked at.
    """
    head = text[: 2 * _LOOKED_AT]
    letters = [] if head.isascii() else _LETTER.findall(head)[:_LOOKED_AT]  # ASCII's are Latin
    scripts = Counter(unicodedata.name(letter, "?").split(" ")[0] for letter in letters)
    if scripts["LATIN"] * 2 < len(letters):
        if scripts["HIRAGANA"] + scripts["KATAKANA"]:
            return "Japanese"
        del scripts["LATIN"]
        script = scripts.most_common(1)[0][0]
        return _BY_SCRIPT.get(script, f"a language in {script.title()} letters")
    words = [word.lower() for word in _WORD.findall(head)]
    counts = {name: sum(w in known for w in words) for name, known in _FUNCTION_WORDS.items()}
    english = counts.pop("en")
    for name, known in _QUESTION_WORDS.items():
        counts[name] += _LEAST_WORDS * any(word in known for word in words)
    best = max(counts, key=lambda name: counts[name])
    least = max(_LEAST_WORDS, english + 1, _LEAST_SHARE * len(words))
    return _NAMES[best] if counts[best] >= least else ""
