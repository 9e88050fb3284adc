"""Files of a web server over https: one, or those that a listing names; pages are not crawled.

A listing is a file named ``SHA256SUMS`` (as ``sha256sum`` prints it) or ``llms.txt`` (Markdown
whose links lead to documents). Only files below the folder of the listing are taken.
"""

from __future__ import annotations

import contextlib
import email.utils
import hashlib
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, urljoin, urlsplit

from ragstream_core.errors import FileChanging, OperationFailed, RagstreamError, Refused, UsageError
from ragstream_core.platform.http import file_client, open_stream
from ragstream_core.remote.address import LINKS, SUMS, Address
from ragstream_core.remote.source import QUIET_S, RemoteFile, TransferBroken, known_login

if TYPE_CHECKING:
    import httpx2

MOST_LIST_BYTES = 8_000_000
_SUM = re.compile(r"([0-9a-fA-F]{64}) [ *](.+)")
_LINK = re.compile(r"\]\(\s*<?([^)<>\s]+)>?(?:\s[^)]*)?\)")
_SHA256 = "sha256:"


class WebFiles:
    """A file of a web server, or the files that a listing there names."""

    parallel = 4

    def __init__(self, address: Address) -> None:
        self._url = address.location
        parts = urlsplit(self._url)
        self._origin = (parts.scheme, parts.netloc)
        self._folder, _, self._name = parts.path.rpartition("/")
        self._client = file_client(QUIET_S, login=known_login(parts.hostname or ""))

    def revision(self) -> str:
        """Return nothing: etags say what is new."""
        return ""

    def files(self) -> Iterator[RemoteFile]:
        """Yield the file, or those of the listing."""
        name = unquote(self._name)
        if name == SUMS:
            yield from self._of_sums(self._small(self._url))
            return
        yield self._asked(name, self._url)
        if name == LINKS:
            yield from self._of_links(self._small(self._url))

    def blocks(self, file: RemoteFile) -> Iterator[bytes]:
        """Yield a file's bytes, if it is what the listing says."""
        digest = hashlib.sha256()
        with self._open("GET", file.handle, missing=FileChanging) as response:
            now = _version(response)
            summed = file.version.startswith(_SHA256)
            if not summed and now != file.version:
                raise FileChanging("it changed since it was listed")
            for block in response.iter_raw():
                digest.update(block)
                yield block
        if summed and digest.hexdigest() != file.version.removeprefix(_SHA256):
            raise FileChanging(f"it does not have the digest that {SUMS} says")

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _of_sums(self, text: str) -> Iterator[RemoteFile]:
        if text and not text.endswith("\n"):
            raise OperationFailed(f"{self._url}: the listing ends in the middle of a line")
        for number, line in enumerate(text.splitlines(), start=1):
            if not line.strip() or line.startswith("#"):
                continue
            match = _SUM.fullmatch(line)
            if match is None:
                raise OperationFailed(
                    f"{self._url}: line {number} is no digest with a name",
                    hint="sha256sum FILE … > SHA256SUMS",
                )
            path = match[2].removeprefix("./")
            url = f"{'://'.join(self._origin)}{self._folder}/{quote(path)}"
            yield RemoteFile(path, version=f"{_SHA256}{match[1].lower()}", handle=url)

    def _of_links(self, text: str) -> Iterator[RemoteFile]:
        for target in dict.fromkeys(_LINK.findall(text)):
            parts = urlsplit(urljoin(self._url, target))
            path = unquote(parts.path)
            below = path.removeprefix(f"{unquote(self._folder)}/")
            if (parts.scheme, parts.netloc) != self._origin:
                yield RemoteFile(target, fault="a link to another host")
            elif below == path or parts.query:
                yield RemoteFile(target, fault="a link that leads out of the folder")
            elif below and not below.endswith("/") and below != unquote(self._name):
                yield self._asked(below, f"{'://'.join(self._origin)}{parts.path}")

    def _asked(self, path: str, url: str) -> RemoteFile:
        """Return what the server says of a file without its bytes; one broken line is no answer."""
        try:
            return self._head(path, url)
        except TransferBroken:
            return self._head(path, url)
        except UsageError as error:
            if url == self._url:
                raise
            return RemoteFile(path, fault=error.message)

    def _head(self, path: str, url: str) -> RemoteFile:
        with self._open("HEAD", url) as response:
            found = response.headers
            length = found.get("content-length", "")
            size = int(length) if length.isdigit() else -1
            changed = _date(found.get("last-modified", ""))
            return RemoteFile(path, size, _version(response), changed, url)

    def _small(self, url: str) -> str:
        data = b""
        with self._open("GET", url) as response:
            for block in response.iter_raw():
                data += block
                if len(data) > MOST_LIST_BYTES:
                    raise Refused(f"{url}: the listing has more than {MOST_LIST_BYTES:,} bytes")
            headers = response.headers
        if "content-length" not in headers and headers.get("transfer-encoding") != "chunked":
            raise OperationFailed(f"{url}: no length is stated, so the listing may be cut off")
        return data.decode("utf-8", "replace")

    @contextlib.contextmanager
    def _open(
        self, method: str, url: str, *, missing: type[RagstreamError] = UsageError
    ) -> Iterator[httpx2.Response]:
        """Open a URL behind its redirects, which stay on the host."""
        with open_stream(
            self._client, url, method=method, follow=self._require_host, broken=self._no_answer
        ) as response:
            _require_success(response.status_code, url, missing)
            yield response

    def _no_answer(self, error: Exception) -> TransferBroken:
        return TransferBroken(
            f"{self._origin[1]} does not answer ({type(error).__name__})",
            hint="check the network and the address",
        )

    def _require_host(self, to: str) -> None:
        parts = urlsplit(to)
        if (parts.scheme, parts.netloc) != self._origin:
            raise Refused(
                f"{self._origin[1]} redirects to {parts.scheme}://{parts.netloc[:80]}",
                hint="add the address there, if you trust it",
            )


def _require_success(status: int, url: str, missing: type[RagstreamError]) -> None:
    if status == 200:
        return
    if status in (401, 403):
        raise Refused(
            f"{url}: the server does not allow it (HTTP {status})",
            hint="a login for the host can stand in ~/.netrc (mode 0600)",
        )
    if status in (404, 410):
        raise missing(f"{url}: there is no such file", hint="check the address")
    if status >= 500 or status in (408, 429):
        raise TransferBroken(f"{url}: HTTP {status}")
    raise OperationFailed(f"{url}: HTTP {status}")


def _version(response: httpx2.Response) -> str:
    """Return the etag, or size and time; "" if the server states neither."""
    found = response.headers
    if etag := found.get("etag", ""):
        return str(etag)
    changed = found.get("last-modified", "")
    return f"{found.get('content-length', '')} {changed}" if changed else ""


def _date(text: str) -> int:
    try:
        return int(email.utils.parsedate_to_datetime(text).timestamp() * 1e9)
    except (ValueError, TypeError):
        return 0
