"""The words of a prompt that tell what to do, apart from those that say what it is about.

"Write a mail about the pump": no document has to hold *write*, so it is no term that could be
missing. An instruction stands at the head of a sentence, behind a politeness ("could you please"),
or is joined to one that does ("explain the lock and set theta"); "how do I set theta?" holds none.
What the instruction makes, the mail, belongs to it (`made`). English, German, French, Spanish,
Italian, Portuguese, Dutch, Chinese and Japanese.
"""

from __future__ import annotations

import functools
import re

from ragstream_core.agents.made import made

_SAYING = """
write rewrite draft compose explain describe outline summarise summarize list enumerate tell show
give translate compare discuss suggest recommend clarify elaborate mention state please kindly
schreibe schreib schreiben verfasse verfass verfassen erkläre erklär erklären erläutere erläutern
beschreibe beschreib beschreiben fasse fass fassen zusammen zusammenfassen nenne nenn nennen zeige
zeig zeigen liste sage sag gib geben übersetze übersetz übersetzen vergleiche vergleich vergleichen
formuliere formulieren skizziere bitte
écris écrivez écrire rédige rédigez rédiger explique expliquez expliquer décris décrivez décrire
résume résumez résumer montre montrez montrer donne donnez compare comparez traduis traduisez
escribe escriba escribir redacta redacte redactar explica explique explicar describe describa resume
resuma resumir enumera muestra muestre dame compara traduce traduzca
scrivi scrivere spiega spiegare descrivi riassumi elenca mostra confronta traduci
escreva escrever explicar descreva resuma liste mostre traduza
schrijf schrijven beschrijf vertaal geef toon leg
"""
_DOING = """
set change update edit add remove delete replace rename move fix implement refactor port create make
build generate produce prepare design plan define find identify analyse analyze evaluate assess
review check verify test propose name provide calculate compute estimate convert format document
configure install run print extract classify sort shorten expand improve simplify correct proofread
polish turn put fill help answer use complete optimise optimize debug
erstelle erstell erstellen setze setz setzen ändere änder ändern ergänze ergänzen füge füg fügen
lösche lösch löschen entferne entfernen ersetze ersetzen korrigiere korrigieren prüfe prüf prüfen
überprüfe überprüfen suche such suchen finde finden mache mach machen baue bau bauen plane planen
implementiere implementieren verbessere verbessern kürze kürzen berechne berechnen hilf helfen
crée créez créer ajoute ajoutez modifie modifiez change changez supprime supprimez corrige corrigez
crea cree crear añade agrega cambia cambie corrige corrija configura elimina aggiungi modifica
crie adicione altere corrija maak maken voeg wijzig
"""
_SAY, _DO = frozenset(_SAYING.split()), frozenset(_DOING.split())
_HEAD = re.compile(r"(?:\A|[.!?:;\n])[\s\-*+•\"'“„«(\d)]{0,12}", re.UNICODE)
_POLITE = re.compile(
    r"(?:(?:please|kindly|bitte|now|then|also|next|first|firstly|finally|merci de|por favor)[, ]+"
    r"|(?:can|could|would|will) (?:you|we) |(?:i|we) (?:want|need|would like) (?:you )?to "
    r"|(?:i'd|we'd) like (?:you )?to |help me (?:to )?|let(?:'s| us| me) "
    r"|(?:kannst|könntest) du |(?:können|könnten) sie |(?:mir|uns|me|us) "
    r"|(?:peux-tu|pouvez-vous|pourrais-tu|pourriez-vous|puedes|puede|podrías) )",
    re.IGNORECASE,
)
_JOINED = re.compile(r"(?:,|;|\band|\bthen|\bund|\bdann|\bet|\by|\be)\s+(?:then |dann )?(?=\w)")
_WORD = re.compile(r"[^\W\d_]+")
_HAN = re.compile(
    r"(?:请|請)?(?:帮我|幫我|给我|給我)?"
    r"(?:写|寫|解释|解釋|说明|說明|总结|總結|概括|描述|列出|翻译|翻譯|比较|比較|设置|設定|介绍|介紹|告诉我)"
    r"(?:一下|一个|一封|一份|一篇)?"
)
_KANA = re.compile(
    r"を?(?:説明|要約|翻訳|比較|設定|作成|列挙|教え|書い|まとめ|示し)(?:して|て)?"
    r"(?:ください|下さい|くれますか|ほしい|くれ)"
)


def is_saying(word: str) -> bool:
    """Say whether a word asks for a form of words ("write", "explain") wherever it stands."""
    return word.lower() in _SAY


@functools.lru_cache(maxsize=4_096)
def what_is_asked(text: str) -> str:
    """Return a text with blanks for its instructions, of the same length.

    Args:
        text: A query piece.
    """
    spans = [span for head in _HEAD.finditer(text) for span in _instructions(text, head.end())]
    for start, end in spans:
        text = f"{text[:start]}{' ' * (end - start)}{text[end:]}"
    for pattern in (_HAN, _KANA):
        text = pattern.sub(lambda match: " " * len(match.group()), text)
    return text


def _instructions(text: str, at: int) -> list[tuple[int, int]]:
    """Return the spans of the instructions of the sentence that begins at ``at``."""
    while polite := _POLITE.match(text, at):
        at = polite.end()
    first = _verb(text, at)
    if first is None:
        return []
    stop = next((m.start() for m in re.finditer(r"[.!?\n]", text[at:])), len(text) - at) + at
    joined = (_verb(text, m.end()) for m in _JOINED.finditer(text, first.end(), stop))
    verbs = [first, *(verb for verb in joined if verb)]
    return [span for verb in verbs for span in (verb.span(), *made(text, verb))]


def _verb(text: str, at: int) -> re.Match[str] | None:
    word = _WORD.match(text, at)
    return word if word is not None and word.group().lower() in (_SAY | _DO) else None
