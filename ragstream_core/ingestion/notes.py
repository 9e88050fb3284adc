"""Notes as the programs show them that they are written with: Obsidian, Notion.

What is left out leaves its line ends, so that every line keeps its number.
"""

from __future__ import annotations

import re

# The folder that Obsidian makes in a vault.
VAULT = ".obsidian"
_NOTION_LINK = re.compile(r"(?<=\S)%20[0-9a-f]{32}(?=[/)]|\.(?:md|csv|html)\b|_all\.csv\b)")
_HIDDEN = re.compile(
    r"(?P<code>^ {0,3}(?P<fence>`{3,}|~{3,})[^\n]*\n(?:.*?^ {0,3}(?P=fence)[`~]*[ \t]*$|.*\Z)"
    r"|`[^`\n]+`)"
    r"|%%(?P<comment>.*?)%%"
    r"|(?<![=\w])==(?=[^\s=])(?P<marked>[^=\n]+)(?<=\S)==(?![=\w])"
    r"|(?<=\S)(?P<blank>[ \t]+)\^[A-Za-z0-9-]+[ \t]*$"
    r"|(?P<embed>!?)\[\[(?P<page>[^][|\n]*?)(?:\\?\|(?P<said>[^][\n]*))?\]\]",
    re.MULTILINE | re.DOTALL,
)


def as_shown(text: str, *, in_vault: bool) -> str:
    """Return Markdown without what only the program needs that it was written with."""
    if "%20" in text:  # Notion writes the id of a page into each link to it
        text = _NOTION_LINK.sub("", text)
    return _HIDDEN.sub(_shown, text) if in_vault else text


def _shown(found: re.Match[str]) -> str:
    if (page := found["page"]) is not None:
        said = "" if found["embed"] else found["said"]  # behind a picture stands its width
        return said or " > ".join(p for p in page.split("#") if p and p[0] != "^") or found[0]
    return found["code"] or found["marked"] or "\n" * found[0].count("\n")
