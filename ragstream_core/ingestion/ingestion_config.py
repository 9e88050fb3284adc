"""`IngestionConfig`: every setting one ingest depends on, as one frozen value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import ragstream_core
from ragstream_core.ingestion.document_tree import DocumentTree
from ragstream_core.ingestion.file_types import TYPES
from ragstream_core.ingestion.parsers.engines import all_tags
from ragstream_core.ingestion.scan import ScanRules
from ragstream_core.records.identity import digest_of

# Version of how bytes become text; raised when a decoding rule changes. The engines of PDF, Office
# and code files have versions of their own (`parsers.engines`), which concern those files alone.
PARSERS_VERSION = "text-2"

SecretsMode = Literal["warn", "skip", "redact", "off"]


@dataclass(frozen=True, slots=True)
class IngestionConfig:
    """Settings of one ingest.

    Attributes:
        profile: Name of the chunk profile.
        chunk_limits: Size, overlap and unit of chunks, where they are not the profile's; part of
            `scan_fp`.
        delete_replaced: Keep no older generation: replaced and deleted rows go at once.
        retain_generations: Generations kept otherwise, ≥ 1.
        max_text_bytes: Larger text and code files are skipped before they are read.
        max_parsed_bytes: Likewise PDF and Office files.
        fallback_encoding: Encoding of what is neither marked nor UTF-8; empty: the likeliest.
        secrets: What is done about secrets in documents: warn, skip, redact or off.
        strip_markdown: Leave the markup of Markdown out of the chunks' texts.
        include: Git-style globs of files to take.
        exclude: Git-style globs of files to leave out.
        verify: Hash every file again and check every vector.
        rebuild: Put a damaged store aside, accept another model, chunk everything again.
        embedding: What names the embedding settings or their fingerprint; part of `scan_fp`.
        flat: The documents are the files of ``doc_root`` itself; no folder is entered.
        documents: Where the documents lie if they are read in place; None: below ``doc_root``.
            No part of `scan_fp`: a folder that was moved holds the same documents.
        accept_missing: Take the documents of a folder that is missing or empty for deleted.
        provenance: What started this ingest; kept in the generation row, never part of a digest.
    """

    profile: str = "default"
    chunk_limits: str = ""
    delete_replaced: bool = False
    retain_generations: int = 20
    max_text_bytes: int = 20_000_000
    max_parsed_bytes: int = 100_000_000
    fallback_encoding: str = ""
    secrets: SecretsMode = "warn"
    strip_markdown: bool = False
    include: tuple[str, ...] = ("**",)
    exclude: tuple[str, ...] = ()
    verify: bool = False
    rebuild: bool = False
    embedding: str = ""
    flat: bool = False
    documents: DocumentTree | None = None
    accept_missing: bool = False
    provenance: Mapping[str, str] = field(default_factory=dict)

    @property
    def rules(self) -> ScanRules:
        """Which files are documents."""
        return ScanRules(tuple(self.include), tuple(self.exclude), self.flat)

    @property
    def parsers(self) -> str:
        """What stands for the reading of text in the index fingerprint."""
        fallback = f" {self.fallback_encoding}" if self.fallback_encoding else ""
        return PARSERS_VERSION + fallback + (" redacted-1" if self.secrets == "redact" else "")

    @property
    def scan_fp(self) -> str:
        """Digest of every setting that shapes the index, known without loading a model.

        The no-op path compares it with that of the last ingest; the program's version is part of
        it, so that an upgrade looks at everything once.
        """
        return digest_of(
            {
                "profile": self.profile,
                "chunk_limits": self.chunk_limits,
                "max_text_bytes": self.max_text_bytes,
                "include": list(self.include),
                "exclude": list(self.exclude),
                "flat": self.flat,
                "embedding": self.embedding,
                "max_parsed_bytes": self.max_parsed_bytes,
                "strip_markdown": self.strip_markdown,
                "secrets": self.secrets,
                "parsers": [self.parsers, *all_tags()],
                "types": list(TYPES),
                "program": ragstream_core.__version__,
            }
        )

    @property
    def kept_generations(self) -> int:
        """How many generations stay."""
        return 1 if self.delete_replaced else max(1, self.retain_generations)
