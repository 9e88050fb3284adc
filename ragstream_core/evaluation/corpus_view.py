"""A corpus indexed in memory, as one generation that a retriever can read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragstream_core.lexical import LexicalArrays, build_lexical
from ragstream_core.records import Chunk
from ragstream_core.records.identity import chunk_id, digest_of, parse_chunk_id, sha256_hex
from ragstream_core.terms import term_blob

if TYPE_CHECKING:
    from ragstream_core.ingestion.chunker import Chunker
    from ragstream_core.ports import F32, Embedder, Progress


@dataclass(frozen=True, slots=True)
class CorpusView:
    """The chunks of a corpus; implements `ragstream_core.ports.IndexView`.

    A document is the Markdown text ``# title`` and its text, as a file would be.
    """

    project: str
    generation: int
    digest: str
    embed_fp: str
    chunk_ids: Sequence[str]
    paths: Sequence[str]
    vectors: F32
    lexical: LexicalArrays
    texts: dict[str, Chunk]

    @classmethod
    def build(
        cls,
        documents: Sequence[dict[str, Any]],
        *,
        chunker: Chunker,
        embedder: Embedder,
        cache: Path | None = None,
        progress: Progress | None = None,
    ) -> CorpusView:
        """Chunk and embed a corpus.

        Args:
            documents: Objects with ``id``, ``text`` and perhaps ``title``.
            chunker: As for ingestion.
            embedder: As for ingestion.
            cache: Folder for the vectors, so that another setting need not embed again.
            progress: Called with (done, total) while embedding.
        """
        chunks = sorted(_chunks(documents, chunker), key=lambda c: c.id)
        texts = [chunk.snippet for chunk in chunks]
        digest = digest_of([c.id for c in chunks])
        vectors = _cached_vectors(texts, digest, embedder, cache=cache, progress=progress)
        blobs = [[term_blob(str(c.meta["heading"])), term_blob(c.snippet)] for c in chunks]
        return cls(
            project="corpus",
            generation=1,
            digest=digest,
            embed_fp=embedder.fingerprint,
            chunk_ids=[c.id for c in chunks],
            paths=[c.source for c in chunks],
            vectors=vectors,
            lexical=build_lexical(blobs),
            texts={c.id: c for c in chunks},
        )

    def chunks(self, chunk_ids: Iterable[str]) -> list[Chunk]:
        """Return chunks in the order asked for.

        Raises:
            KeyError: An unknown id.
        """
        return [self.texts[i] for i in chunk_ids]

    def documents(self, chunk_ids: Iterable[str]) -> list[str]:
        """Return the document ids of ranked chunks, each at its best chunk's place."""
        return list(dict.fromkeys(parse_chunk_id(i)[0] for i in chunk_ids))


def _chunks(documents: Sequence[dict[str, Any]], chunker: Chunker) -> Iterable[Chunk]:
    for document in documents:
        title = str(document.get("title") or "").strip()
        text = f"# {title}\n\n{document['text']}" if title else str(document["text"])
        sha256 = sha256_hex(text)
        for piece in chunker.chunk(text, file_type="md"):
            yield Chunk(
                id=chunk_id(str(document["id"]), sha256, piece.chunk_idx),
                source=str(document["id"]),
                snippet=piece.chunk_text,
                span=(piece.start, piece.end),
                meta={"heading": piece.heading, "project": "corpus", "sha256": sha256},
            )


def _cached_vectors(
    texts: Sequence[str],
    digest: str,
    embedder: Embedder,
    *,
    cache: Path | None,
    progress: Progress | None,
) -> F32:
    import numpy as np

    from ragstream_core.atomic import replace_bytes

    path = cache / f"{digest[:16]}-{embedder.fingerprint[:16]}.f32" if cache else None
    size = len(texts) * embedder.dimension * 4
    if path is not None and path.is_file() and path.stat().st_size == size:
        return np.fromfile(path, dtype=np.float32).reshape(-1, embedder.dimension)
    vectors = embedder.embed_documents(list(texts), progress=progress)
    if path is not None:
        replace_bytes(path, np.ascontiguousarray(vectors, dtype="<f4").tobytes(), durable=False)
    return vectors
