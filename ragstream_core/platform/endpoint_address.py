"""Where an OpenAI-compatible endpoint is, and its key.

https, or plain http on this machine only. A key belongs to one host and is sent to no other: no
message, log, event or record holds it.
"""

from __future__ import annotations

import ipaddress
import re
import stat
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from pydantic import SecretStr

from ragstream_core.errors import (
    Refused,
    RunProgram,
    SetVariable,
    UnknownSetting,
    UsageError,
    quoted,
)

_URL = re.compile(r"[!-~]+")  # printable ASCII: an international name is written as xn--…
_HOST = re.compile(r"[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]")
CHAT_SETTING = "provider.base_url"
DEFAULT_PORTS = {"https": 443, "http": 80}
MAX_KEY_BYTES = 8_192
_KEY = re.compile(r"[!-~]+")  # printable ASCII: anything else could end a header
_KEY_HINT = (
    SetVariable.of("provider.api_key"),
    ", or name a file by provider.api_key_file",
)


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A checked endpoint; made by `endpoint_at`."""

    base_url: str
    host: str
    api_key: str = field(default="", repr=False)
    timeout_s: float = 60.0  # of one request, from first to last byte
    budget_s: float = 180.0  # of a request with all its repetitions

    @property
    def is_local(self) -> bool:
        """Whether what is sent stays on this machine."""
        return is_loopback(self.host.rpartition(":")[0].strip("[]"))


def endpoint_at(
    base_url: str,
    *,
    setting: str = CHAT_SETTING,
    key: str = "",
    key_url: str = "",
    timeout_s: float = 60.0,
    budget_s: float = 180.0,
) -> Endpoint:
    """Check an endpoint's address and return it."""
    host = host_of(base_url, setting)
    mine = bool(key) and host_of(key_url) == host
    return Endpoint(base_url.rstrip("/"), host, key if mine else "", timeout_s, budget_s)


def host_of(base_url: str, setting: str = CHAT_SETTING) -> str:
    """Return ``host:port`` of an address that may be contacted."""
    parts = _split(base_url, setting)
    host = (parts.hostname or "").lower()
    if parts.scheme not in DEFAULT_PORTS or _HOST.fullmatch(_bracketed(host)) is None:
        raise _refused("it is not an http(s) address", setting)
    if "@" in parts.netloc or parts.query or parts.fragment or "?" in base_url:
        raise _refused("it holds credentials or a query", setting)
    if parts.scheme == "http" and not is_loopback(host):
        raise _refused(f"plain http is for this machine only, not for {host}", setting)
    return f"{_bracketed(host)}:{parts.port or DEFAULT_PORTS[parts.scheme]}"


def _split(base_url: str, setting: str) -> SplitResult:
    if _URL.fullmatch(base_url) is None or "\\" in base_url:
        raise _refused("it holds characters that no address has", setting)
    try:
        parts = urlsplit(base_url)
        _ = parts.port
    except ValueError:
        raise _refused("it cannot be read", setting) from None
    return parts


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def is_loopback(host: str) -> bool:
    """Return whether a host name or IP address is this machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _refused(why: str, setting: str) -> UnknownSetting:
    return UnknownSetting(
        f"the address in {setting} is refused: {why}",
        hint=f"set {setting} to https://…/v1 or http://127.0.0.1:…",
    )


def provider_key(key: SecretStr, key_file: str) -> SecretStr:
    """Return the key; empty if none is set."""
    given = key.get_secret_value().strip()
    if given or not key_file:
        return _checked_key(given, "provider.api_key") if given else SecretStr("")
    return _checked_key(_key_in(Path(key_file).expanduser()), key_file)


def _key_in(path: Path) -> str:
    try:
        with path.open("rb") as handle:
            mode = path.stat().st_mode
            if not stat.S_ISREG(mode):
                raise UsageError(f"{path} is not a regular file", hint=_KEY_HINT)
            if mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise Refused(
                    f"{path} holds a key and is open to others (mode {stat.S_IMODE(mode):04o})",
                    hint=RunProgram(quoted("chmod", 600, path)),
                )
            return handle.read(MAX_KEY_BYTES).decode("utf-8", "replace").strip()
    except OSError as error:
        what = error.strerror or type(error).__name__
        raise UsageError(f"the key file {path} cannot be read: {what}", hint=_KEY_HINT) from None


def _checked_key(text: str, where: str) -> SecretStr:
    if _KEY.fullmatch(text) is None:
        raise UsageError(f"{where} holds no key: one line of printable characters", hint=_KEY_HINT)
    return SecretStr(text)
