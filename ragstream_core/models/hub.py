"""Speaks the protocol of the Hugging Face hub: the list of a model's files, and one file at a time.

Nothing that a hub says is believed: names that lead out of the folder are refused, only files of a
known purpose are taken and never a pickle, redirects go to the hub itself or to its known stores, a
file is no longer than announced and has the digest that its list promised. No token is sent.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from ragstream_core.errors import OperationFailed, RagstreamError, Refused, TryAgain, UsageError
from ragstream_core.platform.endpoint_address import host_of
from ragstream_core.platform.files import file_sha256
from ragstream_core.platform.http import file_client, open_stream

# Where the hub itself sends downloads to: its own hosts, over https.
STORES = (".huggingface.co", ".hf.co")
MOST_LIST_BYTES = 8_000_000
MOST_SMALL_BYTES = 64_000_000
TIMEOUT_S = 30.0
TRIES = 3
_REPO = re.compile(r"[A-Za-z0-9][\w.-]{0,95}/[A-Za-z0-9][\w.-]{0,95}")
_REVISION = re.compile(r"[A-Za-z0-9][\w.-]{0,99}")
_SAFE = re.compile(r"[\w.+-]+(/[\w.+-]+)*")
_TAKEN = re.compile(
    r"(config|tokenizer|tokenizer_config|special_tokens_map|added_tokens|vocab|modules"
    r"|sentence_bert_config|config_sentence_transformers|generation_config)\.json"
    r"|vocab\.txt|merges\.txt|LICENSE(\.txt|\.md)?|README\.md"
    r"|\d+_[A-Za-z]+/(config\.json|model\.safetensors)|model\.safetensors"
)
_ONNX = re.compile(r"[\w.-]+\.onnx")
_PICKLED = (".bin", ".pt", ".pth", ".pkl", ".ckpt", ".h5", ".msgpack")


@dataclass(frozen=True, slots=True)
class HubFile:
    """One file of a model."""

    name: str  # POSIX path in the model's folder
    size: int
    sha256: str = ""  # empty if the hub states only ``blob``
    blob: str = ""  # git's sha1 of a small file; empty if it states ``sha256``


@dataclass(frozen=True, slots=True)
class HubModel:
    """What of a model would be fetched."""

    repo: str  # ``organisation/model``
    commit: str  # the revision that the list is of, 40 hex digits
    files: tuple[HubFile, ...]  # by name; at least weights, ``config.json`` and ``tokenizer.json``
    licence: str = ""  # as the model's card says; may be empty

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)


class Hub:
    """A hub at an address."""

    def __init__(self, url: str, *, pause_s: float = 1.0) -> None:
        self._url = url.rstrip("/")
        self.host = host_of(self._url, "hub.url")
        self._pause_s = pause_s

    def model(self, repo: str, *, revision: str = "main", most_bytes: int) -> HubModel:
        """Return what there is of a model; nothing is fetched but its list."""
        if not _REPO.fullmatch(repo) or not _REVISION.fullmatch(revision) or ".." in repo:
            raise UsageError(
                f"{repo!r} is not the name of a model", hint="name it as organisation/model"
            )
        url = f"{self._url}/api/models/{repo}/revision/{revision}?blobs=true"
        try:
            data = json.loads(self._small(url, repo))
            rows = [(str(row["rfilename"]), row) for row in data["siblings"]]
            commit, card = str(data["sha"]), data.get("cardData") or {}
        except (ValueError, KeyError, TypeError, AttributeError):
            raise OperationFailed(
                f"{self.host} sent no list of files for {repo}",
                hint="check that hub.url is a model hub",
            ) from None
        if not re.fullmatch(r"[0-9a-f]{40}", commit):
            raise OperationFailed(f"{self.host} names no commit of {repo}")
        names = [name for name, _ in rows]
        for name in names:
            if not _SAFE.fullmatch(name) or any(p in (".", "..") for p in name.split("/")):
                raise Refused(f"{repo} lists a file that leads out of its folder: {name[:80]!r}")
        if len(set(map(str.casefold, names))) != len(names):
            raise Refused(f"{repo} lists a file twice")
        files = tuple(
            _file(repo, name, row) for name, row in sorted(rows) if _is_taken(name, names)
        )
        _require_whole(repo, names, files)
        model = HubModel(repo, commit, files, str(card.get("license") or "")[:80])
        if model.size > most_bytes:
            raise Refused(
                f"{repo} has {model.size / 1e9:.1f} GB, more than {most_bytes / 1e9:.1f}",
                hint="raise hub.max_gb",
            )
        return model

    def url_of(self, model: HubModel, file: HubFile) -> str:
        """Return where a file of a model is."""
        return f"{self._url}/{model.repo}/resolve/{model.commit}/{quote(file.name)}"

    def fetch(self, url: str, file: HubFile, to: Path, *, progress: Callable[[int], None]) -> None:
        """Fetch a file, going on where an earlier try ended, and check it."""
        for left in reversed(range(TRIES)):
            try:
                self._into(url, file, to, progress)
                break
            except _Broken as error:
                if not left:
                    raise OperationFailed(
                        f"{file.name} was only partly received ({error})",
                        hint=(TryAgain(), " to continue from there"),
                    ) from None
                if error.status == 416:  # what is here is no beginning of it
                    to.unlink(missing_ok=True)
                time.sleep(self._pause_s)
        if not _has_digest(to, file):
            to.unlink(missing_ok=True)
            raise Refused(
                f"{file.name} from {self.host} does not have the digest that was promised",
                hint=(TryAgain(), "; if that fails, the hub or a proxy changes files"),
            )

    def _into(self, url: str, file: HubFile, to: Path, progress: Callable[[int], None]) -> None:
        have = to.stat().st_size if to.is_file() else 0
        if have > file.size:
            to.unlink()
            have = 0
        if have == file.size and to.is_file():
            return
        with self._open(url, start=have) as response:
            _refuse_pages(response, file.name, self.host)
            resumed = response.status_code == 206
            have = have if resumed else 0
            with to.open("ab" if resumed else "wb") as out:
                for block in response.iter_raw():  # as it comes: what was received is kept
                    have += len(block)
                    if have > file.size:
                        out.truncate(0)
                        raise Refused(
                            f"{file.name} from {self.host} is longer than its {file.size:,} bytes"
                        )
                    out.write(block)
                    progress(have)
        if have < file.size:
            raise _Broken(f"{have:,} of {file.size:,} bytes")

    def _small(self, url: str, repo: str) -> bytes:
        """Return a small answer whole."""
        try:
            with self._open(url) as response:
                data = b""
                for block in response.iter_raw():
                    data += block
                    if len(data) > MOST_LIST_BYTES:
                        raise OperationFailed(f"the list of {repo} is too long")
                return data
        except _Broken as error:
            raise OperationFailed(
                f"{self.host}: {error}", hint="check the network connection"
            ) from None

    @contextmanager
    def _open(self, url: str, *, start: int = 0) -> Iterator[Any]:
        """Open a URL behind its redirects, which lead to the hub or one of its stores."""
        with (
            file_client(TIMEOUT_S) as client,
            open_stream(
                client, url, start=start, follow=self._require_store,
                broken=lambda error: _Broken(_said(error)),
            ) as response,
        ):  # fmt: skip
            self._check_status(response.status_code, url)
            yield response

    def _require_store(self, to: str) -> None:
        """Refuse a redirect to a host that is neither the hub nor one of its stores."""
        parts = urlsplit(to)
        own = host_of(f"{parts.scheme}://{parts.netloc}", "hub.url") if parts.netloc else ""
        name = own.rpartition(":")[0]
        if own != self.host and not (parts.scheme == "https" and name.endswith(STORES)):
            raise Refused(
                f"{self.host} redirects to {name or to[:80]!r}, none of its stores",
                hint="set hub.url to a hub that you trust",
            )

    def _check_status(self, status: int, url: str) -> None:
        if status in (200, 206):
            return
        what = urlsplit(url).path[:120]
        if status in (401, 403):
            raise OperationFailed(
                f"{self.host} gives {what} only to users with an account",
                hint="fetch it with your account, and put its folder into <data>/models",
            )
        if status == 404:
            raise OperationFailed(f"{self.host} has no {what}", hint="organisation/model@revision")
        if status >= 500 or status in (408, 416, 429):
            raise _Broken(f"HTTP {status}", status)
        raise OperationFailed(f"{self.host} answers HTTP {status} for {what}")


def _said(error: Exception) -> str:
    """Return what a failed request means to people, for the kinds that they meet."""
    kind = type(error).__name__
    return {
        "ConnectError": "cannot be reached",
        "ConnectTimeout": "does not answer",
        "ReadTimeout": "stopped answering",
        "ReadError": "broke the connection",
        "RemoteProtocolError": "broke the connection",
    }.get(kind, kind)


class _Broken(RagstreamError):
    """A transfer that may be taken up again; `status` is 0 without an answer."""

    def __init__(self, message: str, status: int = 0) -> None:
        super().__init__(message)
        self.status = status


def _refuse_pages(response: Any, name: str, host: str) -> None:
    kind = str(response.headers.get("content-type", "")).partition(";")[0].strip().lower()
    if kind in ("text/html", "application/xhtml+xml") and not name.endswith(".md"):
        raise Refused(f"{host} answers with a web page instead of {name}")


def _is_taken(name: str, names: list[str]) -> bool:
    onnx = "model.safetensors" not in names and _ONNX.fullmatch(name)
    return bool(_TAKEN.fullmatch(name) or onnx)


def _file(repo: str, name: str, row: dict[str, Any]) -> HubFile:
    """Return a listed file."""
    lfs = row.get("lfs") or {}
    size, sha256 = row.get("size"), str(lfs.get("sha256") or lfs.get("oid") or "")
    blob = "" if sha256 else str(row.get("blobId") or "")
    sound = re.fullmatch(r"[0-9a-f]{64}", sha256) or re.fullmatch(r"[0-9a-f]{40}", blob)
    large = name.endswith((".safetensors", ".onnx"))
    if not isinstance(size, int) or size < 0 or not sound or (large and not sha256):
        raise Refused(f"{repo} states no size and digest of {name}")
    if not large and size > MOST_SMALL_BYTES:
        raise Refused(f"{name} of {repo} has {size:,} bytes, more than any such file needs")
    return HubFile(name, size, sha256, blob)


def _require_whole(repo: str, names: list[str], files: tuple[HubFile, ...]) -> None:
    """Refuse a model that could not be used."""
    here = {file.name for file in files}
    weights = [
        name for name in here if name.endswith((".safetensors", ".onnx")) and "/" not in name
    ]
    if not weights:
        pickled = next((name for name in names if name.endswith(_PICKLED)), "")
        why = f"only {pickled}, which can run code when it is read" if pickled else "no weights"
        raise Refused(
            f"{repo} has {why}; safetensors or ONNX is needed",
            hint="look for another model, or for a revision with model.safetensors",
        )
    missing = {"config.json", "tokenizer.json"} - here
    if missing:
        raise Refused(f"{repo} has no {' and no '.join(sorted(missing))}")


def _has_digest(path: Path, file: HubFile) -> bool:
    if path.stat().st_size != file.size:
        return False
    if file.sha256:
        return file_sha256(path) == file.sha256
    data = path.read_bytes()
    head = f"blob {len(data)}\0".encode()
    return hashlib.sha1(head + data, usedforsecurity=False).hexdigest() == file.blob
