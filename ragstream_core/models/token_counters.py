"""Which counter a prompt's tokens are counted with: a name, resolved once and pinned in its key.

A counter that counts is taken if its file is on this machine: the tokenizer of the model itself, or
tiktoken's encoding of its family. Otherwise tokens are estimated, and the name says so.

Token files hold the ranks of tiktoken's encodings, are kept under the data root and checked by
sha256. `models pull` fetches one, or a person copies it; tiktoken's own loader is not used, because
it downloads what it does not find.
"""

from __future__ import annotations

import base64
import functools
import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragstream_core.errors import InputUnavailable, RunCommand, WeightsMismatch, WeightsMissing
from ragstream_core.platform import extras
from ragstream_core.platform.files import known_sha256
from ragstream_core.ports import TokenCounter
from ragstream_core.settings.prompts import PromptConfig
from ragstream_core.text.token_estimates import (
    COSTS,
    DEFAULT_ENCODING,
    VERSION,
    HeuristicTokenCounter,
    ScriptTokenCounter,
)
from ragstream_core.text.tokenizer import ModelTokenizer

_HOME = "https://openaipublic.blob.core.windows.net/encodings"


@dataclass(frozen=True, slots=True)
class TokenFile:
    """One encoding of tiktoken."""

    name: str  # as tiktoken calls it
    sha256: str  # of its file of ranks, as tiktoken demands it
    size: int
    pattern: str  # where a text is cut before ranks are looked up, as in `tiktoken_ext`

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

# By name; the tables of `text.token_estimates` have the same names.
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


def token_folder(models_dir: Path) -> Path:
    """Return the folder of the token files; it need not be there."""
    return models_dir / "tiktoken"


def is_here(file: TokenFile, models_dir: Path) -> bool:
    """Return whether an encoding can be counted with: its file is here, and tiktoken."""
    return (token_folder(models_dir) / file.file_name).is_file() and bool(
        importlib.util.find_spec("tiktoken")
    )


def verified(file: TokenFile, models_dir: Path) -> Path:
    """Return the path of a token file that has its sha256."""
    path = token_folder(models_dir) / file.file_name
    again = RunCommand("models pull", file.name)
    try:
        digest = known_sha256(path)
    except FileNotFoundError:
        raise WeightsMissing(
            f"the token file {path} is not on this machine",
            hint=(again, f"; or copy it there from {file.url}"),
        ) from None
    except OSError as error:
        raise WeightsMismatch(f"{path} cannot be read: {error.strerror}", hint=again) from None
    if digest != file.sha256:
        raise WeightsMismatch(
            f"{path} is damaged: sha256 {digest[:12]}…, expected {file.sha256[:12]}…", hint=again
        )
    return path


class EncodingCounter:
    """A `ragstream_core.ports.TokenCounter` that counts with one of tiktoken's encodings."""

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
        """Return the number of tokens; what looks like a special token is text."""
        return self._counted(text)

    def _count(self, text: str) -> int:
        if self._encoding is None:
            self._encoding = _opened(self._file, self._path)
        return len(self._encoding.encode_ordinary(text))


def _opened(file: TokenFile, path: Path) -> Any:
    try:
        import tiktoken
    except ImportError:
        raise WeightsMissing("tiktoken is not installed", hint=extras.install("tiktoken")) from None
    try:
        lines = (line.split() for line in path.read_bytes().splitlines() if line)
        ranks = {base64.b64decode(token): int(rank) for token, rank in lines}
        return tiktoken.Encoding(
            file.name, pat_str=file.pattern, mergeable_ranks=ranks, special_tokens={}
        )
    except (OSError, ValueError) as error:
        raise WeightsMismatch(
            f"{path} is not a token file: {error}", hint=RunCommand("models pull", file.name)
        ) from None


_OLDER = re.compile(r"^(gpt-4(-|$)|gpt-4-turbo|gpt-3\.5|gpt-35|text-embedding-)")
_NEWER = re.compile(r"^(gpt-4o|gpt-4\.1|gpt-4\.5|gpt-[5-9]|gpt-oss|o[1-9](-|$)|chatgpt-4o)")
TOKENIZER = "tokenizer.json"


@dataclass(frozen=True, slots=True)
class Resolved:
    """A counter by its name."""

    name: str  # what `counter_named` takes; part of a prompt's key
    note: str = ""  # why it estimates although it should count; empty if all is well


def encoding_of(model: str) -> str:
    """Return the encoding of tiktoken that a model uses, empty if it uses another tokenizer."""
    name = model.rsplit("/", 1)[-1].lower()
    if _NEWER.match(name):
        return "o200k_base"
    return "cl100k_base" if _OLDER.match(name) else ""


def resolved_counter(prompt: PromptConfig, models_dir: Path) -> Resolved:
    """Return which counter these settings mean on this machine."""
    if prompt.chars_per_token:
        return Resolved(HeuristicTokenCounter(prompt.chars_per_token).name)
    wanted, family = prompt.token_counter, encoding_of(prompt.model_target)
    if wanted in TOKEN_FILES:
        return Resolved(_encoding(wanted, models_dir).name)
    estimate = ScriptTokenCounter(family or DEFAULT_ENCODING).name
    if wanted == "estimate":
        return Resolved(estimate)
    own = _tokenizer_of(prompt.model_target, models_dir)
    if own is not None:
        return Resolved(_tokenizer_name(prompt.model_target, known_sha256(own)))
    if prompt.model_target and not family:
        return Resolved(estimate)
    file = TOKEN_FILES[family or DEFAULT_ENCODING]
    if not is_here(file, models_dir):
        return Resolved(estimate)
    try:
        return Resolved(_encoding(file.name, models_dir).name)
    except WeightsMismatch as error:
        return Resolved(estimate, f"tokens are estimated: {error.message}; next: {error.hint}")


def counter_named(name: str, models_dir: Path) -> TokenCounter:
    """Return the counter of that name, as `resolved_counter` gave it."""
    estimate = re.fullmatch(r"estimate \(([\d.e+-]+) characters a token\)", name)
    if estimate:
        return HeuristicTokenCounter(float(estimate[1]))
    for encoding in COSTS:
        if name == f"estimate ({encoding}, table {VERSION})":
            return ScriptTokenCounter(encoding)
    try:
        for encoding in TOKEN_FILES:
            if name.startswith(f"tiktoken {encoding} "):
                return _require(_encoding(encoding, models_dir), name)
        model, _, digest = name.removeprefix("tokenizer ").rpartition(" (sha256 ")
        path = _tokenizer_of(model, models_dir)
        if name.startswith("tokenizer ") and path is not None and digest:
            return _require(_TokenizerCounter(model, path, known_sha256(path)), name)
    except (WeightsMissing, WeightsMismatch) as error:
        raise InputUnavailable(
            f"the prompt's tokens were counted with {name}: {error.message}", hint=error.advice
        ) from None
    raise InputUnavailable(
        f"the prompt's tokens were counted with {name}, which is not on this machine",
        hint="make the prompt again; its tokens are then counted with what is here",
    )


def counter_for(prompt: PromptConfig, models_dir: Path) -> TokenCounter:
    """Return the counter that these settings mean on this machine."""
    return counter_named(resolved_counter(prompt, models_dir).name, models_dir)


def _encoding(name: str, models_dir: Path) -> EncodingCounter:
    return _open_encoding(name, verified(TOKEN_FILES[name], models_dir))


@functools.lru_cache(maxsize=2)
def _open_encoding(name: str, path: Path) -> EncodingCounter:
    return EncodingCounter(TOKEN_FILES[name], path)


def _require(counter: TokenCounter, name: str) -> TokenCounter:
    """Return a counter that has the name it was pinned by."""
    if counter.name != name:
        raise WeightsMismatch(f"its file has changed ({counter.name})", hint="restore it")
    return counter


def _tokenizer_of(model: str, models_dir: Path) -> Path | None:
    """Return the ``tokenizer.json`` of a model whose folder lies in the data root."""
    if not model or ".." in Path(model).parts or Path(model).is_absolute():
        return None
    path = models_dir / model / TOKENIZER
    return path if path.is_file() else None


def _tokenizer_name(model: str, digest: str) -> str:
    return f"tokenizer {model} (sha256 {digest[:12]})"


class _TokenizerCounter:
    """Counts with a model's own ``tokenizer.json``."""

    def __init__(self, model: str, path: Path, digest: str) -> None:
        self.name = _tokenizer_name(model, digest)
        self._tokenizer = _open_tokenizer(path, digest)

    def count(self, text: str) -> int:
        """Return the number of tokens, special ones not included."""
        return self._tokenizer.count(text)


@functools.lru_cache(maxsize=2)
def _open_tokenizer(path: Path, digest: str) -> ModelTokenizer:
    """Load a tokenizer."""
    try:
        return ModelTokenizer.from_file(path)
    except Exception as error:  # tokenizers raises a bare Exception
        raise WeightsMismatch(
            f"{path} is not a tokenizer: {str(error)[:120]}",
            hint="remove it, or replace it by the model's own",
        ) from None
