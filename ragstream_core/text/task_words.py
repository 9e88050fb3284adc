"""The words of a prompt that say what to do, apart from those that say what it is about.

"Write a mail about the pump": no document has to hold *write* or *mail*, so neither is a term that
could be missing. An instruction stands at the head of a sentence, after a politeness ("could you
please"), or is joined to another one ("explain the lock and set theta"); "how do I set theta?"
holds none. What it makes, the mail, belongs to it (`made`) only if no noun follows that it would
describe: "write an email module" is about email. English, German, French, Spanish, Italian,
Portuguese, Dutch; the verbs also Chinese and Japanese.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator

from ragstream_core.text.sentences import sentences_in
from ragstream_core.text.terms import is_stop_word

# Texts for people, as an alternative of a regular expression.
TEXTS = (
    r"e-?mails?|mails?|letters?|courriels?|lettres?|cartas?|correos?|brief|anschreiben|nachricht"
    r"|summar(?:y|ies)|zusammenfassung|résumé|minutes|report|bericht|rapport|informe|story|stories"
    r"|geschichte|poem|gedicht|speech|rede|essay|article|blog post|press release|announcement"
    r"|newsletter|invitation|einladung|play|message|memo"
)
_KINDS = (
    rf"{TEXTS}|(?:reports|poems|essays|articles|messages|briefe|berichte|gedichte"
    r"|correo electrónico"
    r"|tables?|lists?|bullet points|bullet list|checklists?|outlines?|overviews?|paragraphs?"
    r"|haikus?|songs?|quiz(?:zes)?|(?:unit )?tests?"
    r"|tabellen?|listen?|übersicht|aufsatz|gliederung|stichpunkte"
    r"|résumés|rapports|tableaux?|listes?|poèmes?|rédaction|aperçu"
    r"|informes|resumen|resúmenes|tablas?|listas?|poemas?|ensayos?"
    r"|riassunt[oi]|tabell[ae]|elenc(?:o|hi)|poesi[ae]|letter[ae]|relazion[ei]|saggi?o?"
    r"|resumos?|tabelas?|relatórios?|ensaios?"
    r"|samenvatting|tabel|lijst|verslag|opstel|brieven)"
)
_MAKES = """
write rewrite draft compose create make generate produce prepare
schreibe schreib schreiben verfasse verfass verfassen erstelle erstell erstellen mache mach machen
formuliere formulieren
écris écrivez écrire rédige rédigez rédiger crée créez créer
escribe escriba escribir redacta redacte redactar crea cree crear
scrivi scrivere escreva escrever crie schrijf schrijven maak maken
"""
_GIVES = """
give show provide gib geben zeige zeig zeigen donne donnez montre montrez
dame muestra muestre mostra mostre toon geef
"""
# With "the", what the second ones name is there already: "give me the email of the vendor".
_MAKE, _GIVE = frozenset(_MAKES.split()), frozenset(_GIVES.split())
_TO_WHOM = r"me|us|him|her|them|mir|uns|ihm|ihr|ihnen|moi|nous|lui|mi|ons|mij"
_NEW = (
    r"an?|one|another|some|two|three|four|five|ein|eine|einen|einem|einer|zwei|drei|une?|des|deux"
    r"|trois|una|unos|unas|dos|tres|uno|due|tre|um|uma|dois|duas|een|twee|\d{1,2}"
)
_KNOWN = r"the|der|die|das|den|les?|la|el|los|las|il|lo|gli|os?|as?|de|het"
_LIKE = (
    r"(?:very )?(?:short|brief|concise|long|detailed|polite|friendly|formal|simple|nice|complete"
    r"|kurze[nrs]?|lange[nrs]?|höfliche[nrs]?|freundliche[nrs]?|formelle[nrs]?|ausführliche[nrs]?"
    r"|court|courte|bref|brève|long|longue|poli|polie|corto|corta|breve|largo|larga|curto|curta"
    r"|korte|lange|beleefde|[\w]{1,12}-(?:page|line|word|sentence|paragraph))"
)
_BEHIND = (
    "about of on for to from in with without that which who regarding concerning as at by under "
    "using based between describing explaining comparing summarising summarizing listing saying "
    "telling asking and or "
    "über von vom zu zur zum an für mit ohne aus im als der des die das welche dass und oder auf "
    "bezüglich à au aux de du sur pour avec sans qui que dans en et ou entre "
    "sobre acerca del para a al con sin y o su sul sulla sui sulle di della dei delle per alla che "
    "e do da dos das com ao em over van voor aan met zonder uit dat"
)
_OBJECT = re.compile(
    rf"(?:(?:(?:{_NEW})|(?P<known>{_KNOWN}))\s+(?P<like>(?:{_LIKE}[,\s]+)*)(?:[\w-]{{1,30}}\s+)?"
    rf"|(?P<like_bare>(?:{_LIKE}[,\s]+)*))(?P<kind>{_KINDS})(?![\w-])"
    rf"(?=\s*(?:[.,;:!?)\n]|\Z)|\s+(?:{'|'.join(_BEHIND.split())}|[dl]['’])\b|\s+[dl]['’])",
    re.IGNORECASE,
)
_BEFORE = re.compile(rf"(?:[\s-]+(?:{_TO_WHOM})\b)?\s+", re.IGNORECASE)
_NEXT = re.compile(r"\s*(?:,|\b(?:and|or|und|oder|et|ou|y|o|e|en|of)\b)\s*", re.IGNORECASE)


def made(text: str, verb: re.Match[str]) -> Iterator[tuple[int, int]]:
    """Yield the spans of the words that say what an instruction makes, and how that shall be.

    Args:
        text: A query piece.
        verb: The verb of the instruction.
    """
    word = verb.group().lower()
    before = _BEFORE.match(text, verb.end()) if word in _MAKE | _GIVE else None
    while before is not None:
        found = _OBJECT.match(text, before.end())
        if found is None or (found["known"] and word in _GIVE):
            return
        yield from (found.span(n) for n in ("like", "like_bare", "kind") if found[n])
        before = _NEXT.match(text, found.end())


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


_ASKING_WORDS = """
what when where which who whom whose why how whether if need want wanted wants wish wonder
wondering curious like looking tell question questions
wer wen wem wessen was wann wo wohin woher wie warum wieso weshalb wozu womit wofür welche welcher
welches welchen welchem wieviel ob brauche brauchen möchte möchten will wollen suche suchen frage
qui que quoi quand où comment pourquoi combien quel quelle quels quelles lequel laquelle si
voudrais voudrions cherche cherchons besoin veux voulons
qué quién cuándo dónde cómo cuál cuáles cuánto cuántos cuánta cuántas necesito quiero quisiera busco
chi che cosa quando dove come perché quale quali quanto vorrei cerco
quem onde quanto preciso quero wie wat wanneer waar waarom hoe welk welke wil
"""
_TELLING_WORDS = """
i we my our the a an it this that these those there they he she you your its his her their
yesterday today last since after before because although now currently
ich wir mein meine unser unsere der die das ein eine es er sie gestern heute letzte letzten seit
nachdem weil obwohl
je j nous mon ma mes notre nos le la les l un une il elle ils elles on ce cette hier depuis
yo nosotros mi mis nuestro nuestra el los las una él ella ellos ayer desde
"""
_ASKING, _TELLING = frozenset(_ASKING_WORDS.split()), frozenset(_TELLING_WORDS.split())


@functools.lru_cache(maxsize=4_096)
def only_tells(text: str) -> bool:
    """Return whether a text tells something, and neither asks nor orders anything.

    Only what is clearly told counts: whole sentences, each of which begins with its subject or a
    time, has no question mark, no question word, no wish and no instruction.

    Args:
        text: A query piece.
    """
    sentences = [text[slice(*span)] for span in sentences_in(text, 0, len(text))]
    return bool(sentences) and all(map(_tells, sentences))


def _tells(sentence: str) -> bool:
    words = [word.lower() for word in _WORD.findall(sentence)]
    ends = sentence.rstrip().rstrip("\"'”»)").endswith((".", "!", "…"))
    told = bool(words) and words[0] in _TELLING and _ASKING.isdisjoint(words)
    return ends and told and what_is_asked(sentence) == sentence


_SMALL_WORDS = (
    # German
    "der die das den dem des ein eine einen einem einer eines und oder aber wenn dann als ob dass"
    " weil da wie wo wer wen wem was wann warum wieso wozu womit welche welcher welches welchen"
    " wird werden wurde wurden ist sind war waren sein hat haben hatte kann können darf dürfen"
    " muss müssen soll sollen es er sie ich du wir ihr man mich mir dich sich uns euch mein meine"
    " unser unsere ihre ihrer nicht kein keine keinen auch noch nur schon sehr viel viele vielen im"
    " in am an auf aus bei mit nach von vom vor zu zum zur über unter für gegen ohne um bis durch"
    " zwischen geschieht passiert gibt gilt dieser diese dieses diesem diesen jeder jede jedes"
    " alle so ab ein los weg zurück",
    # French
    "le la les un une des du de et ou mais si que qui quoi dont où quel quelle quels quelles"
    " quand comment pourquoi combien est sont était être ont avoir peut peuvent doit doivent faut"
    " fait il elle ils elles on je tu nous vous ce cette ces cet son sa ses leur leurs mon ma mes"
    " notre votre ne pas plus non en dans sur sous avec sans pour par au aux entre se arrive passe",
    # Spanish
    "el la los las un una unos unas de del al que quien quién qué cuál cuáles cuándo cuánto"
    " cuántos cómo dónde por para con sin en sobre es son era ser está están hay ha han puede"
    " pueden debe deben se lo le su sus mi no más muy cuando donde como este esta estos estas pasa",
    # Italian
    "il lo la gli le un uno una di del della dei delle da dal in nel nella con su per tra fra che"
    " chi cosa quale quali quando quanto quanti come dove perché è sono era essere ha hanno può"
    " possono deve devono si non più molto questo questa questi succede",
    # Portuguese
    "os as um uma de do da dos das em no na nos nas com por para que quem qual quais quando quanto"
    " quantos como onde é são era ser está há pode podem deve devem se não mais muito este esta"
    " acontece",
    # Dutch
    "de het een en of maar als dan dat die wat wie waar wanneer waarom hoe welke welk is zijn was"
    " wordt worden heeft hebben kan kunnen mag moet moeten er ze hij zij wij we ik je niet geen"
    " ook nog op aan uit bij met naar van voor te om tot door tussen gebeurt veel",
)
_SMALL = tuple(frozenset(words.split()) for words in _SMALL_WORDS)


@functools.lru_cache(maxsize=4_096)
def small_words(text: str) -> frozenset[str]:
    """Return the words that say nothing by themselves in the language of a text, in small letters.

    The stop words of the index are English; here a text in another language gets its own: that
    which most of its words belong to, if they are more than the English ones.

    Args:
        text: A query piece.
    """
    words = {word.lower() for word in _WORD.findall(text)}
    best = max(_SMALL, key=lambda small: len(small & words))
    english = sum(is_stop_word(word) for word in words)
    return best if len(best & words) > max(1, english) else frozenset()


def is_saying(word: str) -> bool:
    """Return whether a word asks for a form of words ("write", "explain") wherever it stands."""
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
