"""The words that name what an instruction makes: "write *an email* about the pump".

No document has to hold such a word: it says what is to be made, not what must be found. It is one
only as the object of a verb that makes or gives something, and where no noun follows that it would
only describe: "write an email module" is about email. English, German, French, Spanish, Italian,
Portuguese and Dutch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

TEXTS = (
    r"e-?mails?|mails?|letters?|courriels?|lettres?|cartas?|correos?|brief|anschreiben|nachricht"
    r"|summar(?:y|ies)|zusammenfassung|résumé|minutes|report|bericht|rapport|informe|story|stories"
    r"|geschichte|poem|gedicht|speech|rede|essay|article|blog post|press release|announcement"
    r"|newsletter|invitation|einladung|play|message|memo"
)
"""Texts for people, as an alternative of a regular expression."""
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
_MAKE, _GIVE = frozenset(_MAKES.split()), frozenset(_GIVES.split())
"""With "the", what the second ones name is there already: "give me the email of the vendor"."""
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
