"""Secrets in documents: where a text seems to hold a key or a password; never the secret itself.

Words are looked for first, which costs next to nothing; patterns run only where one of their words
stands. What is only a secret beside such a word is looked for near it, in the same line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple


class Rule(NamedTuple):
    """One kind of secret.

    Attributes:
        kind: Its name for people.
        words: The pattern is tried where one of them stands.
        pattern: The secret is its group of that name, else all of it.
        weak: What it finds must look like a password as well.
        near: It is tried only around the words, within their line.
    """

    kind: str
    words: tuple[str, ...]
    pattern: re.Pattern[str]
    weak: bool = False
    near: bool = False


PASSWORD_WORDS = ("pass", "pwd", "secret", "token", "key", "pin ")
OF_A_KEY = ("api", "access", "auth", "private", "secret", "service", "account", "client", "master")
NAMED = re.compile(  # tried only where one of the words stands
    r"(?i)(?:pass(?:word|wd|phrase|code)?|pwd|secret|token|key)(?P<suffix>[\w-]{0,30})"
    r"[\"'`]?\]?\s{0,3}"
    r"(?::=|=>|==?|:)\s{0,3}[\"'`]?(?P<secret>[^\s\"'`,;<>(){}\[\]|]{8,200})"
)
ABOUT = re.compile(  # password_hash_algorithm: what is set is no secret
    r"(?i)(?:hash|algorithm|type|name|url|uri|length|size|policy|file|path|digest|count|id|field|"
    r"model|version|format|izer|s)$"
)
SAID = re.compile(
    r"(?i)(?:pass(?:word|phrase|code)|pin|secret|token|key)\s{1,3}(?:is|was)(?::|\s{1,3}now)?"
    r"\s{1,3}[\"'`]?(?P<secret>[^\s\"'`,;<>(){}\[\]]{4,100})"
)
_BASE64 = "A-Za-z0-9+/"
_QUOTED_WORDS = ("password", "passwd", "secret", "_key")
_QUOTED_NAME = (
    r"(?:(?:api|auth|service|account|db|database|private|priv|client)_?key|(?:db|database|key)_?pass"
    r"|password|passwd|pwd|secret|contrase(?:n|ñ)a)\w*"
)
_QUOTED = r"(?P<quote>[\"'`])(?P<secret>\w[^\"'\n]{4,200}[^,\"'`\n])(?P=quote)"
RULES = (
    Rule(
        "private-key", ("PRIVATE KEY",),
        re.compile(
            r"-----BEGIN [A-Z ]{0,20}PRIVATE KEY(?: BLOCK)?-----"
            r"(?:[^-]{0,8000}-----END [A-Z ]{0,20}PRIVATE KEY(?: BLOCK)?-----)?"
        ),
    ),
    Rule("openai-key", ("sk-",), re.compile(r"\bsk-(?!ant-)[A-Za-z0-9_-]{20,200}")),
    Rule("anthropic-key", ("sk-ant-",), re.compile(r"\bsk-ant-[A-Za-z0-9_-]{20,200}")),
    Rule(
        "aws-key", ("AKIA", "ASIA", "ABIA", "ACCA", "A3T"),
        re.compile(r"\b(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])[0-9A-Z]{16}\b"),
    ),
    Rule(
        "aws-key", ("aws", "AWS"),
        re.compile(
            r"(?i)aws.{0,20}?(?:key|pwd|pw|pass|token).{0,20}?['\"](?P<secret>[0-9a-z/+]{40})['\"]"
        ),
        near=True,
    ),
    Rule(
        "github-token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9_]{30,80}|github_pat_[A-Za-z0-9_]{30,120})"),
    ),
    Rule(
        "gitlab-token",
        ("glpat-", "gldt-", "glft-", "glsoat-", "glrt-", "glcbt-", "glimt-", "glptt-", "glagent-",
         "gloas-", "GR1348941"),
        re.compile(
            r"\b(?:gl(?:pat|dt|ft|soat|rt|cbt|imt|ptt|agent|oas)-[A-Za-z0-9_-]{20,1024}"
            r"|GR1348941[A-Za-z0-9_-]{20,50})"
        ),
    ),
    Rule("slack-token", ("xox",), re.compile(r"\bxox[abeoprs]-[A-Za-z0-9-]{10,200}")),
    Rule(
        "slack-webhook", ("hooks.slack.com/",),
        re.compile(r"https://hooks\.slack\.com/services/[A-Za-z0-9_/]{20,120}"),
    ),
    Rule("google-key", ("AIza",), re.compile(r"\bAIza[A-Za-z0-9_-]{35}")),
    Rule(
        "stripe-key", ("k_live_", "k_test_"),
        re.compile(r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{20,120}"),
    ),
    Rule("npm-token", ("npm_",), re.compile(r"\bnpm_[A-Za-z0-9]{36}\b")),
    Rule(
        "npm-token", ("/:_authToken",),
        re.compile(r"/:_authToken=\s{0,3}(?P<secret>npm_\S{1,200}|[A-Fa-f0-9-]{36})"),
    ),
    Rule("square-key", ("sq0csp-",), re.compile(r"sq0csp-[0-9A-Za-z\\_-]{43}")),
    Rule(
        "telegram-token", (":AA",), re.compile(r"\d{8,10}:AA[0-9A-Za-z_-]{33}"), near=True,
    ),
    Rule("mailchimp-key", ("-us",), re.compile(r"[0-9a-z]{32}-us[0-9]{1,2}"), near=True),
    Rule(
        "discord-token", ("discord", "Discord", "DISCORD"),
        re.compile(r"[MNO][A-Za-z\d_-]{23,25}\.[A-Za-z\d_-]{6}\.[A-Za-z\d_-]{27}"), near=True,
    ),
    Rule(
        "twilio-key", ("twilio", "Twilio", "TWILIO"), re.compile(r"(?:AC|SK)[a-z0-9]{32}"),
        near=True,
    ),
    Rule(
        "artifactory-key", ("AKC",),
        re.compile(r"(?<![^\s=:\"])AKC[A-Za-z0-9]{10,200}(?![^\s\"])"),
    ),
    Rule("pypi-token", ("pypi-Ag",), re.compile(r"\bpypi-Ag[A-Za-z0-9_-]{50,400}")),
    Rule("hugging-face-token", ("hf_",), re.compile(r"\bhf_[A-Za-z0-9]{30,60}\b")),
    Rule(
        "sendgrid-key", ("SG.",),
        re.compile(r"\bSG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{32,64}"),
    ),
    Rule(
        "json-web-token", ("eyJ",),
        re.compile(r"\beyJ[A-Za-z0-9_-]{10,2000}\.eyJ[A-Za-z0-9_-]{10,4000}\.[A-Za-z0-9_-]{10,1000}"),
    ),
    Rule(
        "azure-key", ("AccountKey=",),
        re.compile(rf"AccountKey=(?P<secret>[{_BASE64}]{{40,120}}={{0,2}})"),
    ),
    Rule(
        "password-in-url", ("://",),
        re.compile(r"://[^\s:/@\"'<>]{1,80}:(?P<secret>[^\s:/@\"'<>]{3,80})@"), weak=True,
    ),
    Rule(  # my_password[0] == "value", secret => 'value', "key": "value"
        "password", _QUOTED_WORDS,
        re.compile(rf"(?i){_QUOTED_NAME}[]'\"]{{0,2}}\s*(?::|!?={{1,3}}|=>)\s*{_QUOTED}"),
        weak=True, near=True,
    ),
    Rule(  # "value" != my_password
        "password", _QUOTED_WORDS,
        re.compile(rf"{_QUOTED}\s*[!=]{{2,3}}\s*\w*{_QUOTED_NAME}"), weak=True, near=True,
    ),
    Rule(  # private_key "value";
        "password", _QUOTED_WORDS,
        re.compile(rf"(?i){_QUOTED_NAME}\S{{0,50}}?\s*{_QUOTED};"), weak=True, near=True,
    ),
)  # fmt: skip
SHORT_RULES = tuple(
    rule for rule in RULES if rule.kind in ("private-key", "password-in-url", "password")
)
DIGIT = re.compile(r"[0-9]")
TOKEN_LENGTH = 16  # every vendor's token is as long at least, without a blank, and has a digit

# More in one text are not listed one by one.
MAX_FINDINGS = 100

_LOWER = {upper: upper + 32 for upper in range(ord("A"), ord("Z") + 1)}
_MAX_WINDOWS = 200  # the time of what is quoted grows with the square of a line's length
_BEFORE, _AFTER = 60, 200
_SHOWN = 5


class Finding(NamedTuple):
    """A place that seems to contain a secret: ``text[start:end]``; ``line`` counts from 1."""

    kind: str
    start: int
    end: int
    line: int


_PLACEHOLDERS = (
    "example", "changeme", "change-me", "your", "placeholder", "redacted", "dummy", "xxx", "***",
    "...", "…", "${", "{{", "env:", "todo", "<", "::",
)  # fmt: skip


def find_secrets(text: str) -> list[Finding]:
    """Return the places that seem to hold a secret, in order, none inside another."""
    words = text.split()
    long = max(map(len, words), default=0) >= TOKEN_LENGTH and any(
        len(word) >= TOKEN_LENGTH and DIGIT.search(word) for word in words
    )
    places = [*_by_rules(text, RULES if long else SHORT_RULES), *_passwords(text)]
    found: list[Finding] = []
    for start, end, kind in sorted(places, key=lambda p: (p[0], -p[1])):
        if len(found) == MAX_FINDINGS:
            break
        if not found or start >= found[-1].end:
            found.append(Finding(kind, start, end, text.count("\n", 0, start) + 1))
    return found


def redact(text: str, findings: Sequence[Finding]) -> str:
    """Return the text with ``[redacted:KIND]`` in each place."""
    parts, at = [], 0
    for finding in findings:
        parts += [text[at : finding.start], f"[redacted:{finding.kind}]"]
        at = finding.end
    return "".join([*parts, text[at:]])


def describe(findings: Iterable[Finding], *, page: int = 0) -> list[str]:
    """Return ``KIND (line N)`` of each finding; the page is named where there are pages."""
    where = f"page {page}, " if page else ""
    return [f"{finding.kind} ({where}line {finding.line})" for finding in findings]


def phrase(described: Sequence[str]) -> str:
    """Return one phrase for the first few of `describe`."""
    more = len(described) - _SHOWN
    return ", ".join(described[:_SHOWN]) + (f" and {more} more" if more > 0 else "")


def _by_rules(text: str, rules: Iterable[Rule]) -> Iterator[tuple[int, int, str]]:
    for rule in rules:
        if not any(word in text for word in rule.words):
            continue
        for start, end in _windows(text, rule.words) if rule.near else [(0, len(text))]:
            for match in rule.pattern.finditer(text, start, end):
                group = "secret" if "secret" in rule.pattern.groupindex else 0
                if not rule.weak or _strong(match[group], match[0]):
                    yield (*match.span(group), rule.kind)


def _passwords(text: str) -> Iterator[tuple[int, int, str]]:
    lower = text.lower()
    if len(lower) != len(text):  # some capitals grow: the places would not be the same
        lower = text.translate(_LOWER)
    for word in PASSWORD_WORDS:
        at = lower.find(word)
        while at >= 0:
            if word != "key" or lower[max(0, at - 9) : at].rstrip(" _-").endswith(OF_A_KEY):
                for pattern in (NAMED, SAID):
                    match = pattern.match(text, at)
                    if match is None or ABOUT.search(match.groupdict().get("suffix", "")):
                        continue
                    if _strong(match["secret"], match[0]):
                        yield (*match.span("secret"), "password")
            at = lower.find(word, at + len(word))


def _windows(text: str, words: tuple[str, ...]) -> Iterator[tuple[int, int]]:
    """Yield the surroundings of each word, within its line; a hostile text gives a limited few."""
    reached, count = 0, 0
    for match in re.finditer("|".join(map(re.escape, words)), text):
        if match.start() < reached:
            continue
        count += 1
        if count > _MAX_WINDOWS:
            return
        start = max(text.rfind("\n", 0, match.start()) + 1, match.start() - _BEFORE)
        line_end = text.find("\n", match.end())
        end = min(len(text) if line_end < 0 else line_end, match.end() + _AFTER)
        reached = end
        yield start, end


def _strong(secret: str, context: str) -> bool:
    """Say whether a value after ``password =`` looks like one rather than like a word or code."""
    value = secret.rstrip(".:!?")
    lower = value.lower()
    if any(mark in lower for mark in _PLACEHOLDERS) or " " in value or value.startswith(("$", "%")):
        return False
    digit = any(c.isdigit() for c in value)
    letter = any(c.isalpha() for c in value)
    if "://" in context:
        return True
    if ("/" in value and "." in value) or re.fullmatch(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+", value):
        return False  # a path, a name of code
    if digit and letter:
        return len(value) >= 6 and not re.fullmatch(
            r"[a-z]+[-_.]?\d{1,2}|\d+(?:[a-z]{1,3}|%)", lower
        )
    mixed = lower != value != value.upper() and not value.isalpha()
    return mixed and len(value) >= 8 and not re.fullmatch(r"[\w.-]+", value)
