"""Why a sentence is no plain statement of the user about themselves or their company (R-255).

A fact that is missed can be said again; a wrong one stands in every prompt. So every doubt counts:
questions, suppositions, hearsay, irony, plans, moods, what is meant for this answer only, and
everything in a turn that brings another person's text along.
"""

from __future__ import annotations

import re

from ragstream_core.conversations.facts.languages import languages, spoken

MAX_TURN_CHARS = 6_000
_I = re.IGNORECASE
_FOREIGN = re.compile(
    r"\b(?:imagine|pretend|suppose|supposing|role-?play|hypothetical(?:ly)?|let'?s say|make "
    r"believe|"
    r"act (?:as|like)|you are (?:an?|my|the|now)|you'?re (?:an?|my) |(?:in|for|of) (?:a|my|the|"
    r"this) "
    r"(?:story|novel|poem|sketch|screenplay|game|play|joke|sample|template|exercise)|"
    r"(?:write|draft|compose|generate|create|give me) (?:me )?(?:an?|the|some|my|two|three) (?:\w+ "
    r"){0,3}"
    r"(?:story|poem|letter|e-?mail|bio|dialogue|speech|post|advert\w*|scene|monologue|cv|résumé|"
    r"resume|"
    r"cover letter|message|sentence|example)s?|"
    r"(?:translate|rewrite|rephrase|proofread|paraphrase|correct|polish|improve|shorten|"
    r"summari[sz]e|"
    r"classify|analy[sz]e|reply to|respond to|fix|check|explain|parse|extract|review)"
    r"(?: the grammar of| grammar in)? (?:this|these|that|it\b|the following|the text|the sentence|"
    r"below|"
    r"my (?:text|e-?mail|sentence|draft|message|letter|essay|bio|paragraph)|what (?:he|she|they))|"
    r"the following|(?:here(?:['’]s| is| are)|this is|below is|see) (?:the|an?|my|our|what|his|her|"
    r"their) (?:[\w'’-]+ ){0,3}"
    r"(?:text|e-?mail|draft|message|transcript|log|conversation|chat|note|minutes|bio|letter|quote|"
    r"paragraph|document|example|thread|output|answer|reply|review|article|excerpt)|"
    r"(?:he|she|they|customer|colleague|boss|manager|candidate|applicant|user) (?:wrote|sent)|"
    r"transcript|"
    r"(?:just )?kidding|joking|sarcas\w+|ironic\w*|lorem ipsum|jk|not really|never mind|scratch "
    r"that|"
    r"as (?:an? )?(?:ai|assistant|language model))\b|<<DOC |## \[[0-9a-f]{12}",
    _I,
)  # fmt: skip
_TOLD = re.compile(
    r"(?:^|\n)(?:subject|betreff|from|to|cc|sent): |(?:chat|call|conversation|meeting|voice ?mail|"
    r"message|e-?mail)s? "
    r"(?:log|thread|history|notes?|below|excerpt|reads?)\b|\b(?:dialogue|minutes|monologue|"
    r"lyrics)\b|"
    r"[^\s:]:[ \t]*\n+[ \t]*[\"“']?(?:I|we|my|our)\b",
    _I,
)
_INTRODUCED = re.compile(
    r"(?:^|[\n.!?]\s*)([^\n.!?:]*):[ \t]+[\"“']?(?:I|we|my|our)(?:\b|['’])", _I
)
_OWN_INTRODUCTION = re.compile(
    r"(?:(?:hi|hello|hey|just|for|a|an|as|some|my|more|quick|short|of|about|by the|so you|to be|"
    r"one|in|on me|"
    r"me|myself|context|background|note|fyi|record|reminder|way|btw|ps|know|thing|reference|setup|"
    r"clear|short|"
    r"intro|introduction|role|task|question|goal|purpose|preferences?|information|your|general|the|"
    r"all|there|"
    r"team|please|remember|mind|keep)[\s,–-]*){1,6}",
    _I,
)
_LABELLED = re.compile(
    r"^\s*(?:[-*] )?(?:\[[^\]\n]{3,40}\]\s*)?(?:\d{1,2}[:.]\d{2}\S*\s+(?:-\s*)?)?"
    r"\**([A-Z][\w.'’-]{0,24}(?: [A-Z][\w.'’-]{0,24}){0,2}|user|assistant|human|ai|system|q|a|me|"
    r"you)"
    r"(?: \([^)\n]{1,30}\))?\**\s?:\**(?:\s|$)",
    re.MULTILINE,
)
_OWN_LABELS_TEXT = """
task context format purpose role note question goal background tone depth ps p.s fyi
"""
_OWN_LABELS = frozenset(_OWN_LABELS_TEXT.split())
_STAMPED = re.compile(
    r"^\s*(?:<[\w .-]{1,20}> |[\[(]?\d{1,4}[-/:.]\d{1,2}\S*[\])]?[ ,].*?[:>] )", re.MULTILINE
)
_DOUBTS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("a supposition", re.compile(
        r"\b(?:if|unless|whether|would|could|should|might|maybe|perhaps|probably|possibly|wish|"
        r"hope|"
        r"hopefully|i(?:'d| had) (?:rather|like|love|prefer)|i (?:think|guess|suppose|assume|doubt|"
        r"wonder|believe|"
        r"feel)|not sure|as if|as though|in case|e\.g|for example|for instance|in theory|say,|what "
        r"about|"
        r"considering|thinking (?:of|about)|tempted|almost|someday|one day)\b", _I)),
    ("hearsay", re.compile(
        r"\b(?:said|says|saying|told|tells|wrote|writes|writing that|claims|claimed|according to|"
        r"mentioned|states|stated|"
        r"quot(?:e|ed|ing)|heard|read (?:that|somewhere)|apparently|supposedly|allegedly|"
        r"reportedly|thinks?|"
        r"believes?|asked|asks|insists?|argues?|rumou?rs?|(?:he|she|they|you)(?:'re| are|'s| is| "
        r"was| were))\b", _I)),
    ("irony", re.compile(
        r"\b(?:yeah,? right|oh (?:great|sure|yes|joy)|of course|obviously|clearly|totally|just "
        r"love|so much fun|"
        r"lol|ha(?:ha\w*)?|hehe\w*|bright side|rofl|love (?:it )?(?:when|how|that|being|getting|"
        r"waiting)|best thing ever|wow|bravo|"
        r"because who|living the dream|what a|such a joy|lucky me|genius)\b|/s\b|[🙄😂🤣😉😏]|"
        r"\.\.\.|…", _I)),
    ("only for now", re.compile(
        r"\b(?:today|tonight|tomorrow|yesterday|right now|at the moment|just now|for now|at "
        r"present|presently|"
        r"this (?:time|morning|afternoon|evening|week|month|quarter|one|question|answer|reply|chat|"
        r"conversation|"
        r"session|message|task|once|case|example|instance|section|part|file|page|prompt|thread|"
        r"sprint)|"
        r"(?:for|in) this\b|temporar\w+|next (?:week|month|day|step|time|year|quarter|sprint)|last "
        r"(?:week|night|time|monday|"
        r"tuesday|wednesday|thursday|friday|saturday|sunday)|so far|soon|later|meanwhile|ago|"
        r"already|yet|still|"
        r"again|anymore|any more|no longer|used to|stuck|trying|planning to|about to|going to|"
        r"gonna|currently(?! (?:work|employed)))\b", _I)),
    ("negated", re.compile(
        r"\b(?:i(?:'m| am) not|we(?:'re| are) not|(?:is|are|was|were)n'?t|not an?|is not|are not|"
        r"we (?:don'?t|do not|never did|didn'?t|did not|haven'?t|have not)|hardly|barely|neither|"
        r"nor)\b", _I)),
)  # fmt: skip
_ASKING = re.compile(
    r"(?:what|how|why|when|where|who|whom|whose|which|can|could|would|should|is|are|was|were|do|"
    r"does|"
    r"did|will|may|might|shall|am|have|has|had|any|ok so what)\b",
    _I,
)
_QUOTED = re.compile(r"[\"“„«]([^\"“”„«»\n]*)[\"”“»]")
_QUOTED_WORDS = 3
_MASKED = re.compile(
    r"^ {0,3}(`{3,}|~{3,}).*?(?:^ {0,3}\1[`~]*[ \t]*$|\Z)|^(?:[>|]|\t| {4})[^\n]*$", re.M | re.S
)
HEDGES = re.compile(
    r"\b(?:usually|mostly|often|sort of|kind of|kinda|basically|roughly|more or less|sometimes|"
    r"tend to|"
    r"a bit|somewhat|occasionally|in general|rather|fairly|mainly|typically|in a way|of sorts|"
    r"for the most part|by and large|as a rule|normally|generally|nearly|practically|"
    r"largely|partly)\b",
    _I,
)


def foreign(user_text: str) -> str:
    """Return why nothing in a turn can be taken for the user's own statement; empty: it can.

    Args:
        user_text: All that the user sent.
    """
    if len(user_text) > MAX_TURN_CHARS:
        return "too long to be said: something was pasted"
    labels = [name.lower() for name in _LABELLED.findall(user_text)]
    if (
        sum(name not in _OWN_LABELS for name in labels) >= 2
        or len(_STAMPED.findall(user_text)) >= 2
    ):
        return "a transcript"
    introduced = any(
        not _OWN_INTRODUCTION.fullmatch(words.strip()) for words in _INTRODUCED.findall(user_text)
    )
    other = introduced or _FOREIGN.search(user_text) or _TOLD.search(user_text)
    if other or any(known.brings_another_text(user_text) for known in languages().values()):
        return "it brings another text along, or plays"
    return ""


def masked(user_text: str) -> list[tuple[int, int]]:
    """Return the spans of code blocks and of quoted lines."""
    return [match.span() for match in _MASKED.finditer(user_text)]


def doubt(sentence: str) -> str:
    """Return why a statement is none, or not the user's, or not for good; empty: it is one."""
    other = spoken(sentence)
    if sentence.rstrip().endswith("?") or (not other and _ASKING.match(sentence)):
        return "a question"
    if any(len(words.split()) >= _QUOTED_WORDS for words in _QUOTED.findall(sentence)):
        return "a quotation"
    if other:
        return "in doubt, or not for good" if other.doubts.search(sentence) else ""
    return next((why for why, pattern in _DOUBTS if pattern.search(sentence)), "")
