"""Token files: the ranks of tiktoken's encodings, kept under the data root and checked by sha256.

Nothing here goes to the network: `models pull` fetches a file, or a person copies it. The loader of
tiktoken itself is not used, because it downloads what it does not find.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragstream_core.errors import WeightsMismatch, WeightsMissing

EXTRA = "pip install 'ragstream[tiktoken]'"
_HOME = "https://openaipublic.blob.core.windows.net/encodings"


@dataclass(frozen=True, slots=True)
class TokenFile:
    """One encoding of tiktoken.

    Attributes:
        name: As tiktoken calls it.
        sha256: Of its file of ranks, as tiktoken demands it.
        size: Bytes of that file.
        pattern: Where a text is cut before ranks are looked up, as in `tiktoken_ext`.
    """

    name: str
    sha256: str
    size: int
    pattern: str

    @property
    def file_name(self) -> str:
        """Name of its file."""
        return f"{self.name}.tiktoken"

    @property
    def url(self) -> str:
        """Where its publisher offers it."""
        return f"{_HOME}/{self.file_name}"


_WORDS = (
    r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"""
    r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
    r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"""
    r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)?""",
)
TOKEN_FILES = {
    file.name: file
    for file in (
        TokenFile(
            "o200k_base",
            "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
            3_613_922,
            "|".join(
                (*_WORDS, r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n/]*", r"\s*[\r\n]+",
                 r"\s+(?!\S)", r"\s+")
            ),
        ),
        TokenFile(
            "cl100k_base",
            "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
            1_681_126,
            r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+|"""
            r""" ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s""",
        ),
    )
}  # fmt: skip
"""By name; the tables of `prompting.tokens` have the same names."""


def token_folder(models_dir: Path) -> Path:
    """Return the folder of the token files; it need not be there."""
    return models_dir / "tiktoken"


def is_here(file: TokenFile, models_dir: Path) -> bool:
    """Return whether an encoding can be counted with: its file is here, whole or not, and tiktoken.

    Args:
        file: The encoding.
        models_dir: ``<data>/models``.
    """
    return (token_folder(models_dir) / file.file_name).is_file() and bool(
        importlib.util.find_spec("tiktoken")
    )


def verified(file: TokenFile, models_dir: Path) -> Path:
    """Return the path of a token file that has its sha256.

    Args:
        file: The encoding.
        models_dir: ``<data>/models``.

    Raises:
        WeightsMissing: It is not here.
        WeightsMismatch: It is damaged, or another file.
    """
    path = token_folder(models_dir) / file.file_name
    again = f"ragstream models pull {file.name}"
    try:
        stat = path.stat()
        found = _sha256(path, stat.st_size, stat.st_mtime_ns, stat.st_ino)
    except FileNotFoundError:
        raise WeightsMissing(
            f"the token file {path} is not on this machine",
            hint=f"{again}; or copy it there from {file.url}",
        ) from None
    except OSError as error:
        raise WeightsMismatch(f"{path} cannot be read: {error.strerror}", hint=again) from None
    if found != file.sha256:
        raise WeightsMismatch(
            f"{path} is damaged: sha256 {found[:12]}…, expected {file.sha256[:12]}…", hint=again
        )
    return path


@functools.lru_cache(maxsize=8)
def _sha256(path: Path, size: int, mtime_ns: int, inode: int) -> str:
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


class EncodingCounter:
    """A `ragstream_core.ports.TokenCounter` that counts with one of tiktoken's encodings.

    Args:
        file: The encoding.
        path: Its file, from `verified`.
    """

    def __init__(self, file: TokenFile, path: Path) -> None:
        self._file = file
        self._path = path
        self._encoding: Any = None
        self._counted = functools.lru_cache(maxsize=256)(self._count)

    @property
    def name(self) -> str:
        """Return ``tiktoken encoding (sha256 …)``."""
        return f"tiktoken {self._file.name} (sha256 {self._file.sha256[:12]})"

    def count(self, text: str) -> int:
        """Return the number of tokens; what looks like a special token is text.

        Raises:
            WeightsMissing: tiktoken is not installed.
            WeightsMismatch: A line of the file is no rank.
        """
        return self._counted(text)

    def _count(self, text: str) -> int:
        if self._encoding is None:
            self._encoding = _opened(self._file, self._path)
        return len(self._encoding.encode_ordinary(text))


def _opened(file: TokenFile, path: Path) -> Any:
    try:
        import tiktoken
    except ImportError:
        raise WeightsMissing("tiktoken is not installed", hint=EXTRA) from None
    try:
        lines = (line.split() for line in path.read_bytes().splitlines() if line)
        ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
        return tiktoken.Encoding(
            file.name, pat_str=file.pattern, mergeable_ranks=ranks, special_tokens={}
        )
    except (OSError, ValueError) as error:
        raise WeightsMismatch(
            f"{path} is not a token file: {error}", hint=f"ragstream models pull {file.name}"
        ) from None
