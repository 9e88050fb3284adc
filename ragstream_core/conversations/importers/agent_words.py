"""What a person typed in the message of a coding agent's log; "" where the program wrote it all.

The programs put words of their own into the person's messages: reminders, the output of commands,
what is open in the editor. A message may hold both.
"""

from __future__ import annotations

import re

from ragstream_core.conversations.importers.parts import without_element

# How texts begin that earlier versions left out.
_OWN_WORDS = (
    "<command-", "<local-command", "<environment_context", "<user_instructions", "<permissions",
    "<INSTRUCTIONS", "# AGENTS.md instructions", "<turn_aborted",
    "Caveat: The messages below were generated",
)  # fmt: skip
_NOISE = (
    "[Request interrupted by user", "<bash-", "<task-notification", "<user_shell_command",
    "<skill>", "<subagent_notification", "<user_action", "<teammate-message", "<image name=",
    "</image>", "This session is being continued from a previous conversation",
)  # fmt: skip

# Elements that stand beside a person's words.
_ELEMENTS = (
    "system-reminder", "ide_opened_file", "ide_selection", "ide_diagnostics", "new-diagnostics",
    "post-tool-use-hook", "user-prompt-submit-hook", "environment_context", "user_instructions",
    "local-command-caveat",
)  # fmt: skip
_ARGUMENTS = ("<command-args>", "</command-args>")
_NAME = ("<command-name>", "</command-name>")
_REMEMBERED = ("<user-memory-input>", "</user-memory-input>")

# Commands whose words set something and ask nothing.
_SETTINGS = {
    "/add-dir", "/agents", "/allowed-tools", "/color", "/config", "/effort", "/export", "/fast",
    "/help", "/hooks", "/ide", "/login", "/mcp", "/memory", "/model", "/output-style",
    "/permissions", "/plugin", "/rename", "/resume", "/rewind", "/terminal-setup", "/theme", "/vim",
}  # fmt: skip
_REQUEST = re.compile(r"^## My request for [^\n]{1,40}\n", re.MULTILINE)
_ANSWERED = "the user said:"
_REFUSED = "The user doesn't want to proceed with this tool use"


def typed(text: str) -> str:
    """Return what a person typed in one text of a message; "" if nothing."""
    for name in _ELEMENTS:
        text = without_element(text, f"<{name}>", f"</{name}>")
    text = text.strip()
    if text.startswith("<command-"):
        return _of_command(text)
    if text.startswith(_REMEMBERED[0]):
        return _between(text, *_REMEMBERED)
    if text.startswith("# ") and (frame := _REQUEST.search(text)):
        text = text[frame.end() :].strip()
    return "" if text.startswith((*_OWN_WORDS, *_NOISE)) else text


def was_left_out(text: str) -> bool:
    """Whether earlier versions took a message with these words for one of the program."""
    return not text.strip() or text.lstrip().startswith(_OWN_WORDS)


def answered(result: str) -> str:
    """Return what a person said when they refused a call, of the result of the call."""
    return result.partition(_ANSWERED)[2].strip() if result.startswith(_REFUSED) else ""


def _of_command(text: str) -> str:
    name, words = _between(text, *_NAME), _between(text, *_ARGUMENTS)
    return f"{name} {words}".strip() if words and name not in _SETTINGS else ""


def _between(text: str, opening: str, closing: str) -> str:
    return text.partition(opening)[2].partition(closing)[0].strip()
