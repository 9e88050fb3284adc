"""How programs that speak MCP are told of the server: their files, read and changed with care.

A file is changed as a whole or not at all; what else stands in it stays, comments of TOML included.
What cannot be changed without a doubt is refused, and its text is there to be pasted.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from ragstream_core.errors import Refused

Entry = dict[str, str | list[str]]
Tree = dict[str, object]
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
MAX_BYTES = 10_000_000


@dataclass(frozen=True, slots=True)
class Client:
    """A program that starts MCP servers.

    Attributes:
        name: Of the program, for people.
        section: The object of its file that holds the servers.
        typed: Whether a server says that it is reached over stdio.
        then: What to do so that it finds the server.
    """

    name: str
    section: str
    typed: bool
    then: str

    @property
    def is_toml(self) -> bool:
        """Whether its file is TOML, else JSON."""
        return self.section == "mcp_servers"

    def entry(self, command: Sequence[str]) -> Entry:
        """Return what its file says of a server that a command starts."""
        kind: Entry = {"type": "stdio"} if self.typed else {}
        return {**kind, "command": command[0], "args": list(command[1:])}


CLIENTS = {
    "claude-code": Client("Claude Code", "mcpServers", True, "start `claude` here, then /mcp"),
    "claude-desktop": Client("Claude Desktop", "mcpServers", False, "quit it and start it again"),
    "cursor": Client("Cursor", "mcpServers", True, "open this folder in Cursor"),
    "vscode": Client("VS Code", "servers", True, "open this folder, and start it in mcp.json"),
    "codex": Client("Codex", "mcp_servers", False, "start `codex`, then /mcp"),
}
_DESKTOP = {
    "darwin": "Library/Application Support/Claude",
    "win32": "AppData/Roaming/Claude",
}


def usual_file(client: str, folder: Path) -> Path:
    """Return the file where a client looks for servers: of a project, or of its user.

    Args:
        client: A name of `CLIENTS`.
        folder: Of the project.
    """
    home = Path.home()
    places = {
        "claude-code": folder / ".mcp.json",
        "cursor": folder / ".cursor" / "mcp.json",
        "vscode": folder / ".vscode" / "mcp.json",
        "codex": home / ".codex" / "config.toml",
        "claude-desktop": home
        / _DESKTOP.get(sys.platform, ".config/Claude")
        / "claude_desktop_config.json",
    }
    return places[client]


def snippet(client: Client, name: str, entry: Entry) -> str:
    """Return what a file says that names only this server."""
    if client.is_toml:
        return _toml_table(name, entry)
    return json.dumps({client.section: {name: entry}}, indent=2) + "\n"


def merged(client: Client, name: str, entry: Entry, *, data: bytes, path: Path) -> bytes:
    """Return the bytes of a client's file with a server in it, the same if it is there already.

    What else is said of that server, such as its environment, stays.

    Args:
        client: Whose file.
        name: Of the server.
        entry: As `Client.entry` returns it.
        data: The file as it is; empty if there is none.
        path: Of the file, for messages.

    Raises:
        Refused: It is not what it should be, or cannot be changed without a doubt.
    """
    if len(data) > MAX_BYTES:
        raise _unclear(path, f"is larger than {MAX_BYTES // 1_000_000} MB")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise _unclear(path, "is not UTF-8") from None
    change = _in_toml if client.is_toml else _in_json
    return change(text, (client.section, name, entry), path).encode()


def _unclear(path: Path, what: str) -> Refused:
    return Refused(
        f"{path} {what}; it is left as it is",
        hint="put the text in by hand that the same command prints without writing",
    )


def _in_json(text: str, server: tuple[str, str, Entry], path: Path) -> str:
    section, name, entry = server
    bare = text.removeprefix("\ufeff")
    try:
        tree = json.loads(bare, object_pairs_hook=_once) if bare.strip() else {}
    except RecursionError:
        raise _unclear(path, "is nested too deeply") from None
    except ValueError as error:
        raise _unclear(path, f"is no JSON that can be changed: {error}") from None
    servers = tree.setdefault(section, {}) if isinstance(tree, dict) else None
    if not isinstance(servers, dict):
        raise _unclear(path, f"has no object {section!r} where it should be")
    wanted = {**_tree(servers.get(name)), **entry}
    if servers.get(name) == wanted:
        return text
    servers[name] = wanted
    indent = re.search(r'\n([ \t]+)"', bare)
    made = json.dumps(tree, indent=indent[1] if indent else 2, ensure_ascii=bare.isascii())
    made += "\n" if bare.endswith("\n") or not bare.strip() else ""
    made = made.replace("\n", "\r\n") if "\r\n" in bare else made
    return ("\ufeff" if bare != text else "") + made


def _once(pairs: list[tuple[str, object]]) -> Tree:
    """Return an object; a key that stands there twice would be lost.

    Raises:
        ValueError: There is one.
    """
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands twice in one object")
    return found


def _in_toml(text: str, server: tuple[str, str, Entry], path: Path) -> str:
    section, name, entry = server
    before = _toml(text, path)
    servers = _tree(before.get(section))
    server_now = {**_tree(servers.get(name)), **entry}
    if servers.get(name) == server_now:
        return text
    end = "\r\n" if "\r\n" in text else "\n"
    plain = {key: value for key, value in server_now.items() if not isinstance(value, dict)}
    table = _toml_table(name, plain).replace("\n", end)
    header = rf"(?m)^\[{section}\.{re.escape(name)}\][^\n]*\n(?:(?!\[).*(?:\n|\Z))*"
    made, replaced = re.subn(header, lambda _: f"{table}{end}", text, count=1)
    if not replaced:
        made = f"{text.rstrip()}{end}{end}{table}" if text.strip() else table
    wanted = {**before, section: {**servers, name: server_now}}
    try:
        same = tomllib.loads(made) == wanted
    except tomllib.TOMLDecodeError:
        same = False
    if not same:
        raise _unclear(path, f"has a form of {section!r} that cannot be changed without a doubt")
    return made


def _toml(text: str, path: Path) -> Tree:
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise _unclear(path, f"is no TOML: {error}") from None


def _tree(value: object) -> Mapping[str, object]:
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else {}


def _toml_table(name: str, entry: Mapping[str, object]) -> str:
    """Return a table; texts of JSON are texts of TOML, but for one character."""
    rows = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in entry.items()]
    return "\n".join([f"[mcp_servers.{name}]", *rows, ""]).replace("\x7f", "\\u007f")
