"""Addresses of remote documents: which kind of place each names, and what no address may hold."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit

from ragstream_core.errors import UsageError
from ragstream_core.platform.endpoint_address import is_loopback

Kind = Literal["s3", "gs", "az", "sftp", "https", "git"]
_KINDS: dict[str, Kind] = {
    "s3": "s3", "gs": "gs", "gcs": "gs", "az": "az", "abfs": "az", "sftp": "sftp",
    "https": "https", "http": "https",
    "git+https": "git", "git+http": "git", "git+ssh": "git", "git+file": "git", "ssh": "git",
}  # fmt: skip
KNOWN = "s3://, gs://, az://, sftp://, https://, git+https://, git+ssh:// or git@HOST:PATH"
_PRINTABLE = re.compile(r"[^\x00-\x20\x7f\\]+")
_SCP = re.compile(r"\w[\w.-]*@[A-Za-z0-9][\w.-]*:[^:]+|[A-Za-z0-9][\w.-]+:[^:]+\.git(?:#.*)?")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")
_REF = re.compile(r"[A-Za-z0-9](?:[\w.+-]|/(?![/.]))*")
_MOST_CHARS = 1_000

# Names of the two files of a web server that are read as a listing.
SUMS, LINKS = "SHA256SUMS", "llms.txt"


@dataclass(frozen=True, slots=True)
class Address:
    """A checked address."""

    url: str
    kind: Kind
    host: str
    location: str  # what the place is opened by: a key prefix, a path, a URL
    ref: str = ""

    @property
    def name(self) -> str:
        """A label for it: the last part of its path, or the host."""
        last = self.location.rstrip("/").rpartition("/")[2].removesuffix(".git")
        return _plain(last or self.host) or self.kind

    @property
    def title(self) -> str:
        """What a new project or root of it is called: `name`, of a listing its folder or host."""
        if self.kind != "https" or self.name not in (SUMS, LINKS):
            return self.name
        parts = urlsplit(self.location)
        return _plain(parts.path.split("/")[-2] or parts.hostname or "") or self.name


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", unquote(text)).strip("-.")[:64]


def is_remote(text: str) -> bool:
    """Return whether a person means an address and no folder of this machine.

    A path that ends in ``.git`` is a repository: documents are read from what is committed in it.
    """
    path = Path(text)
    if "://" in text:
        return True
    if path.suffix == ".git" and path.is_dir():
        return True
    return _SCP.fullmatch(text) is not None and not path.exists()


def parse(text: str) -> Address:
    """Return the address that a person wrote; ``#NAME`` behind it names a branch or tag."""
    text = text.strip()
    if not text or len(text) > _MOST_CHARS or _PRINTABLE.fullmatch(text.replace(" ", "_")) is None:
        raise UsageError(f"not an address: {text[:80]!r}", hint=KNOWN)
    if "://" not in text:
        return _repository_without_scheme(text)
    try:
        parts = urlsplit(text)
    except ValueError:
        raise UsageError(f"not an address: {text[:80]!r}", hint=KNOWN) from None
    if "@" in parts.netloc and ":" in parts.netloc.rpartition("@")[0]:
        raise UsageError(
            "the address holds a password, and addresses are kept and shown",
            hint="leave it out; ~/.netrc, an SSH agent or the environment has the keys",
        )
    if parts.query or "?" in text:
        raise UsageError(
            "the address holds a query, which may be a key, and addresses are kept and shown",
            hint="give the address up to the question mark",
        )
    kind = _kind_of(parts.scheme.lower(), parts.path)
    if kind == "git":
        return _repository(text.partition("#")[0], parts.fragment)
    if parts.fragment:
        raise UsageError(f"{text}: '#…' names a branch, and only of a git repository", hint=KNOWN)
    if kind == "https":
        return _web(text)
    if kind == "sftp":
        return _sftp(text)
    if _BUCKET.fullmatch(parts.netloc) is None:
        raise UsageError(f"{text}: no bucket", hint=f"{parts.scheme}://BUCKET/FOLDER")
    return Address(text, kind, parts.netloc, unquote(parts.path).strip("/"))


def _kind_of(scheme: str, path: str) -> Kind:
    if scheme in ("https", "http") and path.rstrip("/").endswith(".git"):
        return "git"
    kind = _KINDS.get(scheme)
    if kind is None:
        why = "it is not encrypted" if scheme in ("git", "ftp") else "it is not known here"
        raise UsageError(f"{scheme}:// cannot be mirrored: {why}", hint=KNOWN)
    return kind


def _web(text: str) -> Address:
    parts = urlsplit(text)
    _require_host(text)
    if not parts.path.rpartition("/")[2]:
        raise UsageError(
            f"{text} names no file, and pages are not searched for links",
            hint="a file, or a listing: https://HOST/FOLDER/SHA256SUMS or …/llms.txt",
        )
    return Address(text, "https", parts.netloc, text)


def _sftp(text: str) -> Address:
    parts = urlsplit(text)
    _require_host(text)
    path = unquote(parts.path)
    home = path == "/~" or path.startswith("/~/")
    return Address(text, "sftp", parts.netloc, path[3:] or "." if home else path or "/")


def _repository_without_scheme(text: str) -> Address:
    location, _, ref = text.partition("#")
    path = Path(location)
    if path.is_dir():
        return _repository(f"git+file://{path.absolute()}", ref)
    if _SCP.fullmatch(location) is None:
        raise UsageError(f"not an address: {text!r}", hint=KNOWN)
    return _checked_ref(Address(text, "git", location.partition(":")[0], location, ref))


def _repository(location: str, ref: str) -> Address:
    plain = location.removeprefix("git+")
    scheme, _, rest = plain.partition("://")
    host = urlsplit(plain).netloc
    if scheme == "file" and (host or not rest.startswith("/")):
        raise UsageError(
            f"{location}: git+file:// takes an absolute path", hint="git+file:///PATH/NAME.git"
        )
    if scheme != "file":
        _require_host(plain)
    shown = f"{location}#{ref}" if ref else location
    return _checked_ref(Address(shown, "git", host or rest, plain, ref))


def _checked_ref(address: Address) -> Address:
    ref = address.ref
    if ref and (_REF.fullmatch(ref) is None or ".." in ref or ref.endswith((".lock", "/", "."))):
        raise UsageError(
            f"{ref!r} is not the name of a branch or tag", hint="…/repository.git#main"
        )
    return address


def _require_host(text: str) -> None:
    """Refuse an address without a host, and plain http to another machine."""
    parts = urlsplit(text)
    try:
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        host = ""
    if not host or host.startswith("-") or parts.username == "" or parts.netloc.startswith("-"):
        raise UsageError(f"{text}: no host", hint=KNOWN)
    if parts.scheme == "http" and not is_loopback(host):
        raise UsageError(
            f"plain http is for this machine only, not for {host}",
            hint=f"https://{host}{parts.path}",
        )
