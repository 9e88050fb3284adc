"""What stands in a message beside its words: documents, code, pictures asked for, and results.

A tool that writes for the person (a document, a program, the text a picture is made of) wrote part
of the answer, and what a program printed is what the person got. Pages that a search brought are
neither: they are counted, and the report of the import tells of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

# Letters kept of a document or a pasted text, and of what a program printed.
MOST_LETTERS, MOST_OF_A_RESULT = 400_000, 20_000
_TARGETS = (
    "file_path", "path", "command", "cmd", "pattern", "url", "query", "q", "description",
    "questions",
)  # fmt: skip
_TARGET_LETTERS = 80
_SHELLS = {"bash", "sh", "zsh", "/bin/bash", "/bin/sh", "/bin/zsh"}
_TITLES = ("title", "name", "path", "file_path", "filename", "identifier", "id")
_BODIES = ("content", "file_text", "new_str", "replacement", "text")

# Tools that bring what others wrote.
_LOOKS_UP = re.compile(r"search|brows|\bweb|fetch|quote|retriev|drive|recent_chats|\bview\b", re.I)
_SAYS_DONE = re.compile(
    r"canmore|dalle|image_gen|t2uay3k|bio\b|artifacts|create_file|str_replace|present_files"
)
_ARTIFACT, _THINKING = ("<antArtifact", "</antArtifact>"), ("<antThinking>", "</antThinking>")
_TITLE = re.compile(r'title="([^"]{0,200})"')


def cut(text: str, most: int = MOST_LETTERS) -> str:
    """Return a text, or its beginning and how much more there was."""
    if len(text) <= most:
        return text
    return f"{text[:most]}\n\n[{len(text) - most:,} more letters are not kept]"


def fenced(code: str, language: str = "") -> str:
    """Return code as Markdown shows it, whatever fences stand in it."""
    longest = max((len(run) for run in re.findall(r"`{3,}", code)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{cut(code)}\n{fence}"


def parsed(given: object) -> object:
    """Return what a call was given: JSON as what it says, anything else as it is."""
    if isinstance(given, str) and given.lstrip()[:1] in ("{", "["):
        try:
            return json.loads(given)
        except (ValueError, RecursionError):
            pass
    return given


def written(name: str, given: object) -> list[str]:
    """Return what a call wrote for the person to read; empty if it only looked something up."""
    if _LOOKS_UP.search(name):
        return []
    what = parsed(given)
    if isinstance(what, str):
        return [_plain(name, what)] if what.strip() else []
    return _blocks(what, "") if isinstance(what, dict) else []


def _plain(name: str, text: str) -> str:
    language = "python" if name.split(".")[0] == "python" else ""
    return cut(text) if name.startswith("bio") else fenced(text, language)


def _blocks(what: Mapping[str, Any], title: str) -> list[str]:
    title = next((t for key in _TITLES if isinstance(t := what.get(key), str) and t), title)
    found = []
    old = next((o for o in (what.get("old_str"), what.get("pattern")) if isinstance(o, str)), "")
    place = f"“{_short(old)}”" if old.strip(".*") else ""
    for key in _BODIES:
        body = what.get(key)
        if isinstance(body, str) and body.strip():
            kind = f"{what.get('type') or ''} {what.get('language') or ''}"
            head = f"Document: {title or 'without a title'}"
            head += f", in place of {place}" if place else ""
            is_code = "code" in kind or bool(what.get("language"))
            found.append(f"{head}\n\n{fenced(body) if is_code else cut(body)}")
    if isinstance(code := what.get("code"), str) and code.strip():
        found.append(fenced(code))
    if isinstance(comment := what.get("comment"), str) and comment.strip():
        found.append(f"Comment on {place or title or 'the document'}: {cut(comment)}")
    prompts = what.get("prompts") if isinstance(what.get("prompts"), list) else [what.get("prompt")]
    found += [f"Picture asked for: {cut(p)}" for p in prompts or [] if isinstance(p, str) and p]
    for key in ("updates", "comments"):
        parts = what.get(key)
        for part in parts if isinstance(parts, list) else []:
            found += _blocks(part, title) if isinstance(part, dict) else []
    return found


def result(name: str, text: str) -> tuple[list[str], list[str]]:
    """Return what a tool answered as it is kept, and the kind of what is not kept of it."""
    if not text.strip() or _SAYS_DONE.search(name):
        return [], []
    if _LOOKS_UP.search(name):
        return [], [f"result of {name}"]
    left = [f"end of a long result of {name}"] if len(text) > MOST_OF_A_RESULT else []
    return [f"Result of {name}:\n\n{fenced(cut(text, MOST_OF_A_RESULT))}"], left


def without_tags(text: str) -> str:
    """Return an answer of Claude.ai with its documents under their titles, without its thoughts."""
    text = without_element(text, *_THINKING)
    if _ARTIFACT[0] not in text:
        return text
    first, *rest = text.split(_ARTIFACT[0])
    found = [first]
    for part in rest:
        head, closes, body = part.partition(">")
        if not closes:
            found.append(_ARTIFACT[0] + part)
            continue
        title = _TITLE.search(head)
        found.append(f"\n\nDocument: {title[1] if title else 'without a title'}\n\n{body.lstrip()}")
    return "".join(found).replace(_ARTIFACT[1], "\n").strip()


def without_element(text: str, opening: str, closing: str) -> str:
    """Return a text without what stands between two marks; an opening without an end stays."""
    found, at = [], 0
    while (begin := text.find(opening, at)) >= 0:
        end = text.find(closing, begin)
        if end < 0:
            break
        found.append(text[at:begin])
        at = end + len(closing)
    return "".join([*found, text[at:]])


def named_call(name: object, given: object) -> str:
    """Return how a tool call is named: the tool, and what it was called on."""
    what = parsed(given)
    if isinstance(what, str):
        what = {"command": what}
    target: object = ""
    if isinstance(what, dict):
        target = next((what[key] for key in _TARGETS if what.get(key)), "")
    return f"tool: {name} {_short(_line(target))}".rstrip()


def _line(target: object) -> str:
    """Return what a call was called on in one line: a command as it would be typed."""
    if isinstance(target, dict):
        return _line(next((v for v in target.values() if v), ""))
    if not isinstance(target, list):
        return str(target)
    words = [_line(word) for word in target[:_TARGET_LETTERS]]
    if len(words) == 3 and words[0] in _SHELLS and words[1].startswith("-"):
        return words[2]
    return " ".join(words)


def _short(text: str) -> str:
    line = " ".join(text[: 50 * _TARGET_LETTERS].split())
    return line if len(line) <= _TARGET_LETTERS else line[: _TARGET_LETTERS - 1] + "…"
