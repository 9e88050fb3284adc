"""What core's messages say to somebody at a command line, said to somebody at the page."""

from __future__ import annotations

import re

WORDS = (
    (r"^ragstream prompt \S+ -p PROJECT$", "write into Prompt what you want to know"),
    (r"^-p PROJECT; .*", "choose one under Projects in the sidebar"),
    (r"\bragstream ingest ([\w.-]+)$", r"press Ingest Folder of \1 in the sidebar"),
    (r"--set ([\w.]+)=(\S+)", r"write \1 = \2 under Other settings in the sidebar"),
    (r"leave (?:the|that) file out with --off(?: PATH)?", "switch the file OFF under Files"),
    (r"leave files out with --off", "switch files OFF under Files"),
    (r"send it with --allow-secrets", "tick the box that allows it"),
    (r"name what to inject with --file", "choose what to inject under Inject"),
    (r"\(--file forces them\)", "(Inject forces them)"),
    (r"^--file instead$", "choose it under Inject instead"),
    (r"^--as-of names .*", "As of generation is of one project; choose one"),
    (r"--off (?=\S+: )", "Files OFF: "),
    (r"run the command again", "try it again"),
)  # fmt: skip
"""What a message holds, as a pattern, and what stands there on the page."""
_TERMINAL = re.compile(r"^(?=ragstream [a-z])")


def on_the_page(text: str) -> str:
    """Return a message or a hint in the words of the page; a command is said to be one.

    Args:
        text: As core says it.
    """
    for pattern, words in WORDS:
        text = re.sub(pattern, words, text)
    return _TERMINAL.sub("in a terminal: ", text)
