"""What is asked: intent, domain, deliverable and artefacts, by rules (R-164).

The same words give the same shape everywhere. The first rule that fits wins, so the order of the
tables is part of the rule; `intents` has one of its own. A role is proposed only if it is surely
right: the ask is about software and does not ask for a mail, a summary or another text for people.

A domain is one of the names below if a word of that trade stands in the text, or one of its
everyday words in a text that is surely about software ("train", "model" and "weight" alone may mean
railways); else the person's own words: what stands behind "about", or what they say twice.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence

from ragstream_core.records import BODY_DEFAULTS, SuperPrompt
from ragstream_core.records.stage_results import Shape
from ragstream_core.text.intents import intent_of
from ragstream_core.text.task_words import TEXTS, is_saying, what_is_asked
from ragstream_core.text.terms import stems, terms

UNDETERMINED = "undetermined"
MAX_DOMAIN = 40
MAX_WORDS = 5000
# trade words | everyday words
_DOMAINS = (
    (
        "retrieval",
        "rerank embeddings bm25",
        "embed retriev vector index chunk search semantic rag corpus",
    ),
    ("orchestration", "dagster", "airflow pipeline asset sensor schedul job partition workflow"),
    (
        "database",
        "sql sqlite postgres",
        "database query schema transaction migration table catalog",
    ),
    ("security", "csrf", "secur auth token secret encrypt password permission vulnerab inject"),
    ("testing", "pytest", "test hypothesis coverage assert mock fixture"),
    ("deployment", "docker kubernetes", "deploy helm container server port install release"),
    ("frontend", "streamlit css html", "page button ui browser react widget"),
    ("machine learning", "tokeniz llm gpu", "model train neural weight transformer prompt agent"),
    ("configuration", "yaml toml", "config setting environ flag option default"),
    ("storage", "fsync", "file disk atomic backup snapshot durable directory path"),
)
DOMAINS = tuple(name for name, _, _ in _DOMAINS)
CODE_SUFFIX = re.compile(
    r"\.(?:py|pyi|ipynb|js|jsx|ts|tsx|java|kt|go|rs|c|h|cc|cpp|hpp|cs|rb|php|swift|scala|sh|sql|tf"
    r"|proto|lua|pl|r|jl|vue|svelte)\b",
    re.IGNORECASE,
)
_URL = re.compile(r"https?://\S{1,400}")
_SOFTWARE = re.compile(
    r"`[^`\n]{0,80}[\w)]`|^```|\b\w+\(\)|\b[a-z]\w*_[a-z]\w*\b|\b[A-Z]\w+(?:Error|Exception)\b"
    r"|\b(?i:python|javascript|typescript|golang|c\+\+|sqlite3?|postgres(?:ql)?|mysql|faiss|numpy"
    r"|pytest|unit[ -]tests?|traceback|stack ?trace|segfault|docker(?:file)?|docker-compose"
    r"|kubernetes|github|gitlab|pull requests?|merge requests?|code ?base|source code|refactor"
    r"|dagster|apache airflow|airflow dags?|streamlit|bm25|cross-encoder)\b",
    re.MULTILINE,
)
_WRITES = re.compile(
    r"\b(?:(?:re)?write|draft|compose|prepare|improve|polish|proofread|review|schreib\w{0,3}"
    r"|verfass\w{0,2}|erstell\w{0,2}|écri\w{1,5}|rédige\w{0,2}|escrib\w{1,3}|redact\w{1,2}"
    rf"|scriv\w{{1,4}})\b[^.!?\n]{{0,60}}\b(?:{TEXTS})\b"
    r"|\b(?:summari[sz]e|translate|übersetz\w{0,2}|traduis|traduce|riassumi|résume[rz]?)\b"
    r"|\bfass\w{0,2}\b[^.!?\n]{0,80}\bzusammen\b|总结|總結|翻译|翻譯|邮件|要約|翻訳",
    re.IGNORECASE,
)
_ABOUT = re.compile(
    r"\b(?:about|regarding|concerning|on the subject of|über|bezüglich|zum thema|à propos de"
    r"|au sujet de|sobre|acerca de|riguardo a)"
    r"\s+((?:[^\W\d_][\w-]{0,30}\s+){0,4}[^\W\d_][\w-]{0,30})"
    r"|(?:关于|關於)([^，。？！\s的]{2,12})|([^、。？！\sはがを]{2,12})について",
    re.IGNORECASE,
)
_NAME = re.compile(r"[^\W\d_][\w-]{2,30}")
_LITTLE = frozenset(stems("thing things way please question answer example detail point today new"))


def is_software(text: str) -> bool:
    """Return whether a text is surely about software: code, an error, a tool of the trade."""
    plain = _URL.sub(" ", text)
    return bool(_SOFTWARE.search(plain) or CODE_SUFFIX.search(plain))


def asks_for_text(text: str) -> bool:
    """Return whether a mail, a summary, a translation or another text for people is asked for."""
    return _WRITES.search(text) is not None


def domain_of(text: str, *, least: int = 1, near: Sequence[str] = ()) -> str:
    """Return what a text is about, at most 40 characters, or ``undetermined``.

    ``least`` words of a named domain make it; else the word that the texts near say most often.
    """
    return _named(text, least) or _own_words(text, near) or UNDETERMINED


def settled_by(texts: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that Hard Rules or Project Memory settle: header → who settles it."""
    found: dict[str, str] = {}
    for name, text in texts.items():
        for key, pattern in _SETTLES.items():
            if pattern.search(text):
                found.setdefault(key, name)
    return found


_SETTLES = {
    "role": re.compile(
        r"^[\W\d]{0,6}(?:role|rolle|persona)\s*[:=]"
        r"|\b(?:you are|act as|du bist|sie sind) (?:an?|the|eine?|de[rs]|die) ",
        re.IGNORECASE | re.MULTILINE,
    ),
    "format": re.compile(r"^[\W\d]{0,6}(?:format|output)\s*[:=]", re.IGNORECASE | re.MULTILINE),
    "depth": re.compile(r"^[\W\d]{0,6}(?:depth|length)\s*[:=]", re.IGNORECASE | re.MULTILINE),
}


def _named(text: str, least: int) -> str:
    words = re.findall(r"[a-z0-9]{2,40}", text.lower())[:MAX_WORDS]
    sure = is_software(text)
    best, found = 0, ""
    for name, trade, everyday in _DOMAINS:
        known = _count(words, trade)
        score = known + _count(words, everyday)
        if score >= least and score > best and (known or sure):
            best, found = score, name
    return found


def _count(words: Sequence[str], begins: str) -> int:
    known = tuple(begins.split())
    return sum(word.startswith(known) for word in words)


def _own_words(text: str, near: Sequence[str]) -> str:
    """Return the subject of a text in its own words, or an empty text."""
    about = _ABOUT.search(text)
    if about:
        said = [
            word
            for word in (about[1] or about[2] or about[3]).split()
            if terms(word) and not is_saying(word)
        ]
        return " ".join(said)[:MAX_DOMAIN].strip().lower()
    surface: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for word in _NAME.findall(what_is_asked(text))[:MAX_WORDS]:
        stem = next(iter(terms(word)), "")
        if stem and stem not in _LITTLE and not is_saying(word):
            counts[stem] += 1
            surface.setdefault(stem, word.lower())
    others = Counter(stem for anchor in near for stem in terms(anchor))
    ranks = [(-(n + others[stem]), stem) for stem, n in counts.items() if n > 1 or others[stem] > 1]
    return surface[min(ranks)[1]][:MAX_DOMAIN] if ranks else ""


_DELIVERABLES = (
    ("tests", r"\b(?:unit tests?|test cases?|write (?:\w{1,30} ){0,3}tests?|test plan)\b"),
    ("spec", r"\b(?:spec|specification|requirements? document|design document|adr)\b"),
    ("plan", r"\b(?:plan|roadmap|milestones|steps to migrate|checklist)\b"),
    ("review", r"\b(?:review|audit|critique)\b"),
    ("docs", r"\b(?:readme|changelog|documentation page|docs page|docstrings?|tutorial)\b"),
    ("config", r"\b(?:config(?:uration)? file|ya?ml|toml|dockerfile|workflow file)\b"),
    ("code", r"\b(?:code|function|class|script|snippet|patch|implement\w*|refactor\w*|fix)\b"),
)
_ROLES = {
    "compare": "a technical consultant who weighs options evenly",
    "review": "a careful senior reviewer",
    "fix": "a debugging engineer who finds the cause before the cure",
    "test": "a test engineer",
    "plan": "a technical lead who plans in small steps",
    "specify": "a systems analyst who writes testable requirements",
    "document": "a technical writer",
    "implement": "a senior software engineer",
    "configure": "an operations engineer who knows this system",
    "locate": "a maintainer who knows where everything is",
    "explain": "a maintainer who explains this system to a colleague",
}
_FORMATS = {
    "tests": "test code in one block, then what it covers",
    "spec": "numbered, testable requirements",
    "plan": "numbered steps, each with its result",
    "review": "findings by severity, each with its place and a remedy",
    "docs": "Markdown ready to be committed",
    "config": "the file in one code block, then one line a changed key",
    "code": "code in one block, then a short explanation",
    "answer": "the direct answer first, then the reasons",
    "text": "the text itself, ready to be used",
}
INTENTS = tuple(_ROLES)
DELIVERABLES = tuple(_FORMATS)
_SHORT = re.compile(
    r"\b(?:brief(?:ly)?|short(?:ly)?|concise(?:ly)?|in one sentence|tl;?dr)\b", re.IGNORECASE
)

# Of scripts that part words by blanks, and the accents that some systems write behind a letter.
_LETTERS = "A-Za-z0-9_\u00c0-\u024f\u0300-\u036f\u0370-\u052f"
_PATH_CHARS = re.compile(rf"[{_LETTERS}~.*?\[\]/\\-]+")
_SUFFIX = re.compile(rf"[{_LETTERS}*\]-]\.[A-Za-z0-9]{{1,8}}$")
MAX_PATH = 200
_BUILT = ("tests", "code", "config")


def _named_deliverable(text: str) -> str:
    found = (name for name, words in _DELIVERABLES if re.search(words, text, re.IGNORECASE))
    return next(found, "answer")


def path_tokens(text: str) -> list[str]:
    """Return what looks like a path or a glob in a text, in order, each once."""
    found: dict[str, None] = {}
    for match in _PATH_CHARS.finditer(text):
        token = match.group().replace("\\", "/").strip("[]").rstrip(".?-").removeprefix("./")
        inner = "/" in token.strip("/")
        named = any(c.isalpha() or c in "*?" for c in token.rsplit(".", 1)[0])  # not "1.x"
        if len(token) <= MAX_PATH and (inner or _SUFFIX.search(token)) and named:
            found[token] = None
    return list(found)


def classify(task: str, *anchors: str) -> Shape:
    """Shape an ask; of the anchors, in falling authority, the first with a domain may settle it."""
    intent = intent_of(task) or "explain"
    domains = (domain_of(task, near=anchors), *(domain_of(text, least=2) for text in anchors))
    domain = next((found for found in domains if found != UNDETERMINED), UNDETERMINED)
    return Shape(intent, domain, deliverable_of(task, intent), tuple(sorted(path_tokens(task))))


def deliverable_of(task: str, intent: str, *, software: bool = False) -> str:
    """Return what is to be handed over; code only if the ask is surely about software."""
    if asks_for_text(task):
        return "text"
    found = _named_deliverable(task) if intent != "explain" else "answer"
    return found if found not in _BUILT or software or is_software(task) else "answer"


def role_is_sure(task: str) -> bool:
    """Return whether the role by the intent is surely right for a task; else none is better.

    The intent must stand in its words, and not be the default.
    """
    return intent_of(task) != "" and is_software(task) and not asks_for_text(task)


def propose_headers(shape: Shape, task: str) -> dict[str, str]:
    """Propose role, format and depth for a shape; the caller fills only what is free and sure."""
    proposal = {"role": _ROLES[shape.intent], "format": _FORMATS[shape.deliverable]}
    if _SHORT.search(task):
        proposal["depth"] = "low"
    return proposal


def material_change(before: Shape, after: Shape) -> bool:
    """Decide whether a change of scope is material (R-164).

    True for another intent, domain, deliverable type, or target artefact set; a change of tone,
    audience or format never comes here, because a shape does not hold them.
    """
    return before.scope != after.scope


def free_keys(prompt: SuperPrompt) -> set[str]:
    """Return the body keys the person left open, be they settled by the rules or not.

    A key is free when it is empty, still has its default, or holds A2's own earlier proposal, and
    neither a header of the prompt nor the settings set it; who says SYSTEM has said the role too.
    """
    explicit = {*prompt.extras.explicit, *prompt.extras.persona}
    explicit |= {"role"} if "system" in explicit else set()
    own = prompt.extras.shape.proposed
    return {
        key
        for key in ("role", "format", "depth")
        if key not in explicit
        and prompt.body.get(key, "") in ("", BODY_DEFAULTS.get(key, ""), own.get(key, ""))
    }
