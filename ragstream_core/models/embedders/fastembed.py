"""FastEmbed's models (extra ``fastembed``): quantised ONNX exports that the package describes.

FastEmbed knows the file, the tokenizer and the pooling of each of its models and runs them; here
texts are put before it one by one, so that the bits of a vector depend on nothing else, in windows,
so that nothing is truncated, and with the prefixes of the model family, which FastEmbed leaves to
its caller. Files are local: the package's own downloads are never used.
"""

from __future__ import annotations

import importlib.metadata
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ragstream_core.errors import RunCommand, UnknownSetting, WeightsMismatch, WeightsMissing
from ragstream_core.models.embedders import fingerprints, weights
from ragstream_core.models.embedders.base import Encoder, mean_of_windows, unit_rows_f16
from ragstream_core.platform import extras
from ragstream_core.platform.files import known_sha256
from ragstream_core.records.identity import digest_of
from ragstream_core.text.tokenizer import ModelTokenizer, clean, even_windows

if TYPE_CHECKING:
    from ragstream_core.ports import F16, F32

_CONFIGURATION = ("tokenizer.json", "tokenizer_config.json")
_OPTIONAL = ("config.json", "special_tokens_map.json")
_NEAR = 32
Embed = Callable[[list[str]], Iterable[Any]]


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model of FastEmbed's list whose files are on this machine."""

    name: str  # as FastEmbed calls it
    folder: Path
    files: tuple[str, ...]

    @property
    def fingerprint(self) -> str:
        """``embed_fp``: files, prefixes, and FastEmbed's minor version, which decides pooling."""
        prefixes = fingerprints.prefixes_for(self.folder, self.name)
        version = importlib.metadata.version("fastembed").split(".")
        return digest_of(
            {
                "files": {name: known_sha256(self.folder / name) for name in self.files},
                "long_texts": fingerprints.LONG_TEXTS,
                "prefixes": [prefixes.query, prefixes.passage],
                "runtime": f"fastembed {'.'.join(version[:2])}",
            }
        )


def local_model(model: str, models_dir: Path) -> LocalModel:
    """Return a model of FastEmbed's list, found on this machine without loading it."""
    row = _described(model)
    name, source, weights_file = str(row["model"]), str(row["sources"]["hf"]), row["model_file"]
    needed = (str(weights_file), *map(str, row["additional_files"]), *_CONFIGURATION)
    for folder in _places(models_dir, source, name):
        if folder is not None and all((folder / file).is_file() for file in needed):
            optional = (file for file in _OPTIONAL if (folder / file).is_file())
            return LocalModel(name, folder, (*needed, *optional))
    pull = (RunCommand("models pull", source), ", or ") if "/" not in needed[0] else ()
    raise WeightsMissing(
        f"the files of {name} for FastEmbed are not on this machine ({', '.join(needed)})",
        hint=(*pull, f"put the files of {source} under {models_dir / source}"),
    )


def hub_source(model: str) -> str:
    """Return the repository that holds FastEmbed's export of a model."""
    return str(_described(model)["sources"]["hf"])


def _described(model: str) -> dict[str, Any]:
    """Return FastEmbed's description of a model."""
    try:
        from fastembed import TextEmbedding
    except ImportError:
        hint = extras.install("fastembed")
        raise WeightsMissing("FastEmbed is not installed", hint=hint) from None
    rows: list[dict[str, Any]] = TextEmbedding.list_supported_models()
    for row in rows:
        if str(row["model"]).lower() == model.lower():
            return row
    raise UnknownSetting(
        f"FastEmbed has no model {model!r}",
        hint="set embeddings.model to one of "
        + ", ".join(sorted(str(row["model"]) for row in rows))
        + ", or embeddings.backend to onnx, which runs any sentence-transformers model",
    )


def _places(models_dir: Path, source: str, name: str) -> Iterable[Path | None]:
    from fastembed.common.utils import define_cache_dir

    yield models_dir / source
    yield models_dir / name
    yield weights.hub_cache_folder(source, define_cache_dir())
    yield weights.hub_cache_folder(source)


class FastEmbedEmbeddings(Encoder):
    """An embedder over a model of FastEmbed's list."""

    def __init__(self, models_dir: Path, *, model: str, workers: int = 0) -> None:
        """Load a model from local files."""
        local = local_model(model, models_dir)
        self.name, self._digest = local.name, local.fingerprint
        self._fast = _opened(local)
        own = self._fast.model.tokenizer
        self._tokenizer = ModelTokenizer(own)
        self._prefixes = fingerprints.prefixes_for(local.folder, local.name)
        longest = max(map(self.count, (self._prefixes.query, self._prefixes.passage)))
        specials = own.num_special_tokens_to_add(is_pair=False)
        self.window = int(own.truncation["max_length"]) - specials - longest
        self._start_workers(workers)
        self.dimension = int(self._passage("a").shape[0])

    @property
    def fingerprint(self) -> str:
        """Digest of the model's files, its prefixes and FastEmbed's version."""
        return self._digest

    def token_offsets(self, text: str) -> list[tuple[int, int]]:
        """Return (start, end) of each token of a text of any length, in characters."""
        return self._tokenizer.offsets(text)

    def _passage(self, text: str) -> F32:
        return self._pooled(self._fast.passage_embed, self._prefixes.passage, text)

    def _query(self, text: str) -> F32:
        return self._pooled(self._fast.query_embed, self._prefixes.query, text)

    def _pooled(self, embed: Embed, prefix: str, text: str) -> F32:
        return mean_of_windows(next(iter(embed([prefix + p]))) for p in self._parts(clean(text)))

    def _tokens_of(self, text: str) -> F16:
        parts = [self._last_layer(part) for part in self._parts(clean(text))]
        return unit_rows_f16(np.concatenate(parts))

    def _last_layer(self, part: str) -> Any:
        """Return a row a token, without special ones; one row if the export pools inside."""
        output = self._fast.model.onnx_embed([part]).model_output
        if output.ndim != 3:
            return output
        special = self._fast.model.tokenizer.encode(part).special_tokens_mask
        return output[0][np.asarray(special) == 0]

    def _parts(self, text: str) -> list[str]:
        """Cut a text into nearly even windows, before a word if one begins near."""
        spans = self.token_offsets(text)
        if len(spans) <= self.window:
            return [text]
        windows = even_windows(list(range(len(spans))), self.window)
        starts = (_word_before(spans, window[0]) for window in windows[1:])
        cuts = sorted({0, *(spans[start][0] for start in starts), len(text)})
        if len(cuts) == 2:  # one character of more tokens than fit
            self.truncated_inputs += 1
            return [text]
        parts = [text[start:end] for start, end in itertools.pairwise(cuts)]
        return [piece for part in parts for piece in self._parts(part)]


def _word_before(spans: list[tuple[int, int]], at: int) -> int:
    """Return the nearest token at or before one that has white space before it, else that one."""
    near = range(at, max(0, at - _NEAR), -1)
    return next((i for i in near if spans[i][0] > spans[i - 1][1]), at)


def _opened(local: LocalModel) -> Any:
    """Return FastEmbed over local files, one thread a call."""
    from fastembed import TextEmbedding

    try:
        fast = TextEmbedding(
            local.name,
            cache_dir=str(local.folder),  # made otherwise, though nothing is put there
            threads=1,
            providers=["CPUExecutionProvider"],
            specific_model_path=str(local.folder),
            local_files_only=True,
        )
    except Exception as error:  # tokenizers and onnxruntime raise what they like
        said = str(error).strip().splitlines() or [type(error).__name__]
        raise WeightsMismatch(
            f"FastEmbed cannot load {local.name} from {local.folder}: {said[0][:160]}",
            hint="remove this folder and get its files again",
        ) from None
    if not hasattr(fast.model, "onnx_embed"):
        raise UnknownSetting(
            f"{local.name} has no vectors of tokens, which late interaction needs",
            hint="set embeddings.model to another one, such as BAAI/bge-small-en-v1.5",
        )
    return fast
