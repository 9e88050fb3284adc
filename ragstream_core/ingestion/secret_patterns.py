"""What secrets look like: words to look for first, and the patterns tried around them."""

from __future__ import annotations

import re
from typing import NamedTuple


class Rule(NamedTuple):
    """One kind of secret.

    Attributes:
        kind: Its name for people.
        words: The pattern is tried where one of them stands.
        pattern: The secret is its group of that name, else all of it.
        weak: What it finds must look like a password as well.
    """

    kind: str
    words: tuple[str, ...]
    pattern: re.Pattern[str]
    weak: bool = False


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
        "aws-key", ("AKIA", "ASIA", "ABIA", "ACCA"),
        re.compile(r"\b(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}\b"),
    ),
    Rule(
        "github-token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
        re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{30,80}|github_pat_[A-Za-z0-9_]{30,120})"),
    ),
    Rule("gitlab-token", ("glpat-",), re.compile(r"\bglpat-[A-Za-z0-9_-]{20,60}")),
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
)  # fmt: skip
SHORT_RULES = tuple(rule for rule in RULES if rule.kind in ("private-key", "password-in-url"))
DIGIT = re.compile(r"[0-9]")
TOKEN_LENGTH = 16  # every vendor's token is as long at least, without a blank, and has a digit
VENDORS = (
    ("aws", "AWSKeyDetector", "aws-key", ("aws", "AWS")),
    ("github_token", "GitHubTokenDetector", "github-token", ("gh",)),
    ("gitlab_token", "GitLabTokenDetector", "gitlab-token", ("gl",)),
    ("slack", "SlackDetector", "slack-token", ("xox",)),
    ("stripe", "StripeDetector", "stripe-key", ("k_live_",)),
    ("square_oauth", "SquareOAuthDetector", "square-key", ("sq0csp-",)),
    ("telegram_token", "TelegramBotTokenDetector", "telegram-token", (":AA",)),
    ("mailchimp", "MailchimpDetector", "mailchimp-key", ("-us",)),
    ("npm", "NpmDetector", "npm-token", ("_authToken",)),
    ("discord", "DiscordBotTokenDetector", "discord-token", ("discord", "Discord", "DISCORD")),
    ("twilio", "TwilioKeyDetector", "twilio-key", ("twilio", "Twilio", "TWILIO")),
    ("artifactory", "ArtifactoryDetector", "artifactory-key", ("AKC",)),
    ("keyword", "KeywordDetector", "password", ("password", "passwd", "secret", "_key")),
)
