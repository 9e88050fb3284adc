"""Which kept prompts, requests and recorded runs asked or showed one of some cleared turns.

Their inputs say what was asked and up to which record a prompt saw which conversation; from this
follows which turns it showed, however short they are.
"""

from __future__ import annotations

import contextlib
import json
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ragstream_core.conversations.digest import turns_of
from ragstream_core.conversations.facts.records import texts_of
from ragstream_core.conversations.journal.records import Asked, Entry, TagEdit, Turn
from ragstream_core.prompts.fences import one_line
from ragstream_core.prompts.inputs import DIGEST
from ragstream_core.prompts.recorded import SUFFIX, unpacked
from ragstream_core.prompts.render import PINNED
from ragstream_core.prompts.store import PARENT_PREFIX, RECORD_NAME, exchange_files


class TurnPrompts:
    """The prompts, requests and recorded runs in which a cleared turn was asked or shown.

    Attributes:
        paths: What goes: their folders, requests, exchanges, and vectors that only they name.
        run_ids: The runs behind them, and those that they read from.

    Args:
        root: Folder of the prompts.
        entries: All records of the journal, ascending; the cleared ones are still among them.
        gone: The cleared ones.
    """

    def __init__(self, root: Path, entries: Iterable[Entry], gone: Sequence[Entry]) -> None:
        self._root = root
        self._shown = _Shown(entries, gone)
        runs = self._run_folders()
        self.paths: list[Path] = []
        self.run_ids = {path.name for path in runs}
        self._add_prompts()
        for path in sorted(root.glob("inbox/*.json")):
            request = _json(path)
            if self._shown.asks(request.get("text"), request.get("session", "")):
                self.paths.append(path)
        self.paths += runs
        for run in sorted(self.run_ids):
            parents = (root / "runs" / run).glob(f"{PARENT_PREFIX}*")
            self.run_ids |= {path.name.removeprefix(PARENT_PREFIX) for path in parents}

    def _add_prompts(self) -> None:
        """Add the kept prompts, their exchanges, and the query vectors that no other names."""
        vectors: set[str] = set()
        kept: set[str] = set()
        for path in sorted(self._root.glob(f"*/{RECORD_NAME}")):
            record, folder = _json(path), path.parent
            inputs = _object(record, "inputs")
            digests = set(inputs.get("query_vectors", {}).values())
            if self._shown.is_in(inputs, folder.name):
                vectors |= digests
                self.paths += [*exchange_files(folder), folder]
                self.run_ids |= {str(record["run_id"])} if record.get("run_id") else set()
            else:
                kept |= digests
        self.paths += [self._root / "blobs" / digest for digest in sorted(vectors - kept)]

    def _run_folders(self) -> list[Path]:
        """Return the folders of stage JSON whose prompts asked or showed a turn."""
        found = []
        for folder in sorted(self._root.glob("runs/*")):
            for stage in sorted(folder.glob(f"*{SUFFIX}"))[:1]:
                with contextlib.suppress(OSError, ValueError, RecursionError):  # damaged: searched
                    inputs = _object(unpacked(stage), "prompt", "extras", "inputs")
                    found += [folder] if self._shown.is_in(inputs, "") else []
        return found


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
        """Return whether a prompt asked or showed a cleared turn.

        Args:
            inputs: Its pinned inputs, JSON form.
            key: Its key, empty if it has none.
        """
        pin = inputs.get("history") or {}
        if key in self._keys or self.asks(inputs.get("text"), pin.get("session", "")):
            return True
        texts = inputs.get("texts") or {}
        shown = "\n".join(str(texts.get(name, "")) for name in PINNED.values())
        if self._facts.intersection(shown.split("\n")):
            return True
        if self._gone.intersection(turns_of(str(texts.get(DIGEST, "")))):
            return True
        settings = (inputs.get("settings") or {}).get("history") or {}
        return bool(self._gone & set(self._window(pin, settings)))

    def asks(self, text: object, session: str) -> bool:
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
