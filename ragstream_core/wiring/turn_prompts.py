"""Which kept prompts, requests and recorded runs asked or showed one of some cleared turns.

Their inputs say what was asked and up to which record a prompt saw which conversation; from this
follows which turns it showed, however short they are.
"""

from __future__ import annotations

import contextlib
import json
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ragstream_core.conversations.digest import turns_of
from ragstream_core.conversations.facts.records import texts_of
from ragstream_core.conversations.journal.records import Asked, Entry, TagEdit, Turn
from ragstream_core.prompts.fences import one_line
from ragstream_core.prompts.inputs import DIGEST
from ragstream_core.prompts.recorded import SUFFIX, unpacked
from ragstream_core.prompts.render import PINNED
from ragstream_core.prompts.store import PARENT_PREFIX, RECORD_NAME, exchange_files, raw_record


class TurnPrompts:
    """The prompts, requests and recorded runs in which a cleared turn was asked or shown.

    Attributes:
        paths: What goes: their folders, requests, exchanges, and vectors that only they name.
        run_ids: The runs behind them, and those that they read from.
    """

    def __init__(self, root: Path, entries: Iterable[Entry], gone: Sequence[Entry]) -> None:
        self._root = root
        spoken = [e.record for e in gone if isinstance(e.record, Turn | Asked)]
        self._asked = {(record.session_id, record.user_text.strip()) for record in spoken}
        self._texts = {text for _, text in self._asked if text}
        self._keys = {record.prompt_key for record in spoken if record.prompt_key}
        self._gone = {entry.seq for entry in gone if isinstance(entry.record, Turn)}
        self._facts = {f"- {one_line(text)}" for text in texts_of(gone)}
        self._sessions: dict[int, str] = {}
        self._turns_of: defaultdict[str, list[int]] = defaultdict(list)
        self._tagged: set[int] = set()
        self._note_turns(entries)
        self._seqs = [*self._sessions]
        self.paths: list[Path] = []
        self.run_ids: set[str] = set()
        self._add_prompts()
        self._add_requests()
        self._add_runs()

    def _note_turns(self, entries: Iterable[Entry]) -> None:
        """Note number and session of every turn, and which ever had a tag."""
        at: dict[str, int] = {}
        for entry in entries:
            record = entry.record
            if isinstance(record, TagEdit):
                self._tagged.add(at.get(record.turn, 0))
            if isinstance(record, Turn) and record.status == "complete":
                self._sessions[entry.seq] = record.session_id
                self._turns_of[record.session_id].append(entry.seq)
                at[record.id] = entry.seq
                self._tagged |= {entry.seq} if record.tags else set()

    def _add_prompts(self) -> None:
        """Add the kept prompts, their exchanges, and the query vectors that no other names."""
        vectors: set[str] = set()
        kept: set[str] = set()
        for path in sorted(self._root.glob(f"*/{RECORD_NAME}")):
            folder = path.parent
            record = raw_record(folder)
            inputs = record.get("inputs", {})
            digests = set(inputs.get("query_vectors", {}).values())
            if self.shown_in(inputs, folder.name):
                vectors |= digests
                self.paths += [*exchange_files(folder), folder]
                self.run_ids |= {str(record["run_id"])} if record.get("run_id") else set()
            else:
                kept |= digests
        self.paths += [self._root / "blobs" / digest for digest in sorted(vectors - kept)]

    def _add_requests(self) -> None:
        for path in sorted(self._root.glob("inbox/*.json")):
            request = _json(path)
            if self._asks(request.get("text"), request.get("session", "")):
                self.paths.append(path)

    def _add_runs(self) -> None:
        """Add the folders of stage JSON, and the runs that any of these runs read from."""
        for folder in sorted(self._root.glob("runs/*")):
            for stage in sorted(folder.glob(f"*{SUFFIX}"))[:1]:
                with contextlib.suppress(OSError, ValueError, RecursionError):  # damaged: searched
                    if self.shown_in(_object(unpacked(stage), "prompt", "extras", "inputs"), ""):
                        self.paths.append(folder)
                        self.run_ids.add(folder.name)
        for run in sorted(self.run_ids):
            parents = (self._root / "runs" / run).glob(f"{PARENT_PREFIX}*")
            self.run_ids |= {path.name.removeprefix(PARENT_PREFIX) for path in parents}

    def shown_in(self, inputs: Mapping[str, Any], key: str) -> bool:
        """Return whether a prompt asked or showed a cleared turn."""
        pin = inputs.get("history") or {}
        if key in self._keys or self._asks(inputs.get("text"), pin.get("session", "")):
            return True
        texts = inputs.get("texts") or {}
        shown = "\n".join(str(texts.get(name, "")) for name in PINNED.values())
        if self._facts.intersection(shown.split("\n")):
            return True
        if self._gone.intersection(turns_of(str(texts.get(DIGEST, "")))):
            return True
        settings = (inputs.get("settings") or {}).get("history") or {}
        return bool(self._gone & set(self._window(pin, settings)))

    def _asks(self, text: object, session: str) -> bool:
        """Return whether a text is what a cleared turn asked, in its session or in none."""
        asked = str(text or "").strip()
        return (session, asked) in self._asked or (not session and asked in self._texts)

    def _window(self, pin: Mapping[str, Any], settings: Mapping[str, Any]) -> list[int]:
        """Return the turns that Layer G may have had at a record, newest first.

        Turns that ever had a tag may have been left out, so they do not count towards its length.
        Prompts from before ``recent_fill`` were filled up with turns of all conversations, those
        without a session too.
        """
        session, upto, k = pin.get("session", ""), pin.get("seq", 0), settings.get("recency_k", 0)
        fill = settings.get("recent_fill", "" if settings else "none")
        window = self._newest(_before(upto, self._turns_of[session]) if session else (), k)
        if fill == "none" or (fill and not session):
            return window
        own = self._sessions if session else {}
        others = (seq for seq in _before(upto, self._seqs) if own.get(seq) != session)
        return [*window, *self._newest(others, k - sum(seq not in self._tagged for seq in window))]

    def _newest(self, seqs: Iterable[int], k: int) -> list[int]:
        """Return the first of some turns up to the ``k``-th that never had a tag."""
        found: list[int] = []
        for seq in seqs if k > 0 else ():
            found.append(seq)
            k -= seq not in self._tagged
            if k <= 0:
                break
        return found


def _before(upto: int, seqs: Sequence[int]) -> Iterator[int]:
    """Yield ascending numbers up to one, descending."""
    return (seqs[at] for at in reversed(range(bisect_right(seqs, upto))))


def _object(data: object, *names: str) -> Mapping[str, Any]:
    """Return the object under some names, one inside the other; empty if there is none."""
    for name in names:
        data = data.get(name) if isinstance(data, dict) else None
    return data if isinstance(data, dict) else {}


def _json(path: Path) -> Mapping[str, Any]:
    """Return the object in a file, empty if there is none."""
    try:
        return _object(json.loads(path.read_bytes()))
    except (OSError, ValueError, RecursionError):
        return {}
