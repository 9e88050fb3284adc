"""Where copies of cleared turns may lie besides the journal and the history catalog.

Two ways to find them: prompts say in their inputs what was asked and which turns they showed, and
every file is searched for the words of the turns and for their ids.
"""

from __future__ import annotations

import contextlib
import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ragstream_core.conversations.digest import turns_of
from ragstream_core.conversations.facts.records import texts_of
from ragstream_core.conversations.journal.records import Asked, Entry, Fact, TagEdit, Turn
from ragstream_core.conversations.units import history_chunk_id
from ragstream_core.prompts.fences import one_line
from ragstream_core.prompts.inputs import DIGEST
from ragstream_core.prompts.recorded import SUFFIX, unpacked
from ragstream_core.prompts.render import PINNED
from ragstream_core.prompts.store import PARENT_PREFIX, RECORD_NAME, exchange_files
from ragstream_core.wiring import memory_files, remembered_facts_files
from ragstream_core.wiring.debug_log import vars_files
from ragstream_core.wiring.text_copies import DEBUG, DataScanner, TextFingerprints, purge, remove

if TYPE_CHECKING:
    from ragstream_core.wiring.workspace import Workspace

_NAMES = re.compile(
    rb"history::[A-Za-z0-9._-]{1,64}::[0-9]+-[0-9]+::[0-9]+"
    rb"|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
)
_LIVE = ("catalog.sqlite", "vectors-", ".lock")
YOURS = ("index", "doc_raw", "projects", "models", "chroma_db", "memory")
"""Areas whose files are yours; the remembered facts lose their lines one by one."""


class TurnTraces(TextFingerprints):
    """The words of cleared turns, and names that stand for them.

    Args:
        entries: Cleared records.
        names: Ids of their chunks, and of recorded runs whose prompts go.
    """

    def __init__(self, entries: Sequence[Entry], names: Iterable[str]) -> None:
        spoken = [e.record for e in entries if isinstance(e.record, Turn | Asked)]
        turns = [record for record in spoken if isinstance(record, Turn)]
        facts = [e.record for e in entries if isinstance(e.record, Fact)]
        said = [record.user_text for record in spoken] + [turn.assistant_text for turn in turns]
        said += [fact.text for fact in facts] + [fact.quote for fact in facts]
        every = [*names, *(record.id for record in spoken), *{fact.fact for fact in facts}]
        super().__init__(said, [name for name in every if "::" in name])
        self.names = {name.encode() for name in every}

    def __bool__(self) -> bool:
        """Whether there is anything to look for."""
        return bool(self.names) or super().__bool__()

    def found_in(self, data: bytes, *, citations: bool = False) -> set[bytes]:
        """Return the copied runs and the names in some bytes; empty where there are none."""
        named = self.names.intersection(_NAMES.findall(data))
        return super().found_in(data, citations=citations) | named


class TurnFinder(DataScanner):
    """Walks the files below a data root for copies of turns.

    What was derived from turns is ours; documents, their indexes and the archive are not.
    """

    def everything(self) -> Iterator[Path]:
        """Yield every regular file but what was archived on purpose."""
        archive = self.data_dir / "history" / "archive"
        return (path for path in super().everything() if not path.is_relative_to(archive))

    def is_ours(self, path: Path) -> bool:
        """Say whether a file must not hold a copy when all is done."""
        return self.area_of(path) not in YOURS

    def ours(self) -> Iterator[Path]:
        """Yield the files that are removed or purged where they hold a copy.

        Not the journal and the history catalog, which lose their rows themselves.
        """
        home = self.data_dir / "history"
        for path in self.everything():
            beside = path.name.startswith(("session-", DEBUG))
            journal = path.parent == self.logs and not beside
            store = path.parent == home / "index" and path.name.startswith(_LIVE)
            if self.is_ours(path) and not journal and not store:
                yield path

    def look(self, path: Path, traces: TextFingerprints) -> set[bytes]:
        """Return what was found in a file; a ledger names every candidate and shows none."""
        found = super().look(path, traces)
        if path.suffix == ".parquet" and isinstance(traces, TurnTraces):
            return found - traces.names
        return found


class CopyEraser:
    """Finds and removes the copies of one set of cleared records.

    Args:
        workspace: The data root.
        entries: All records of the journal, ascending; the cleared ones are still among them.
        gone: The cleared ones.
        chunk_ids: Ids of their chunks.

    Attributes:
        finder: Walks the files.
        removed: Names of what went.
    """

    def __init__(
        self,
        workspace: Workspace,
        entries: Iterable[Entry],
        gone: Sequence[Entry],
        chunk_ids: Iterable[str],
    ) -> None:
        self.finder = TurnFinder(
            workspace.data_dir, workspace.config.index_dir, workspace.config.logs_dir
        )
        self.removed: list[str] = []
        self._workspace = workspace
        self._gone = gone
        self._shown = _Shown(entries, gone)
        self._root = workspace.store.root
        named = [*chunk_ids, *_chunk_ids(gone)]
        self._runs = self._run_folders()
        self._traces = TurnTraces(gone, [*named, *self._runs_to_go()])

    def drop_prompts(self) -> None:
        """Remove the prompts, requests and recorded runs in which a turn was asked or shown.

        Raises:
            OSError: Something cannot be removed.
        """
        vectors: set[str] = set()
        kept: set[str] = set()
        for folder, inputs, _ in self._prompts():
            mine = self._shown.is_in(inputs, folder.name)
            digests = set(inputs.get("query_vectors", {}).values())
            (vectors if mine else kept).update(digests)
            for gone in [*exchange_files(folder), folder] if mine else ():
                self._remove(gone)
        for digest in vectors - kept:
            self._remove(self._root / "blobs" / digest)
        for path in self._root.glob("inbox/*.json"):
            request = _json(path)
            if self._shown.asks(request.get("text"), request.get("session", "")):
                self._remove(path)
        for path in self._runs:
            self._remove(path)

    def purge(self, others: Callable[[], Iterable[str]]) -> bool:
        """Remove every copy that is ours once; say whether there was none.

        Args:
            others: Gives the texts that stay; words that stand there too are no copies.

        Raises:
            OperationFailed: A database is in use by another process.
            OSError: Something cannot be removed.
        """
        hits = self.finder.hits(self._traces, self.finder.ours(), others)
        for path in hits:
            self.removed += purge(path, self._traces, finder=self.finder)
        return not hits

    def left(self, others: Callable[[], Iterable[str]]) -> tuple[list[str], list[str]]:
        """Search everything; return what is ours and holds a copy, and what is yours and does.

        Raises:
            OSError: A file cannot be read.
        """
        hits = self.finder.hits(self._traces, self.finder.everything(), others)
        mine = [self.finder.name_of(path) for path in hits if self.finder.is_ours(path)]
        return mine, [self.finder.name_of(p) for p in hits if not self.finder.is_ours(p)]

    def drop_token_vectors(self, text_hashes: Iterable[str]) -> None:
        """Remove the cached token vectors of texts, in whichever index they lie.

        Raises:
            OSError: Something cannot be removed.
        """
        hashes = set(text_hashes)
        roots = (self._workspace.config.index_dir, self._workspace.data_dir / "history")
        for root in roots:
            for path in root.glob("*/tokens-*/*/*"):
                if path.name.partition(".")[0].lstrip(".") in hashes:
                    self._remove(path)

    def drop_facts(self) -> None:
        """Take what was learnt from the turns out of the remembered facts.

        Raises:
            RagstreamError: Another process writes them, or the disk failed.
        """
        changed = remembered_facts_files.erase(self._workspace, self._gone, self._traces)
        self.removed += [f"memory/{name} (lines)" for name in changed]

    def drop_memory(self) -> None:
        """Remove digest and answer index: a language model may have worded the one.

        Raises:
            ProjectLocked: Another process keeps writing them.
            OSError: They cannot be removed.
        """
        self.removed += memory_files.drop(self._workspace)

    def drop_debug_vars(self) -> None:
        """Remove the variables of the Debug Logger: cut texts, not all of which a search knows.

        Raises:
            OSError: Something cannot be removed.
        """
        for path in vars_files(self._workspace):
            self._remove(path)

    def drop_foreign_stores(self) -> None:
        """Remove the Chroma collection of the history: deleting in it would leave the text.

        Raises:
            OSError: It cannot be removed.
        """
        for path in (self._workspace.data_dir / "history" / "vectors").glob("history_main*"):
            self._remove(path)

    def _prompts(self) -> Iterator[tuple[Path, Mapping[str, Any], str]]:
        for path in sorted(self._root.glob(f"*/{RECORD_NAME}")):
            record = _json(path)
            inputs = record.get("inputs")
            yield path.parent, inputs if isinstance(inputs, dict) else {}, str(record.get("run_id"))

    def _run_folders(self) -> list[Path]:
        """Return the folders of stage JSON whose prompts asked or showed a turn."""
        found = []
        for folder in sorted(self._root.glob("runs/*")):
            stage = next(iter(sorted(folder.glob(f"*{SUFFIX}"))), None)
            with contextlib.suppress(OSError, ValueError, RecursionError):  # damaged: searched
                if stage is not None and self._shown.is_in(_inputs_in(unpacked(stage)), ""):
                    found.append(folder)
        return found

    def _runs_to_go(self) -> set[str]:
        """Return the ids of the runs behind these prompts, and of those that they read from."""
        ids = {path.name for path in self._runs}
        ids |= {run for folder, inputs, run in self._prompts()
                if run and self._shown.is_in(inputs, folder.name)}  # fmt: skip
        for run in sorted(ids):
            parents = (self._root / "runs" / run).glob(f"{PARENT_PREFIX}*")
            ids |= {path.name.removeprefix(PARENT_PREFIX) for path in parents}
        return ids

    def _remove(self, path: Path) -> None:
        if path.exists() or path.is_symlink():
            remove(path)
            self.removed.append(self.finder.name_of(path))


class _Shown:
    """Which prompts asked or showed one of the cleared turns, from what their inputs say.

    Args:
        entries: All records, ascending, the cleared ones included.
        gone: The cleared ones.
    """

    def __init__(self, entries: Iterable[Entry], gone: Sequence[Entry]) -> None:
        spoken = [e.record for e in gone if isinstance(e.record, Turn | Asked)]
        self._asked = {(record.session_id, record.user_text.strip()) for record in spoken}
        self._texts = {text for _, text in self._asked if text}
        self._keys = {record.prompt_key for record in spoken if record.prompt_key}
        self._gone = {entry.seq for entry in gone if isinstance(entry.record, Turn)}
        self._facts = {f"- {one_line(text)}" for text in texts_of(gone)}
        self._seqs: list[int] = []
        self._sessions: list[str] = []
        self._of: dict[str, list[int]] = {}
        self._tagged: set[int] = set()
        at: dict[str, int] = {}
        for entry in entries:
            record = entry.record
            if isinstance(record, TagEdit):
                self._tagged.add(at.get(record.turn, 0))
            if isinstance(record, Turn) and record.status == "complete":
                self._seqs.append(entry.seq)
                self._sessions.append(record.session_id)
                self._of.setdefault(record.session_id, []).append(entry.seq)
                at[record.id] = entry.seq
                self._tagged |= {entry.seq} if record.tags else set()

    def is_in(self, inputs: Mapping[str, Any], key: str) -> bool:
        """Say whether a prompt asked or showed a cleared turn.

        Args:
            inputs: Its pinned inputs, JSON form.
            key: Its key, empty where it has none.
        """
        pin = inputs.get("history") or {}
        if key in self._keys or self.asks(inputs.get("text"), pin.get("session", "")):
            return True
        texts = inputs.get("texts") or {}
        shown = "\n".join(str(texts.get(name, "")) for name in PINNED.values())
        if self._facts.intersection(shown.split("\n")):
            return True
        told = turns_of(str((inputs.get("texts") or {}).get(DIGEST, "")))
        if self._gone.intersection(told):
            return True
        settings = (inputs.get("settings") or {}).get("history") or {}
        return bool(self._gone & set(self._window(pin, settings)))

    def asks(self, text: object, session: str) -> bool:
        """Say whether a text is what one of the cleared turns asked, in its session or in none."""
        asked = str(text or "").strip()
        return (session, asked) in self._asked or (not session and asked in self._texts)

    def _window(self, pin: Mapping[str, Any], settings: Mapping[str, Any]) -> list[int]:
        """Return the turns that Layer G may have had at a record, newest first.

        Turns that ever had a tag may have been left out, so they take nobody's place. Prompts from
        before ``recent_fill`` were filled up by everybody's turns, those without a session too.
        """
        session, upto, k = pin.get("session", ""), pin.get("seq", 0), settings.get("recency_k", 0)
        fill = settings.get("recent_fill", "" if settings else "none")
        own = self._of.get(session, []) if session else []
        window = self._newest(reversed(own[: bisect_right(own, upto)]), k)
        if fill == "none" or (fill and not session):
            return window
        others = range(bisect_right(self._seqs, upto) - 1, -1, -1)
        return [
            *window,
            *self._newest(
                (self._seqs[at] for at in others if self._sessions[at] != session or not session),
                k - sum(seq not in self._tagged for seq in window),
            ),
        ]

    def _newest(self, seqs: Iterable[int], k: int) -> list[int]:
        """Return the first of some turns up to the ``k``-th that never had a tag."""
        found: list[int] = []
        for seq in seqs if k > 0 else ():
            found.append(seq)
            k -= seq not in self._tagged
            if k <= 0:
                break
        return found


def _chunk_ids(gone: Iterable[Entry]) -> list[str]:
    """Return the id of the first chunk of each turn: it has one, whatever was embedded."""
    return [
        history_chunk_id(entry.record.session_id, entry.seq, entry.seq, 0)
        for entry in gone
        if isinstance(entry.record, Turn)
    ]


def _inputs_in(stage: Mapping[str, Any]) -> Mapping[str, Any]:
    with contextlib.suppress(KeyError, TypeError):
        inputs = stage["prompt"]["extras"]["inputs"]
        return inputs if isinstance(inputs, dict) else {}
    return {}


def _json(path: Path) -> dict[str, Any]:
    """Return the object in a file, empty where there is none."""
    try:
        data = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return data if isinstance(data, dict) else {}
