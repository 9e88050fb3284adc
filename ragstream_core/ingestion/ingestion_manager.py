"""`IngestionManager`: the one way documents get into an index (R-084…R-088).

The order is fixed: lock, scan, read once, diff by content hash, embed what is new, verify, commit
in one transaction; only then what is derived. Nothing is marked before it is stored and nothing
old goes before the new is committed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.errors import ModelMismatch, RagstreamError, RunCommand
from ragstream_core.index import check, commit
from ragstream_core.index.catalog import Catalog, open_catalog
from ragstream_core.index.rows import (
    TRUNCATED,
    Generation,
    ScanStamp,
    last_scan,
    live_files,
    pages_without_text,
    reading_remark,
    recorded_signatures,
)
from ragstream_core.ingestion.document_tree import DocumentTree
from ragstream_core.ingestion.ingestion_config import PARSERS_VERSION, IngestionConfig
from ragstream_core.ingestion.loader import Document, DocumentLoader, Reading
from ragstream_core.ingestion.parsers.isolated import kept_engines
from ragstream_core.ingestion.quality_gate import QUALITY, GateVerdict, QualityGate
from ragstream_core.ingestion.scan import Scan, require_folder
from ragstream_core.ingestion.secrets import phrase
from ragstream_core.ingestion.staging import (
    ComingTexts,
    GiveTexts,
    Stager,
    chunked,
    read_store,
    throttled,
)
from ragstream_core.ingestion.stats import IngestionStats, remarks
from ragstream_core.ingestion.survey import Depth, Recorded, Survey, Surveyor
from ragstream_core.records.chunk import unread_sentence
from ragstream_core.records.identity import digest_of

if TYPE_CHECKING:
    from ragstream_core.ports import Embedder, PhaseProgress
    from ragstream_core.text.chunker import Chunker


@dataclass(frozen=True, slots=True)
class Ingest:
    """One ingest, with its store open and locked.

    Attributes:
        project: Project name.
        store: The project's storage.
        loader: Reads files.
        config: Settings.
        stager: Stages chunks and embeds their texts.
        chunker: Cuts documents.
        index_fp: Fingerprint of all that shapes the rows.
        embed_fp: Fingerprint of the model.
        progress: Called with (phase, done, total).
        gate: Judges a new generation before it is committed.
    """

    project: str
    store: Catalog
    loader: DocumentLoader
    config: IngestionConfig
    stager: Stager
    chunker: Chunker
    index_fp: str
    embed_fp: str
    progress: PhaseProgress
    gate: QualityGate | None = None

    def run(self, started_ns: int) -> IngestionStats:
        """Do it, in the order that is law.

        Args:
            started_ns: Now, ns since the epoch: the scan begins no earlier.

        Raises:
            ModelMismatch: The store was built by another model and ``rebuild`` is off.
            RagstreamError: Staging, verification or the commit failed; nothing was committed.
        """
        newest = self.store.latest()
        again = self.store.damaged_texts() if self.config.verify else ()
        found, seen = self.survey(newest, again)
        self.stager.finish()
        self.progress("verify", 0, self.stager.staged)
        thorough = self.config.verify or self.config.rebuild
        repaired = self.stager.verify(everything=thorough)
        stamp = ScanStamp(started_ns, self.config.scan_fp)
        made, committed, verdict = self._commit(newest, seen, stamp)
        warnings = list(self.store.notes)
        warnings += [f"{path}: damaged texts were read again" for path in sorted(again)]
        warnings += [f"{repaired} damaged vectors were made again"] if repaired else []
        warnings += _told(seen)
        rewrite = committed or bool(seen.change.touched or seen.change.opened)
        warnings += self._derive(found.refused + seen.held, rewrite=rewrite)
        if thorough and made is not None and made.embed_fp == self.embed_fp:
            warnings += self._repair_rest()
        stats = self._stats(found, seen, made, verdict)
        return replace(stats, committed=committed, warnings=(*warnings, *stats.warnings))

    def survey(self, newest: Generation | None, again: Collection[str] = ()) -> tuple[Scan, Survey]:
        """Read what may have changed and give its chunks to the stager; changes nothing.

        Args:
            newest: The newest committed generation.
            again: Paths of files that are read whatever their signatures say.

        Returns:
            What is there, and what became of it.

        Raises:
            ModelMismatch: The store was built by another model and ``rebuild`` is off.
            RagstreamError: Staging failed.
        """
        self._refuse_other_model(newest)
        db = self.store.db
        last = last_scan(db)
        files = live_files(db, newest.n) if newest else {}
        recorded = Recorded(files, recorded_signatures(db), last.started_ns)
        found = self._found(recorded)
        depth = self._depth(newest, last, again)
        surveyor = Surveyor(self.loader, recorded, depth, take=self._take, progress=self.progress)
        return found, surveyor.survey(found)

    def _found(self, recorded: Recorded) -> Scan:
        """Return what is there; the documents of a folder that is missing are not gone.

        Raises:
            InputUnavailable: No folder of the project is there.
        """
        documents = self.loader.documents
        found = documents.scan(self.config.rules)
        if self.config.accept_missing:
            return documents.accepted(found)
        found = documents.guarded(found, recorded.files, recorded.signatures)
        documents.require_present(found, self.project, all_of_them=self.config.rebuild)
        return found

    def _take(self, document: Document, share: float) -> None:
        self.stager.stage(*chunked(document, self.chunker), share)

    def _refuse_other_model(self, newest: Generation | None) -> None:
        if newest is not None and newest.embed_fp != self.embed_fp and not self.config.rebuild:
            project = self.project
            raise ModelMismatch(
                f"the index of {project} was built by model {newest.embed_fp[:12]}, "
                f"the settings name {self.embed_fp[:12]}",
                hint=RunCommand("ingest", f"{project} --rebuild"),
            )

    def _depth(self, newest: Generation | None, last: ScanStamp, again: Collection[str]) -> Depth:
        config = self.config
        other_rows = newest is None or newest.index_fp != self.index_fp
        return Depth(
            read_all=config.verify or last.scan_fp != config.scan_fp,
            chunk_all=config.rebuild or other_rows,
            chunk=frozenset(again),
        )

    def _cut_before(self, newest: Generation | None) -> int:
        """How many texts were cut for the generations this one stands on."""
        if newest is None or self.config.rebuild:
            return 0
        return int(newest.provenance.get(TRUNCATED, 0))

    def _commit(
        self, newest: Generation | None, seen: Survey, stamp: ScanStamp
    ) -> tuple[Generation | None, bool, GateVerdict | None]:
        self.progress("commit", 0, self.stager.staged)
        provenance = {
            **self.config.provenance,
            TRUNCATED: str(self._cut_before(newest) + self.stager.truncated_inputs),
            **self.stager.provenance(),
        }
        db, index_dir = self.store.db, self.store.index_dir
        made = commit.prepare(
            db,
            seen.change,
            index_fp=self.index_fp,
            embed_fp=self.embed_fp,
            provenance=provenance,
        )
        if newest is not None and made.digest == newest.digest:
            commit.note_scan(db, self.store.path, seen.change, stamp=stamp)
            return newest, False, None
        verdict = None
        if self.gate is not None:
            verdict = self.gate.judge(commit.candidate_view(db, index_dir, made), newest)
        if verdict is not None:
            if verdict.refused:  # nothing is noted: the next ingest looks at the same files again
                return newest, False, verdict
            figures = verdict.figures.to_json()
            made = replace(made, provenance={**made.provenance, QUALITY: figures})
        self.store.commit(made, seen.change, stamp=stamp)
        return made, True, verdict

    def _derive(self, refused: list[tuple[str, str]], *, rewrite: bool) -> list[str]:
        """Do what comes after the commit; a failure is reported and repaired by the next run."""
        self.progress("publish", 0, 0)
        warnings = []
        try:
            self.store.retain(self.config.kept_generations)
        except (RagstreamError, OSError) as error:
            warnings.append(f"old generations were not dropped: {error}")
        try:
            self.store.publish(refused, rewrite_manifest=rewrite)
        except (RagstreamError, OSError) as error:
            warnings.append(f"derived files are out of date: {error}")
        return warnings

    def _repair_rest(self) -> list[str]:
        try:
            return check.repair_rest(self.store.db, self.store.index_dir, self.embed_fp)
        except (RagstreamError, OSError) as error:
            return [f"not everything could be checked: {error}"]

    def _stats(
        self, found: Scan, seen: Survey, newest: Generation | None, verdict: GateVerdict | None
    ) -> IngestionStats:
        """Return what the source, the stager and the gate came to."""
        stager, changed, skipped = self.stager, seen.diff.changed, seen.diff.skipped
        held = [row for row in seen.held if row not in skipped]
        unreadable = [(path or ".", reason) for path, reason in found.unreadable]
        files = {name: len(paths) for name, paths in changed.items()}
        files |= {"scanned": len(found.files), "unchanged": len(seen.diff.unchanged)}
        counts = newest.counts if newest else {}
        chunks = {"embedded": stager.embedded, "reused": stager.reused}
        return IngestionStats(
            self.project,
            newest.n if newest else 0,
            committed=False,
            files=files | {"skipped": len(skipped)},
            changed=changed,
            skipped_reasons=(*skipped, *held, *found.refused, *unreadable),
            chunks=chunks | {"live": counts.get("chunks", 0)},
            documents=counts.get("files", 0),
            long_inputs=stager.long_inputs,
            truncated_inputs=stager.truncated_inputs,
            model_seconds=stager.seconds,
            warnings=(
                *(f"{path}: {reason}" for path, reason in held),
                *self.loader.documents.kept_back(found),
                *(verdict.worse if verdict else ()),
            ),
            digest=newest.digest if newest else "",
            refused=verdict.refused if verdict else "",
            quality=verdict,
        )


def _require_documents(documents: DocumentTree, project: str, config: IngestionConfig) -> None:
    if not documents.in_place:
        require_folder(documents.roots[0].path)
    elif not config.accept_missing:
        documents.require_present(documents.missing(), project, all_of_them=config.rebuild)


def index_fingerprint(embed_fp: str, chunker_version: str, parsers: str = PARSERS_VERSION) -> str:
    """Return the digest of everything but the documents that shapes an index's rows."""
    return digest_of({"embed_fp": embed_fp, "chunker": chunker_version, "parsers": parsers})


def reading_of(config: IngestionConfig) -> Reading:
    """Return how an ingest reads files."""
    return Reading(
        max_text_bytes=config.max_text_bytes,
        max_parsed_bytes=config.max_parsed_bytes,
        fallback_encoding=config.fallback_encoding,
        secrets=config.secrets,
    )


class IngestionManager:
    """Brings a project's index up to its folder.

    Args:
        doc_root: Folder of all projects' documents.
        index_root: Folder of all projects' indexes.
        embedder: Makes the vectors.
        chunkers: Returns the chunker of a profile name.
        progress: Called with (phase, done, total), a few times a second; phases ``read``,
            ``embed``, ``verify``, ``commit``, ``publish``.
        gate: Judges a generation before it is committed; default: none.
        pinned: Returns the generations of a project that retention must not drop; default: none.
        clock: Now, ns since the epoch.
    """

    def __init__(
        self,
        doc_root: Path,
        index_root: Path,
        *,
        embedder: Embedder,
        chunkers: Callable[[str], Chunker],
        progress: PhaseProgress | None = None,
        gate: QualityGate | None = None,
        pinned: Callable[[str], Collection[int]] = lambda project: (),
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._doc_root = doc_root
        self._index_root = index_root
        self._embedder = embedder
        self._chunkers = chunkers
        self._progress = throttled(progress)
        self._gate = gate
        self._pinned = pinned
        self._clock = clock

    def run(self, project_name: str, config: IngestionConfig) -> IngestionStats:
        """Ingest one project.

        Args:
            project_name: Name of its folder below ``doc_root``.
            config: Settings.

        Returns:
            What was done; ``committed`` is false where no content changed, or where ``refused``
            says why the quality gate kept the old generation.

        Raises:
            UnknownProject: There is no such folder.
            UnknownSetting: There is no such chunk profile.
            ProjectLocked: Another process writes this project.
            ModelMismatch: The store was built by another model and ``rebuild`` is off.
            IntegrityError: The store is damaged.
            EmbeddingFailed: The model returned something unusable; the files stay pending.
            OperationFailed: Disk full; what was embedded so far is kept.
        """
        began = time.perf_counter()
        chunker, loader = self._reader(project_name, config)
        with open_catalog(
            self._index_root / project_name,
            rebuild=config.rebuild,
            pinned=partial(self._pinned, project_name),
        ) as store:
            stager = Stager(store, self._embedder, progress=self._progress)
            task = self._task(project_name, config, stager, chunker, loader)
            with kept_engines():
                stats = task.run(self._clock())
        return replace(
            stats,
            seconds=time.perf_counter() - began,
            model=self._embedder.name,
            dimension=self._embedder.dimension,
            device=str(getattr(self._embedder, "device", "")),
        )

    def coming_texts(
        self, project_name: str, config: IngestionConfig, give: GiveTexts, *, batch_texts: int
    ) -> None:
        """Hand over the texts that an ingest would embed now; writes nothing, takes no lock.

        Args:
            project_name: Name of its folder below ``doc_root``.
            config: Settings, as for `run`.
            give: Called with hash → text, each text once.
            batch_texts: How many at a time; the last time it may be fewer.

        Raises:
            RagstreamError: As `run`, before it embeds.
        """
        chunker, loader = self._reader(project_name, config)
        index_dir = self._index_root / project_name
        with read_store(index_dir, rebuild=config.rebuild) as store, kept_engines():
            stager = ComingTexts(
                store, self._embedder, give, progress=self._progress, batch_texts=batch_texts
            )
            self._task(project_name, config, stager, chunker, loader).survey(store.latest())
            stager.finish()

    def _reader(self, project_name: str, config: IngestionConfig) -> tuple[Chunker, DocumentLoader]:
        chunker = self._chunkers(config.profile)
        loader = DocumentLoader(
            self._doc_root,
            "" if config.flat else project_name,
            rules=config.rules,
            reading=reading_of(config),
            documents=config.documents,
            clock=self._clock,
        )
        _require_documents(loader.documents, project_name, config)  # else an index is left behind
        return chunker, loader

    def _task(
        self,
        project_name: str,
        config: IngestionConfig,
        stager: Stager,
        chunker: Chunker,
        loader: DocumentLoader,
    ) -> Ingest:
        fingerprint = self._embedder.fingerprint
        return Ingest(
            project_name,
            stager.store,
            loader,
            config=config,
            stager=stager,
            chunker=chunker,
            index_fp=index_fingerprint(fingerprint, chunker.version, config.parsers),
            embed_fp=fingerprint,
            progress=self._progress,
            gate=self._gate,
        )


def _told(seen: Survey) -> list[str]:
    """Return what a person should know of the files that were read."""
    taken = [entry for entry in seen.change.opened if entry.decision == "ingested"]
    without = [
        f"{entry.path}: {unread_sentence(missing)}"
        for entry in taken
        if (missing := pages_without_text(entry.reason))
    ]
    remarked = [(entry.path, told) for entry in taken if (told := reading_remark(entry.reason))]
    return [*_secrets_told(seen.secrets), *without, *remarks(remarked)]


def _secrets_told(places: Iterable[tuple[str, str]]) -> list[str]:
    """Return one sentence a file about its places that seem to hold secrets."""
    of: dict[str, list[str]] = {}
    for path, place in places:
        of.setdefault(path, []).append(place)
    return [
        f"{path}: {'possible secret' if len(found) == 1 else f'{len(found)} possible secrets'}: "
        f"{phrase(found)}"
        for path, found in of.items()
    ]
