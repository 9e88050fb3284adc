"""What programs that speak MCP are told of the server, and in which of their files it belongs."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

Entry = dict[str, str | list[str]]
NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class Client:
    """A program that starts MCP servers.

    `section` is the object of its file that holds the servers, `typed` whether a server there says
    that it is reached over stdio, `then` what to do so that the program finds it.
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
    """Return the file where a client looks for servers: of a project's folder, or of its user."""
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
    """Return what a client's file says that names only this server."""
    if not client.is_toml:
        return json.dumps({client.section: {name: entry}}, indent=2) + "\n"
    # texts of JSON are texts of TOML, but for one character
    rows = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in entry.items()]
    return "\n".join([f"[{client.section}.{name}]", *rows, ""]).replace("\x7f", "\\u007f")
