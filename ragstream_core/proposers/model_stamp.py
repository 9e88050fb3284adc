"""What every vector store refuses: vectors of another model, and ids that it has already.

Which model a store was built by is written into it, and compared when it is opened.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from ragstream_core.errors import DuplicateId, ModelMismatch, RunCommand
from ragstream_core.records.identity import Json


def require_new(ids: Sequence[str], live: Container[str]) -> None:
    """Refuse rows that are there already.

    Args:
        ids: Of the new rows.
        live: Ids of the store, or those of them that are among the new ones.

    Raises:
        DuplicateId: An id is live already, or given twice.
    """
    twice = sorted(identifier for identifier in set(ids) if identifier in live)
    if twice or len(set(ids)) < len(ids):
        raise DuplicateId(
            f"ids already exist or are given twice: {', '.join(twice[:3])}",
            hint="delete them first",
        )


@dataclass(frozen=True, slots=True)
class ModelStamp:
    """A vector space: the model whose vectors a store holds.

    Attributes:
        embed_fp: Fingerprint of the model; empty if unknown.
        model: Its name, for people.
        dimension: Length of a vector; 0 if unknown.
    """

    embed_fp: str = ""
    model: str = ""
    dimension: int = 0

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> ModelStamp:
        """Return the stamp inside a JSON object."""
        return cls(
            str(data.get("embed_fp", "")),
            str(data.get("model", "")),
            int(data.get("dimension", 0)),
        )

    def to_json(self) -> dict[str, Json]:
        """Return what is written into a store: nothing empty, which Chroma would not take."""
        return {key: value for key, value in asdict(self).items() if value}

    def require(self, stored: ModelStamp, *, what: str, project: str = "") -> None:
        """Refuse a store that another model built.

        Args:
            stored: What the store says.
            what: The store, for people.
            project: Whose documents it holds, for the command that rebuilds it.

        Raises:
            ModelMismatch: Another fingerprint or another dimension.
        """
        if stored.embed_fp == self.embed_fp and stored.dimension in (0, self.dimension):
            return
        raise ModelMismatch(
            f"{what} was built by {stored._described()}, this session uses {self._described()}",
            hint=RunCommand("ingest", f"{project or 'PROJECT'} --rebuild"),
        )

    def _described(self) -> str:
        size = f", {self.dimension} dimensions" if self.dimension else ""
        return f"{self.model or 'an unnamed model'} ({self.embed_fp[:12] or 'unknown'}{size})"
