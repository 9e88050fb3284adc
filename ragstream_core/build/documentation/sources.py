"""A project's newest generation, read for requirements: its documents, ids, and lines of files."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ragstream_core.documentation.definitions import Definition, Found, Mention, find
from ragstream_core.documentation.deterministic import is_testable
from ragstream_core.documentation.documents import Document, Span, documents_of
from ragstream_core.ingestion.file_types import file_type, kind_of
from ragstream_core.stores.generations import kept_generations
from ragstream_core.stores.origin import manifest_of

if TYPE_CHECKING:
    from ragstream_core.build.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Unit:
    """Requirements that one test case is written for.

    Attributes:
        ids: The ids that one definition begins with.
        definitions: That one, then others of the same ids.
    """

    ids: tuple[str, ...]
    definitions: tuple[Definition, ...]


@dataclass(frozen=True)
class Project:
    """What is read of a project.

    Attributes:
        workspace: The data root.
        name: Its name.
        generation: The generation's number.
        digest: Of the generation.
        created: When the generation was made; the time of every prompt asked about it.
        documents: Path → document.
        found: Its requirements.
    """

    workspace: Workspace
    name: str
    generation: int
    digest: str
    created: dt.datetime
    documents: dict[str, Document]
    found: Found
    _texts: dict[str, str] = field(default_factory=dict, repr=False)

    def words(self, passage: Definition | Mention) -> str:
        """Return the words of a mention, or of a definition with its id."""
        return self.documents[passage.path].at(passage.span)

    def lines(self, path: str, span: Span) -> tuple[int, int]:
        """Return first and last line of a passage; (0, 0) where the file is not what it was."""
        if kind_of(file_type(path)) in ("pdf", "office"):
            return 0, 0
        if path not in self._texts:
            from ragstream_core.build.explaining.passages import text_of  # brings NumPy

            entry = manifest_of(self.workspace.index_dir(self.name), self.generation)[path]
            named = {"project": self.name, "path": path, "sha256": entry.sha256}
            self._texts[path] = text_of(self.workspace, named)
        text = self._texts[path]
        if not 0 <= span[0] < span[1] <= len(text):
            return 0, 0
        return text.count("\n", 0, span[0]) + 1, text.count("\n", 0, span[1] - 1) + 1

    def units(self, ids: Sequence[str]) -> list[Unit]:
        """Return what is to be written for some ids; those that are only mentioned have none."""
        first = {i: self._best(self.found.of(i)) for i in ids if self.found.of(i)}
        return [Unit(one.ids, (one, *self._others(one))) for one in dict.fromkeys(first.values())]

    def is_testable(self, unit: Unit) -> bool:
        """Whether the definitions of a unit state something that could be checked."""
        return any(self._states(one) for one in unit.definitions)

    def _best(self, definitions: Sequence[Definition]) -> Definition:
        return next((one for one in definitions if self._states(one)), definitions[0])

    def _states(self, one: Definition) -> bool:
        document = self.documents[one.path]
        sentences = [document.at(span) for span in one.sentences]
        lists = [(document.at(lead), document.at(item)) for item, lead in one.leads]
        return is_testable(sentences, [document.at(span) for span in one.checks], lists)

    def _others(self, one: Definition) -> list[Definition]:
        wanted = set(one.ids)
        near = dict.fromkeys(d for name in one.ids for d in self.found.of(name))
        return [other for other in near if other != one and wanted.issuperset(other.ids)]


def read_project(workspace: Workspace, name: str, pattern: re.Pattern[str]) -> Project:
    """Read the newest generation of a project.

    Args:
        workspace: The data root.
        name: Of the project.
        pattern: Fits whole requirement ids.

    Raises:
        UnknownProject: There is no such folder.
        GenerationGone: Nothing is ingested.
        IntegrityError: The index is damaged.
    """
    workspace.doc_dir(name)
    view = workspace.view(name)
    documents = documents_of(view.chunks(view.chunk_ids))
    made = {one.n: one.created for one in kept_generations(workspace.index_dir(name))}
    created = dt.datetime.fromisoformat(made[view.generation]).astimezone(dt.UTC)
    by_path = {document.path: document for document in documents}
    found = find(documents, pattern)
    return Project(workspace, name, view.generation, view.digest, created, by_path, found)
