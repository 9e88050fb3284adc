"""Documents of a git repository, read from its objects: nothing is checked out.

One commit of one branch or tag is fetched into a store without hooks, and files are read as they
were committed. So no filter, hook, link, submodule or attribute of the repository has a say here.
The store is gone when the mirror is complete: it would hold a second copy of every text.
"""

from __future__ import annotations

import contextlib
import re
import resource
import shutil
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from ragstream_core.config import chosen_environment
from ragstream_core.errors import OperationFailed, RagstreamError, Refused, RunProgram, UsageError
from ragstream_core.platform.files import make_durable_dir, remove_path
from ragstream_core.platform.sandbox import end_group
from ragstream_core.remote.address import Address
from ragstream_core.remote.source import BLOCK_BYTES, RemoteFile, TransferBroken

ASK_S = 60.0
FETCH_S = 3600.0

# Variables that git sees: programs, keys, the way out. No other setting of git is among them.
_SEEN = ("PATH", "HOME", "USER", "SSH_AUTH_SOCK", "HTTPS_PROXY", "https_proxy", "NO_PROXY",
         "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO")  # fmt: skip
_QUIET = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "true",  # the program: it says nothing
    "SSH_ASKPASS_REQUIRE": "never",
    "GIT_SSH_COMMAND": "ssh -oBatchMode=yes -oStrictHostKeyChecking=yes -oConnectTimeout=20"
    " -oServerAliveInterval=20 -oPermitLocalCommand=no",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "LC_ALL": "C",
}
_SETTINGS = (
    "core.hooksPath=/dev/null", "core.fsmonitor=false", "core.askPass=", "credential.helper=",
    "http.followRedirects=false", "http.lowSpeedLimit=100", "http.lowSpeedTime=60", "gc.auto=0",
    "maintenance.auto=false", "fetch.recurseSubmodules=false", "submodule.recurse=false",
    "protocol.allow=never", "protocol.ext.allow=never", "transfer.credentialsInUrl=die",
)  # fmt: skip
_HERE = "refs/ragstream/here"
_LFS = b"version https://git-lfs.github.com/spec/v1\n"
_LFS_BYTES = 1_024
_NO_PERMISSION = ("permission denied", "could not read username", "could not read password",
                  "authentication failed", "the requested url returned error: 403")  # fmt: skip
_NO_ANSWER = ("unable to access", "could not resolve", "connection", "could not read from remote")
_SHA = re.compile(r"[0-9a-f]{40,64}")


class GitRepository:
    """The files of one commit."""

    # Objects are read one by one; the disk syncs several files at once.
    parallel = 4

    def __init__(self, address: Address, work: Path, *, max_bytes: int) -> None:
        if shutil.which("git") is None:
            raise UsageError(f"{address.url} needs git", hint="install git")
        self._address = address
        self._work = work
        self._max_bytes = max_bytes
        self._made = False
        self._tip: tuple[str, str] | None = None
        self._lock = threading.Lock()
        self._reader: subprocess.Popen[bytes] | None = None

    def revision(self) -> str:
        """Return the commit that the branch or tag names there."""
        if self._tip is None:
            self._tip = self._asked()
        return self._tip[1]

    def files(self) -> Iterator[RemoteFile]:
        """Yield the files of the commit; links and submodules with why they are left out."""
        commit = self._fetched()
        listed = self._git("ls-tree", "-r", "-z", "-l", "--full-tree", commit)
        for row in listed.split(b"\0")[:-1]:
            facts, _, name = row.partition(b"\t")
            mode, kind, sha, size = facts.decode("ascii").split()
            path = name.decode("utf-8", "surrogateescape")
            if kind != "blob" or mode == "120000":
                what = "a symbolic link" if mode == "120000" else "a submodule"
                yield RemoteFile(path, fault=f"{what}; only regular files are mirrored")
            elif int(size) < _LFS_BYTES and self._blob(sha).startswith(_LFS):
                yield RemoteFile(path, fault="kept in Git LFS, which is not fetched")
            else:
                yield RemoteFile(path, int(size), sha, handle=sha)

    def blocks(self, file: RemoteFile) -> Iterator[bytes]:
        """Yield the bytes of a file as they were committed."""
        data = self._blob(file.handle)
        for at in range(0, len(data), BLOCK_BYTES):
            yield data[at : at + BLOCK_BYTES]

    def close(self) -> None:
        """End the reader and remove what was fetched, whatever was made of it."""
        if self._reader is not None:
            self._reader.kill()
            self._reader.communicate()
            self._reader = None
        if self._made:
            remove_path(self._work)

    def _asked(self) -> tuple[str, str]:
        """Return the full name of the branch or tag, and its commit."""
        ref = self._address.ref
        wanted = [f"refs/heads/{ref}", f"refs/tags/{ref}"] if ref else ["HEAD"]
        answer = self._git("ls-remote", "--", self._address.location, *wanted, wall_s=ASK_S)
        rows = (row.split("\t") for row in answer.decode("utf-8", "replace").splitlines())
        found = {name: sha for sha, name in rows}
        for name in wanted:
            if _SHA.fullmatch(found.get(name, "")):
                return name, found[name]
        raise UsageError(
            f"{self._address.url}: " + (f"no branch or tag {ref!r}" if ref else "no commit in it"),
            hint=RunProgram(f"git ls-remote {self._address.location}"),
        )

    def _fetched(self) -> str:
        """Fetch the commit into a fresh store; return its digest."""
        self.revision()
        assert self._tip is not None
        remove_path(self._work)  # of a run that was killed
        self._made = True
        make_durable_dir(self._work)
        self._git("init", "--quiet", "--bare", "--template=", str(self._work))
        self._git(
            "fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules",
            "--no-write-fetch-head", "--", self._address.location, f"+{self._tip[0]}:{_HERE}",
            wall_s=FETCH_S,
        )  # fmt: skip
        return self._git("rev-parse", "--verify", f"{_HERE}^{{commit}}").decode().strip()

    def _blob(self, sha: str) -> bytes:
        """Return an object's bytes, by a git that stays open."""
        with self._lock:
            return self._read(sha)

    def _read(self, sha: str) -> bytes:
        if self._reader is None:
            self._reader = self._started(
                "cat-file", "--batch", stdin=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        asked, answered = self._reader.stdin, self._reader.stdout
        assert asked is not None and answered is not None
        try:
            asked.write(f"{sha}\n".encode())
            asked.flush()
            size = int(answered.readline().split()[2])
            data = answered.read(size + 1)
        except (OSError, ValueError, IndexError):
            raise TransferBroken("git cannot read it") from None
        if len(data) != size + 1:
            raise TransferBroken("git ended while it was read")
        return data[:-1]

    def _git(self, *words: str, wall_s: float = ASK_S) -> bytes:
        """Run git to its end; return what it wrote."""
        with self._started(*words, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE) as child:
            try:
                output, said = child.communicate(timeout=wall_s)
            except subprocess.TimeoutExpired:
                raise OperationFailed(
                    f"{self._address.url}: git took over {wall_s:g} s", hint="check the network"
                ) from None
            finally:
                if child.poll() is None:
                    end_group(child.pid)
        if child.returncode:
            raise _refusal(self._address, child.returncode, said.decode("utf-8", "replace"))
        return output

    def _started(
        self, *words: str, stdin: int, stderr: int | IO[bytes]
    ) -> subprocess.Popen[bytes]:  # fmt: skip
        settings = [*_SETTINGS, f"protocol.{_transport(self._address)}.allow=always"]
        options = [part for setting in settings for part in ("-c", setting)]
        place = ["-C", str(self._work)] if self._work.is_dir() else []
        try:
            child = subprocess.Popen(
                ["git", "--no-pager", *options, *place, *words],
                stdin=stdin, stdout=subprocess.PIPE, stderr=stderr, cwd="/",
                env={**chosen_environment(_SEEN), **_QUIET}, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise OperationFailed(f"git cannot be started: {error.strerror}") from None
        if hasattr(resource, "prlimit"):
            with contextlib.suppress(OSError):  # it has ended already
                limit = (self._max_bytes, self._max_bytes)
                resource.prlimit(child.pid, resource.RLIMIT_FSIZE, limit)
        return child


def _transport(address: Address) -> str:
    scheme, separator, _ = address.location.partition("://")
    return scheme if separator else "ssh"


def _refusal(address: Address, code: int, said: str) -> RagstreamError:
    """Return our error for what git said; its own words last, without an address."""
    lines = [line for line in said.splitlines() if line.strip()]
    low = said.lower()
    if "does not appear to be a git repository" in low or "not found" in low:
        return UsageError(
            f"{address.url}: there is no such repository, or none for you",
            hint=RunProgram(f"git ls-remote {address.location}"),
        )
    if "host key verification failed" in low:
        return Refused(
            f"{address.host} is not in ~/.ssh/known_hosts",
            hint=RunProgram(f"ssh {address.host}"),
        )
    if any(words in low for words in _NO_PERMISSION):
        return Refused(
            f"{address.url}: no permission",
            hint="add a key to your SSH agent, or a token to ~/.netrc (mode 0600)",
        )
    if "dubious ownership" in low:
        return Refused(f"{address.url}: the repository belongs to another user")
    if any(words in low for words in _NO_ANSWER):
        return OperationFailed(
            f"{address.url} does not answer", hint="check the network and the address"
        )
    if code < 0 or "file size limit" in low:
        return Refused(
            f"{address.url}: one fetch is larger than remote.max_gb", hint="raise remote.max_gb"
        )
    last = lines[-1][:200] if lines else f"git ended with {code}"
    return OperationFailed(f"{address.url}: {last}")
