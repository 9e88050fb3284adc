"""What must never be remembered, whatever it says: keys, passwords, numbers that open something.

The patterns for documents look for a secret's shape. Here the mere talk of one is enough: a fact
that is not remembered costs little, and a secret in a memory file goes into every prompt.
"""

from __future__ import annotations

import math
import re
from collections import Counter

_TALK = re.compile(
    r"\b(?:pass(?:word|wd|phrase|code|key)s?|pwd|pins?(?: ?codes?)?|api[ _-]?keys?|secrets?|"
    r"tokens?|"
    r"credentials?|(?:private|ssh|access|secret|encryption|licen[cs]e|recovery|master|signing)"
    r"[ _-]?(?:keys?|codes?|phrases?)|(?:door|gate|alarm|safe|entry|security|backup)[ _-]?codes?|"
    r"combination|cvv|cvc|iban|bic|routing number|account number|credit ?cards?|card number|"
    r"social security|ssn|passport (?:number|no)|seed phrase|mnemonic|otp|2fa|mfa code|"
    r"log ?in (?:is|with|details)|username|security question|mother'?s maiden|bearer|wallet|keypad|"
    r"padlock|unlock(?:s|ed)? (?:with|by|code)|"
    r"auth(?:entication)? (?:code|string)|session id|client id|sort code|tax (?:id|number)|logins?|"
    r"log(?:ged|ging)? in as|"
    r"\d{3,}\b[^.\n]{0,20}\bcode|"
    r"(?:code|combination|key|number|no)\b[^.\n]{0,20}?\b\d{4,}|keys? (?:is|are|was|=)|"
    r"(?:wi-?fi|wlan|vpn|router|hotspot|network) (?:key|code|login)|"
    r"(?:unlock\w*|opens?|safe|gate|door|vault|alarm|locker|lock)\b[^.\n]{0,40}?\b\d{2,}[-\d]*)\b",
    re.IGNORECASE,
)
_DIGITS = re.compile(r"(?:\d[ -]?){9,}|\b\d+(?:-\d+){3,}\b")
_TOKEN = re.compile(r"[^\s\"'`,;<>(){}\[\]|]{6,}")
_SYMBOL = re.compile(r"\w[!$%@#&*^~+=]+\w|\w[!$#*]$")
_SHUFFLED = re.compile(r"(?=.{16,})(?:[^A-Z]*[A-Z][^A-Z]+){5,}")
"""Capitals strewn over a long word."""
_LEAST_CHARS = 10
_LEAST_BITS = 3.2


def seems_secret(text: str) -> bool:
    """Say whether a text speaks of a secret, or holds a long number or a word without sense."""
    return bool(_TALK.search(text) or _DIGITS.search(text) or any(map(_random, _words(text))))


def _words(text: str) -> list[str]:
    return [word.rstrip(".,:;?") for word in _TOKEN.findall(text)]


def _random(word: str) -> bool:
    """Say whether a word looks drawn by lot: letters and digits mixed, and many different ones."""
    if _SHUFFLED.match(word) or (_SYMBOL.search(word) and letters_and_digits(word)):
        return True
    if "://" in word and "@" not in word:
        return False
    digits = sum(c.isdigit() for c in word)
    mixed = digits >= 2 or not word.replace("-", "").replace("/", "").isalnum()
    shouted = word != word.lower() and word != word.upper()
    looks = letters_and_digits(word) and (mixed or shouted)
    return len(word) >= _LEAST_CHARS and looks and entropy(word) >= _LEAST_BITS


def letters_and_digits(word: str) -> bool:
    """Say whether a word has both."""
    return any(c.isalpha() for c in word) and any(c.isdigit() for c in word)


def entropy(word: str) -> float:
    """Return the Shannon entropy of a word's characters: ``−Σ p·log2 p``, bits, ≥ 0."""
    counts = Counter(word)
    return -sum(n / len(word) * math.log2(n / len(word)) for n in counts.values()) + 0.0
