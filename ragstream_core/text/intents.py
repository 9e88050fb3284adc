"""What somebody wants done, told by the words of an ask: English, German, French and Spanish.

The words of all four stand together, as those of the instructions do: a short ask does not reveal
its language. A word that means something else in another of them ("was", "comment") stands only
with what makes it sure. The first intent that fits wins, so their order is part of the rule. Names
of files and of code tell none, but for a readme and a changelog: nobody configures by config.py.
"""

from __future__ import annotations

import re

from ragstream_core.text.sentences import sentences_in

_START = r"(?:^|[.!?:;\n]\s{0,4}|\b(?:please|to|and|you|then|should|must)\s)"
_ANFANG = (
    r"(?:^|[.!?:;\n¿¡]\s{0,4}|\b(?:bitte|und|dann|du|sie|puis|et|y|luego|por favor"
    r"|s['’]il (?:te|vous) plaît,?)\s)"
)
_ENGLISH = (
    ("compare", r"\b(?:compare|versus|vs\.?|difference between|differ from|better than|or should)\b"
                r"|\bwhich (?:one|is better|should)\b"),
    ("review", _START + r"(?:review|audit|critique|assess)\b"),
    ("fix", r"\b(?:fix|debug|bug|broken|crash(?:es|ed)?|traceback|exception|fails?|failing|failed"
            r"|stack trace|does(?:n't| not) work|not working|error|stuck|troubleshoot)\b"),
    ("test", _START + r"(?:test|write (?:\w{1,30} ){0,3}tests?)\b|\bunit tests?\b"),
    ("plan", r"\b(?:plan|roadmap|migrate|migration|strategy|milestones?|break down)\b"),
    ("specify", r"\b(?:spec|specification|requirements? for|design document|adr)\b"),
    ("document", _START + r"(?:document|summari[sz]e)\b|\b(?:readme|changelog|docs page)\b"),
    ("implement", _START + r"(?:implement|write|create|build|add|code|generate|refactor|port)\b"),
    ("configure", r"\b(?:configure|config|configuration|set ?up|install|enable|disable|setting"
                  r"|settings|option|options|environment variable|deploy)\b"),
    ("locate", r"\b(?:where (?:is|are|does|do|can)|which file|find the|locate|in which)\b"),
    ("explain", r"\b(?:explain|why|how|what|when|who|does|is|are|can|describe|tell me)\b"),
)  # fmt: skip
_OTHER = {
    "compare": r"\b(?:vergleich\w{0,3}|unterschied zwischen|compare[rz]|différences? entre"
               r"|comparar|compara|diferencias? entre)\b",
    "review": _ANFANG + r"(?:über)?prüfen?\b|\bbegutachte\w?\b"
              rf"|{_ANFANG}(?:relis(?:ez)?|vérifie[rz]?|révise[rz]?|revisa[r]?|revise)\b",
    "fix": r"\b(?:beheb\w{1,2}|reparier\w{1,2}|korrigier\w{1,2}|absturz|abstürze|fehlermeldung"
           r"|schlägt fehl|fehlgeschlagen|funktioniert nicht|kaputt|corrige[rz]?|répare[rz]?"
           r"|plantage|échoue(?:nt)?|ne (?:fonctionne|marche)(?:nt)? pas|arregla[r]?|corregir"
           r"|corrija|repara[r]?|fallo|falla[n]?|no funciona[n]?)\b|\bstürzt\b[^.!?\n]{0,60}\bab\b",
    "test": r"\b(?:unit-tests?|tests? unitaires?|pruebas? unitarias?)\b"
            rf"|{_ANFANG}(?:teste[nz]?|schreib\w{{0,2}} (?:\w{{1,30}} ){{0,3}}tests?"
            r"|écri\w{1,4} (?:\w{1,30} ){0,3}tests?|escrib\w{1,2} (?:\w{1,30} ){0,3}pruebas?)\b",
    "plan": r"\b(?:fahrplan|migrier\w{1,2}|planifie[rz]?|feuille de route|migrer|migrez"
            r"|planifica[r]?|hoja de ruta|migrar)\b",
    "specify": r"\b(?:spezifikation|pflichtenheft|lastenheft|anforderungen an|spécification"
               r"|cahier des charges|especificación|requisitos (?:para|de))\b",
    "document": rf"{_ANFANG}(?:dokumentier\w{{1,2}}|documente[rz]|documenta[r]?)\b",
    "implement": r"\b(?:implementier\w{1,2}|implémente[rz]?|implementa[r]?|refaktorier\w{1,2}"
                 r"|refactorise[rz]?|refactoriza[r]?)\b"
                 rf"|{_ANFANG}(?:schreib\w{{0,2}}|erstell\w{{1,2}}|ergänz\w{{1,2}}|füg\w{{1,2}}"
                 r"|écri[st]?|écrivez|crée[rz]?|ajoute[rz]?|escrib[ae]|crea[r]?|añad[ae]|agrega)\b",
    "configure": r"\b(?:konfigurier\w{1,2}|einrichten|installier\w{1,2}|(?:de)?aktivier\w{1,2}"
                 r"|einstellung(?:en)?|configure[rz]|installe[rz]|désactive[rz]?|paramètres?"
                 r"|configura[r]?|instala[r]?|desactiva[r]?)\b",
    "locate": r"\b(?:wo (?:ist|sind|wird|werden|steht|stehen|liegt|finde)|in welcher datei"
              r"|où (?:est|sont|se)|quel fichier|dónde (?:está|están|se)|qué archivo|qué fichero"
              r")\b",
    "explain": r"\b(?:erklär\w{0,2}|erläuter\w{0,2}|beschreib\w{0,2}|warum|wieso|weshalb|wie|welche"
               r"|was (?:ist|sind|macht|tut|bedeutet|heißt)|wann|explique[rz]?|décri[st]|décrivez"
               r"|pourquoi|comment (?:fonctionne|marche|est|faire|peut|puis)|qu['’]est-ce|que fait"
               r"|explica[r]?|por qué|cómo|qué|cuál|cuándo)\b",
}  # fmt: skip
_INTENTS = tuple(
    (name, re.compile(f"{words}|{_OTHER[name]}", re.IGNORECASE)) for name, words in _ENGLISH
)
_NAMES = re.compile(
    r"`[^`\n]{1,80}`|(?<![\w/\\.-])(?:[\w-]{1,80}[/\\]){0,20}(?!readme|changelog)"
    r"[\w-]{1,80}\.[a-z]\w{0,7}\b",
    re.IGNORECASE,
)


# How a sentence begins that wants to know something, whatever it is about.
_ASKS_TO_KNOW = re.compile(
    r"[\s\-*+•\"'“„«(¿¡]*(?:(?:please|kindly|bitte|por favor|and|und|et|y|so|now)[, ]+"
    r"|(?:can|could|would|will) (?:you|someone|we) (?:please )?"
    r"|(?:i|we) (?:want|need|would like) to "
    r"|(?:kannst|könntest) du |(?:können|könnten) sie |(?:peux-tu|pouvez-vous|puedes|puede) )*"
    r"(?:explain|describe|list|summari[sz]e|outline|define|name|tell|show|know|understand"
    r"|what|whats|what's|which|who|whose|where|when|is|are|was|were|does|do|did|has|have"
    r"|how (?:does|do (?!i\b|we\b|you\b)|is|are|did|was|many|much|often|long|large|big)"
    r"|erklär\w{0,2}|erläuter\w{0,2}|beschreib\w{0,2}|nenn\w{0,2}|liste|zeig\w{0,2}|was|welche\w?|wer"
    r"|wo|wann|ist|sind|gibt|hat|haben|wie (?:funktioniert|ist|sind|wird|werden|viel|oft|lange)"
    r"|explique[rz]?|décri\w{1,4}|liste[rz]?|quel\w{0,3}|qui|que|qu['’]est|où|quand|est-ce"
    r"|explica|describ[ea]|enumera|qué|cuál\w{0,2}|quién|dónde|cuándo|cómo (?:funciona|es|está))"
    r"(?![\w-])",
    re.IGNORECASE,
)
_WRONG = re.compile(
    r"\b(?:wrong with|wrong here|cause of|causes? (?:this|my|the)|matter with|do i do|can i do"
    r"|(?:i|we) (?:fix|debug|do about))\b",
    re.IGNORECASE,
)
_TO_DO = frozenset({"fix", "review", "test", "plan", "specify", "implement"})


def intent_of(text: str) -> str:
    """Return what somebody wants done, as the first intent that fits, or an empty text.

    The word that heads a sentence decides: who asks what an error is wants nothing mended.

    Args:
        text: Their words.
    """
    plain = _NAMES.sub(" · ", text)
    sentences = [plain[slice(*span)] for span in sentences_in(plain)]
    to_do: list[str] = []
    to_know: list[str] = []
    for sentence in sentences:
        knows = _ASKS_TO_KNOW.match(sentence) and not _WRONG.search(sentence)
        (to_know if knows else to_do).append(sentence)
    told = {True: "\n".join(to_do), False: "\n".join([*to_do, *to_know])}
    return next((name for name, words in _INTENTS if words.search(told[name in _TO_DO])), "")
