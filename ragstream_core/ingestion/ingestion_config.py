"""`IngestionConfig`: every setting one ingest depends on, as one frozen value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import ragstream_core
from ragstream_core.ingestion.scan import ScanRules
from ragstream_core.records.identity import digest_of

PARSERS_VERSION = "text-1"
"""Version of how bytes become text; raised when a decoding rule changes."""


@dataclass(frozen=True, slots=True)
class IngestionConfig:
    """Settings of one ingest.

    Attributes:
        profile: Name of the chunk profile.
        delete_replaced: Keep no older generation: replaced and deleted rows go at once.
        retain_generations: Generations kept otherwise, ≥ 1.
        max_text_bytes: Larger files are skipped before they are read.
        include: Git-style globs of files to take.
        exclude: Git-style globs of files to leave out.
        verify: Hash every file again and check every vector.
        rebuild: Put a damaged store aside, accept another model, chunk everything again.
        embedding: What names the embedding settings or their fingerprint; part of `scan_fp`.
        flat: The documents are the files of ``doc_root`` itself; no folder is entered.
        provenance: What started this ingest; kept in the generation row, never part of a digest.
    """

    profile: str = "default"
    delete_replaced: bool = False
    retain_generations: int = 20
    max_text_bytes: int = 20_000_000
    include: tuple[str, ...] = ("**",)
    exclude: tuple[str, ...] = ()
    verify: bool = False
    rebuild: bool = False
    embedding: str = ""
    flat: bool = False
    provenance: Mapping[str, str] = field(default_factory=dict)

    @property
    def rules(self) -> ScanRules:
        """Which files are documents."""
        return ScanRules(tuple(self.include), tuple(self.exclude), self.flat)

    @property
    def scan_fp(self) -> str:
        """Digest of every setting that shapes the index, known without loading a model.

        The no-op path compares it with that of the last ingest; the program's version is part of
        it, so that an upgrade looks at everything once.
        """
        return digest_of(
            {
                "profile": self.profile,
                "max_text_bytes": self.max_text_bytes,
                "include": list(self.include),
                "exclude": list(self.exclude),
                "flat": self.flat,
                "embedding": self.embedding,
                "parsers": PARSERS_VERSION,
                "program": ragstream_core.__version__,
            }
        )

    @property
    def kept_generations(self) -> int:
        """How many generations stay."""
        return 1 if self.delete_replaced else max(1, self.retain_generations)
