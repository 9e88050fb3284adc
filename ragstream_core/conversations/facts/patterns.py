"""What a statement looks like that is worth remembering: roles, preferences, facts, workflows.

Each pattern names the class, whom it is about, and how sure it is; its groups say what becomes of
the words. The first that fits is taken (R-254).
"""

from __future__ import annotations

import re
from typing import NamedTuple

_I = re.IGNORECASE
_AM = r"I(?:['’]m| am)"
_ADV = (
    r"(?:(?P<adv>always|generally|usually|really|strongly|definitely|also|personally|typically|"
    r"mostly|never|often|mainly) )?"
)
_WE = (
    r"(?:We|Our (?:company|team|organi[sz]ation|org|firm|department|group|office|shop|agency|"
    r"clinic|school|lab|business|studio|plant|unit|startup|start-up|practice|library|hospital)|The "
    r"(?:company|team)|My (?:company|team|employer|firm|department|organi[sz]ation|office))"
)
ROLE_NOUN = (
    r"(?:\w{2,}(?:er|or|ist|ian|yst|ect|eer|ant|ive|wright|man|woman|smith|ographer)|nurse|chef|"
    r"cook|pilot|"
    r"student|intern|lead|head|chief|director|vp|ceo|cto|cfo|coo|ciso|dba|sre|qa|pm|phd|postdoc|"
    r"mechanic|"
    r"freelancer|dean|clerk|judge|coach|aide|vet|midwife|surgeon|expert|specialist|agent|resident|"
    r"fellow|"
    r"principal|secretary|apprentice|trainee|attorney|deputy|parent|host|scribe|diver|official|"
    r"admin|guide|"
    r"technician|sommelier|barista|concierge|consultant|accountant|assistant|attendant|sergeant|"
    r"captain)"
)
_NO_ROLE_TEXT = """
user customer believer beginner newcomer reader follower lover hater winner loser bit little
fan visitor owner-to-be whatever never ever over under other another better matter number
order paper letter computer server helper thinker sucker stranger outsider person human
early bird member friend supporter sympathiser mother father sister brother former later
doer disaster monster stickler native speaker manner corner teenager amateur
"""
NO_ROLE = frozenset(_NO_ROLE_TEXT.split())
NO_OBJECT = re.compile(
    r"(?:it|this|that|these|those|them|him|her|you|your|things?|about|around|myself|ourselves|"
    r"yourself|our (?:chat|conversation|talk|discussion)s?|something|anything|everything|nothing|"
    r"stuff|one|ones|"
    r"some|all(?= of|$)|both(?= of|$)|the (?:first|second|third|last|other|former|latter|idea|"
    r"answer|option|plan|draft|way you|"
    r"above|same|rest|new one|old one|result|output|example|approach|suggestion|version)|"
    r"option|to (?:know|see|hear|ask|think|say|point|hear|report|understand|learn more|thank|start|"
    r"begin|get|go|have|be|find|make sure)|"
    r"an? (?:(?:good|great|nice) (?:team|pair|couple|match)|problem|issue|bug|question|doubt|"
    r"meeting|call|deadline|idea|error|outage|chance|"
    r"moment|minute|feeling|"
    r"hard time|look|lot|few|couple|bit|mess|hunch|request|favou?r|headache|cold|break|go|try|"
    r"quick|small|strange|weird|weak|table like)|"
    r"no |some |(?:the|our|my|a) (?:\w+ )?(?:meeting|call|deadline|appointment|date|launch|"
    r"session)\b|trouble|problems|issues|errors|not to say|what|how|where|when|many|lots|much|"
    r"enough|"
    r"(?:\w+ ){0,2}(?:problem|issue|bug|question|error|outage|trouble|failure|failures)s?\b)\b",
    _I,
)  # fmt: skip
MOOD = re.compile(
    r"\b(?:fail(?:s|ed|ing|ure)?|crash\w*|broken?|breaks|error\w*|bugs?|problems?|issues?|hang(?:s|"
    r"ing)?|freez\w+|wonder\w*|"
    r"forget\w*|struggl\w+|lose|losing|tired|confus\w+|annoy\w+|frustrat\w+|mad|crazy|sick|cry|"
    r"suffer\w*|blame|"
    r"down|red|slow|late|missing|wrong|weird|strange|angry|happy|sad|sorry|afraid|bored|hungry|"
    r"glad|"
    r"stuck|lost|behind|busy|done|finished|ready|sure|back|here|there)\b",
    _I,
)
_THING = (
    r"(?:files?|commands?|cop(?:y|ies)|index|steps?|guide|changes?|prs?|pull requests?|fix|images?|"
    r"plan|pages?|lines?|"
    r"links?|loop|parser|class|functions?|sum|tables?|models?|drafts?|documents?|docs|sections?|"
    r"chapters?|scripts?|"
    r"tests?|logs?|code|data|lists?|errors?|reports?|answers?|questions?|text|handbook|output|"
    r"results?|rows?|columns?|"
    r"cells?|pictures?|numbers?|version|title|order|repository|repo|terminal|browser|summary|train|"
    r"bus|word|words|"
    r"pdf|paragraph|sentence|prompt|option|example|branch|folder|notebook|config|settings?|patch|"
    r"commit|part|bit)"
)

# Things that lie on the table of a conversation: what is said of them is not said for good.
DEIXIS = re.compile(
    rf"\b(?:the|an?|this|that|these|those|my|our|first|second|next|last) (?:\w+ )?{_THING}"
    r"(?=\W*$|,|\s+(?:and|with|of|in|on|to|from|by|then|below|above|again|first|for|has|is|are|"
    r"uses?|at|says)\b)|"
    rf"^(?:first |second |next |last |only )?{_THING} (?:is|are|has|have|uses?|says)\b|^(?:first|"
    rf"second|next|last|only) |"
    r"\b(?:it|this|that|them|these)\W*$",
    _I,
)
_DAY = r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
RECURRING = re.compile(
    rf"\b(?:(?:every|each) (?:other |second |third |single |two |three |four |six |\d+ |working |"
    rf"business |"
    rf"calendar |first |last )?(?:{_DAY}s?|day|morning|afternoon|evening|night|week(?:end)?s?|"
    rf"months?|quarter|year|sprint|"
    rf"release|hour|days|hours|semester|season|spring|summer|autumn|fall|winter|shift|january|"
    rf"february|march|april|"
    rf"may|june|july|august|september|october|november|december)|"
    rf"on (?:the (?:first|second|third|last|\d+\w\w) (?:\w+ ){{0,3}}of (?:the|each|every) month|"
    rf"(?:\w+ )?{_DAY}s|weekends|weekdays)|"
    rf"(?:bi-?weekly|weekly|daily|monthly|quarterly|nightly|annually|yearly|hourly|"
    rf"fortnightly)(?=[ ,.]|$)|"
    rf"(?:once|twice|three times|four times) (?:a|per|each|every) (?:day|week|month|quarter|year)|"
    rf"at the (?:end|start|beginning) of (?:each|every|the) (?:day|week|month|quarter|year|sprint|"
    rf"shift)|"
    rf"(?:{_DAY}|morning|weekend)s\b)",
    _I,
)  # fmt: skip
_RUNS = (
    "use|host|store|deploy|ship|sell|make|build|develop|offer|operate|employ|support|require|bill|"
    "invoice|"
    "follow|write|run|have|keep|release|manage|maintain|log|track|rely|outsource|own|speak|serve|"
    "produce|"
    "manufacture|archive|encrypt|document|publish|distribute|teach|treat|grow|export|pay|buy|lease|"
    "rent|"
    "forbid|ban|allow|standardi[sz]e|work|insure|measure|budget|provide|license|comply|purchase|"
    "back"
)


class Pattern(NamedTuple):
    """One kind of statement."""

    kind: str  # ``role``, ``preference``, ``company`` or ``workflow``
    target: str  # ``user`` or ``company``
    sure: float  # confidence in [0, 1]
    # matches a whole clause; group ``said`` and perhaps ``verb``, ``adv``, ``what``
    pattern: re.Pattern[str]
    becomes: str  # form of the new sentence behind its subject: ``{verb}`` is conjugated
    check: tuple[str, ...] = ()  # names what else must hold: ``role``, ``object``, ``recurring``


def _p(kind: str, target: str, sure: float, text: str, becomes: str, *check: str) -> Pattern:
    return Pattern(kind, target, sure, re.compile(text, _I), becomes, check)


_TELL = (
    "(?:give(?! up| it)|use|answer|cite|show|write|include|add|put|format|explain|start|end|keep|"
    "quote|name|"
    "mention|return|list|"
    "call|address|reply|respond|translate|convert|round|spell|link|number|sign|provide|state|"
    "summari[sz]e|avoid|skip|"
    "prefer|check|ask|assume|begin|print|speak|send|express|note|mark|highlight|leave|phrase|order|"
    "sort|attach|warn|tell)"
)
PATTERNS = (
    _p(
        "role",
            "user", 0.9,
                rf"{_AM} (?P<what>(?:an?|the|one of the) "
                rf"(?P<said>.+))", "is {what}", "role", "lasting"),
    _p(
        "role",
            "user", 0.9,
                rf"{_AM} (?P<what>(?:(?:head|chief|director|vp|ceo|cto|cfo|coo|ciso|lead|"
                rf"co-?founder|founder|chair|professor|president|treasurer|deputy|principal|senior|"
                rf"junior)\b)(?P<said>.*))", "is {what}"),
    _p(
        "role",
            "user", 0.9,
                rf"{_AM} (?P<what>(?:responsible for|in charge of|employed (?:at|by|as)|training "
                rf"to be|studying|on the (?=(?:\w+ ){{0,3}}(?:team|board|committee|staff)\b)) "
                rf"(?P<said>.+))", "is {what}", "object", "lasting"),
    _p(
        "preference",
            "user", 0.85,
                rf"{_AM} (?P<what>(?:allergic to|(?:a )?vegetarian|(?:a )?vegan|left-handed|"
                rf"colou?r-?blind|dyslexic|lactose intolerant|deaf|"
                rf"blind)(?P<said>.*))", "is {what}"),
    _p(
        "role",
            "user", 0.9,
                r"As (?P<what>(?:an?|the) (?P<said>[^,]+)), (?:I|my)\b.*", "is {what}", "role"),
    _p(
        "role",
            "user", 0.9,
                r"I(?:['’]ve| have) (?P<what>(?:been (?:an?|the) |worked (?:as|at|for|in) "
                r")(?P<said>.+))", "has {what}", "role"),
    _p(
        "role",
            "user", 0.9,
                r"I (?:currently )?(?P<verb>work) (?P<said>(?:as|for|at|in|on|out of|from) "
                r".+)", "{verb} {said}", "place", "lasting"),
    _p(
        "role",
            "user", 0.9,
                rf"{_AM} (?P<what>(?:currently )?(?:working|employed) (?P<said>(?:as|for|at|by) "
                r".+))", "is {what}", "place", "lasting"),
    _p(
        "role",
            "user", 0.9,
                r"I (?P<verb>live) (?P<said>(?:in|near|outside(?: of)?) .+)",
        "{verb} {said}", "named"),
    _p(
        "role",
            "user", 0.9,
                rf"{_AM} (?P<what>(?:based|living|located|from|originally from) (?P<said>.+))",
        "is {what}", "named"),
    _p(
        "role",
            "user", 0.9,
                r"My (?P<what>(?:(?:first|last|full) )?name is (?P<said>.+))",
        "'s {what}", "named"),
    _p(
        "role",
            "user", 0.85,
                rf"I {_ADV}(?P<verb>lead|manage|head|oversee|supervise|teach|specialise|specialize|"
                rf"study|chair|coordinate|direct|coach) (?P<said>(?!to\b|"
                rf"with\b).+)", "{adv}{verb} {said}", "object", "lasting"),
    _p(
        "role",
            "user", 0.85,
                r"I (?P<verb>run|own) (?P<said>(?:the|an?|my|our) (?:\w+ ){0,4}(?:team|department|"
                r"group|shop|store|business|company|practice|clinic|agency|studio|bakery|farm|lab|"
                r"platform|restaurant|café|cafe|school|hotel)\b.*)", "{verb} {said}"),
    _p(
        "role",
            "user", 0.9,
                r"My (?P<what>(?:current )?(?:job|role|job title|title|position|profession|"
                r"occupation|employer|specialty|speciality|field|job description|department|mother "
                r"tongue|native language|time ?zone) is (?P<said>(?!too\b|very\b|empty\b|missing\b|"
                r"that\b|not\b|so\b|unclear\b|ok\b|fine\b|blank\b|hidden\b|cut\b|shown\b|in the\b|"
                r"on the\b|at the\b|to\b|cut\b|misspel|"
                r"wrongly\b).+))", "'s {what}", "object", "lasting"),
    _p(
        "workflow",
            "user", 0.85,
                rf"I {_ADV}(?P<verb>[a-z]+) "
                rf"(?P<said>.+)", "{adv}{verb} {said}", "recurring", "verb", "object"),
    _p(
        "workflow",
            "user", 0.85,
                rf"(?:Every|Each|On|Once|At the) .{{2,40}}?,? I {_ADV}(?P<verb>[a-z]+) "
                rf"(?P<said>.+)", "{adv}{verb} {said} {lead}", "recurring", "verb", "object"),
    _p(
        "workflow",
            "company", 0.85,
                rf"{_WE} {_ADV}(?P<verb>[a-z]+) "
                rf"(?P<said>.+)", "{adv}{verb} {said}", "recurring", "verb", "object"),
    _p(
        "workflow",
            "company", 0.85,
                rf"(?:Every|Each|On|Once|At the|Twice) .{{2,40}}?,? {_WE} {_ADV}(?P<verb>[a-z]+) "
                rf"(?P<said>.+)", "{adv}{verb} {said} {lead}", "recurring", "verb", "object"),
    _p(
        "workflow",
            "company", 0.85,
                r"Our (?P<what>(?P<said>.+? (?:is|are|runs?|happens?|takes? place|starts?|ends?|"
                r"goes|go|closes?|meets?|opens?|gets?|rotates?|refresh(?:es)?|syncs?) "
                r".+))", "'s {what}", "recurring"),
    _p(
        "workflow",
            "user", 0.85,
                r"My (?P<what>(?P<said>.+? (?:is|are|runs?|happens?|takes? place|starts?|ends?|"
                r"goes|go|closes?|meets?|syncs?) .+))", "'s {what}", "recurring"),
    _p(
        "preference",
            "user", 0.85,
                rf"I {_ADV}(?P<verb>prefer|like|love|hate|dislike|favou?r|enjoy|avoid|detest|want) "
                rf"(?P<said>.+)", "{adv}{verb} {said}", "object", "want", "lasting"),
    _p(
        "preference",
            "user", 0.85,
                r"I (?P<what>(?:can['’]?t|cannot) stand (?P<said>.+))", "{what}", "object"),
    _p(
        "preference",
            "user", 0.85,
                r"I (?:don['’]?t|do not) (?P<what>(?:really )?(?:like|use|eat|drink|enjoy|care for|"
                r"read|take|work) (?P<said>.+))", "does not {what}", "object", "lasting"),
    _p(
        "preference",
            "user", 0.85,
                r"I (?P<adv>always|never) (?P<verb>[a-z]+) "
                r"(?P<said>.+)", "{adv}{verb} {said}", "object", "verb", "lasting"),
    _p(
        "preference",
            "user", 0.9,
                r"My (?P<what>(?:favou?rite|preferred|default|go-to|usual|preference|preferences) "
                r"(?!part\b|answer\b|thing\b|bit\b|one\b|line\b|page\b|section\b|chapter\b|"
                r"quote\b)(?P<said>.+? (?:is|are) .+)|(?:preference|preferences) (?:is|are) "
                r".+)", "'s {what}"),
    _p(
        "preference",
            "user", 0.8,
                rf"(?:Please )?(?P<what>(?:always|never) (?P<said>{_TELL} "
                rf".+))", "asks: {what}", "standing"),
    _p(
        "preference",
            "user", 0.8,
                rf"From now on,? (?:please )?(?P<what>(?P<said>(?:always |never |only |do not |"
                rf"don['’]t )?{_TELL} .+))", "asks: from now on {what}", "standing"),
    _p(
        "company",
        "company", 0.85,
            rf"{_WE} (?:have |['’]ve )?(?:recently |fully |officially )?(?P<what>(?:migrated|"
            rf"switched|moved) (?P<said>.*\b(?:from|to|over to|onto|off)\b "
            rf".+))", "{what}", "place", "change", "lasting"),
    _p(
        "company",
        "company", 0.85,
            rf"{_WE} (?:have |['’]ve )?(?:recently |fully |officially )?(?P<what>(?:adopted|"
            rf"standardi[sz]ed on|acquired|merged with|rebranded|banned|outsourced|replaced|"
            rf"retired|consolidated|were acquired by|were founded|was founded) "
            rf"(?P<said>.+))", "{what}", "object", "lasting"),
    _p(
        "company",
        "company", 0.85,
            rf"{_WE}(?:['’]re| are| is) (?P<what>(?:based|headquartered|located|registered|"
            rf"regulated|certified|audited|organi[sz]ed|subject to|required to|not allowed to|"
            rf"fully|owned|funded|an?(?! (?:team|group|family|mess|pair|couple|bit|minute|hour|day|"
            rf"week)\b)|ISO|SOC|HIPAA|\d+) (?P<said>.+))", "is {what}", "place", "lasting"),
    _p(
        "company",
        "company", 0.85,
            rf"{_WE} {_ADV}(?P<verb>(?:{_RUNS})s?) "
            rf"(?P<said>.+)", "{adv}{verb} {said}", "object", "verb", "lasting"),
    _p(
        "company",
        "company", 0.8,
            r"Our (?P<what>(?P<said>(?!(?:\w+ )?(?:problem|question|issue|goal|plan|idea|task|"
            r"guess|"
            r"bug|meeting|next|test|build|kids?|child(?:ren)?|son|daughter|baby|dogs?|cats?|pets?|"
            r"fam(?:ily)?|friend(?:s|ship)?|home|house|wedding|trip|vacation|marriage|bond|li(?:fe|"
            r"ves)|"
            r"future|hobby|love|garden|parents|mom|dad|neighbou?rs?|\S*-year-old)\b)(?:[\w/&'’-]+ "
            r"){1,4}?(?:is|are|runs?|uses?|starts?|ends?|"
            r"lives?|has|have|requires?|must|follows?|sits|closes?|opens?|covers?|consists?|comes?|"
            r"targets?|speaks?|supports?|ships?|forbids?|allows?|expires?|lasts?)(?: "
            r"\S+)+))", "'s {what}", "lasting"),
)  # fmt: skip
