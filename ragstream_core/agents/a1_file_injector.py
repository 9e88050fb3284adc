"""A1 · Deterministic Code Injector: the files you name, and nothing you did not.

Reads the task and ``text`` for path-like words, the files forced by name, the ON/OFF list, the
lock, and the manifest's hashes; no ranking, no retrieval. Writes ``extras.files`` (❖ FILES with
a receipt each) and, if asked for, ``extras.diffs`` (what changed in a file since the last
commit, mode DIFF). Closes the Eligibility Pool: ``extras.pool``. A name
that fits several files is reported, never guessed. Notes stay with retrieval unless forced.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from unicodedata import normalize

from ragstream_core.errors import RunCommand, UsageError
from ragstream_core.ports import FileSource, TokenCounter
from ragstream_core.prompts.classification import path_tokens
from ragstream_core.prompts.render import number_lines, pack
from ragstream_core.prompts.trail import advance, put_notes
from ragstream_core.records import SuperPrompt
from ragstream_core.records.identity import sha256_hex
from ragstream_core.records.stage_results import InjectedFile, Pool
from ragstream_core.text.decoding import ASSUMED, decode
from ragstream_core.text.headings import PROSE_TYPES

OP = "a1_file_injector"
MAX_GLOB = 20
MAX_SHOWN = 5


def is_note(path: str) -> bool:
    """Return whether a file is prose, which retrieval serves better than injection (R-156)."""
    return path.rsplit(".", 1)[-1].lower() in PROSE_TYPES


def is_glob(token: str) -> bool:
    """Return whether a name is a pattern, which may mean several files."""
    return "*" in token or "?" in token


def candidates(token: str, names: Sequence[str]) -> list[str]:
    """Return the project files that a written name may mean.

    The exact path; else, for a glob, every path or file name it fits; else every path that ends
    with it. The caller injects a plain name only if there is exactly one.

    Args:
        token: As written, POSIX.
        names: Paths of the project's files.
    """
    if token in names:
        return [token]
    if token.isascii():
        return _fitting(token, {name: name for name in names})
    # an accent is part of its letter, or a sign behind it, as systems and keyboards write it
    return _fitting(normalize("NFC", token), {normalize("NFC", name): name for name in names})


def _fitting(token: str, names: Mapping[str, str]) -> list[str]:
    """Return the files that a name may mean.

    Args:
        token: As written.
        names: Each path in the form that it is compared in, and as it is.
    """
    if token in names:
        return [names[token]]
    fits = (n for n in names if n.endswith(f"/{token}"))
    if is_glob(token):
        fits = (n for n in names if fnmatchcase(n, token) or fnmatchcase(n.split("/")[-1], token))
    return [names[name] for name in fits]


def forced_paths(token: str, names: Sequence[str]) -> list[str]:
    """Return what a forced name means: the one file it fits, or all that a glob fits.

    Args:
        token: As written, POSIX.
        names: Paths of the project's files.

    Raises:
        UsageError: It fits no file, or several.
    """
    fits = candidates(token, names)
    if len(fits) > 1 and not is_glob(token):
        raise UsageError(
            f"{token!r} may mean {len(fits)} files", hint=f"name one by its path: {_listed(fits)}"
        )
    if not fits:
        near = get_close_matches(token, names, MAX_SHOWN, 0.5)
        raise UsageError(
            f"no file of the project is called {token!r}",
            hint=f"one of: {_listed(near)}" if near else _SKIPPED,
        )
    return fits


_PASSAGES = "if its type is read, what you ask finds passages of it; else save it as text"
_SKIPPED = (RunCommand("status", "--skipped"), " says what is left out and why")


def _listed(paths: Sequence[str]) -> str:
    return ", ".join(paths[:MAX_SHOWN]) + (" …" if len(paths) > MAX_SHOWN else "")


@dataclass
class _Found:
    """Paths to inject in order, and what to tell the person."""

    paths: dict[str, None] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def token(self, token: str, names: Sequence[str], off: Collection[str]) -> None:
        """Take what a word of the prompt means, or say why it is not taken."""
        fits = candidates(token, names)
        if len(fits) > 1 and not is_glob(token):
            self.warnings.append(
                f"which {token!r}? {len(fits)} files are called so and none is injected; "
                f"write the path of the one you mean: {_listed(fits)}"
            )
            return
        closed = [path for path in fits if path in off]
        notes = [path for path in fits if path not in off and is_note(path)]
        wanted = [path for path in fits if path not in off and not is_note(path)]
        if closed:
            self.warnings.append(
                f"OFF or filtered out: {_listed(closed)}; name what to inject with --file"
            )
        if notes:
            self.events.append(f"notes stay with retrieval (--file forces them): {_listed(notes)}")
        if len(wanted) > MAX_GLOB:
            self.warnings.append(f"{token!r} fits {len(wanted)} files, the first {MAX_GLOB} are in")
        self.paths.update(dict.fromkeys(wanted[:MAX_GLOB]))

    def forced(self, token: str, names: Sequence[str]) -> None:
        """Take what a forced name means.

        Raises:
            UsageError: It fits no file, or several.
        """
        self.paths.update(dict.fromkeys(forced_paths(token, names)))


@dataclass(frozen=True)
class FileInjector:
    """End of stage ``a2``.

    Attributes:
        files: Reads the project's files.
        projects: Project names; with several, a file is called ``project/path``.
        counter: Counts tokens.
        named: Paths or globs forced by the person; any type.
        off: Paths that are not eligible for retrieval.
        lock: Exact File Lock: only ❖ FILES go into the prompt.
        full_max_tokens: A longer file is packed.
        line_numbers: Whether the lines of a whole file carry their numbers; those of a PACK do.
        manifest: File name as above → sha256 at ingestion.
        enabled: Off: nothing is injected; pool and lock still hold.
        diffs: (project, path) → its `git diff`, empty if nothing changed.
    """

    files: FileSource
    projects: Sequence[str]
    counter: TokenCounter
    named: Sequence[str] = ()
    off: Sequence[str] = ()
    lock: bool = False
    full_max_tokens: int = 1500
    line_numbers: bool = False
    manifest: Mapping[str, str] = field(default_factory=dict)
    enabled: bool = True
    diffs: Mapping[tuple[str, str], str] = field(default_factory=dict)

    def __call__(self, prompt: SuperPrompt) -> SuperPrompt:
        """Inject the named files and close the pool.

        Raises:
            UsageError: A forced name fits no file, or several.
        """
        result = advance(prompt, prompt.stage)
        found = _Found()
        if self.enabled:
            self._look_up(prompt, found)
        else:
            asked = self.named or self.diffs
            (found.warnings if asked else found.events).append("switched off: no file is injected")
        homes = self._homes() if found.paths else {}
        rows = [row for p in found.paths if (row := self._row(p, homes[p], found)) is not None]
        result.extras.files = tuple(rows)
        if self.diffs and self.enabled:
            result.extras.diffs = tuple(self._changes(found))
        result.extras.pool = Pool(tuple(sorted(self.off)), self.lock, closed=True)
        if self.lock and not (rows or result.extras.diffs):
            found.warnings.append("the file lock is on and no file is injected: name one")
        found.events += [f"injected {r.path} ({r.mode}, {r.tokens} tokens)" for r in rows]
        put_notes(result, OP, events=found.events, warnings=found.warnings)
        return result

    def _look_up(self, prompt: SuperPrompt, found: _Found) -> None:
        names, off = list(self._homes()), frozenset(self.off)
        for token in self.named:
            found.forced(token.replace("\\", "/").removeprefix("./"), names)
        words = f"{prompt.body.get('task', '')}\n{prompt.body.get('text', '')}"
        for token in path_tokens(words):
            if not set(candidates(token, names)) <= found.paths.keys():
                found.token(token, names, off)

    def _homes(self) -> dict[str, tuple[str, str]]:
        several = len(self.projects) > 1
        return {
            f"{project}/{path}" if several else path: (project, path)
            for project in self.projects
            for path in self.files.names(project)
        }

    def _changes(self, found: _Found) -> list[InjectedFile]:
        rows = []
        for home, text in self.diffs.items():
            path = "/".join(home) if len(self.projects) > 1 else home[1]
            if not text:
                found.warnings.append(f"{path}: no change since the last commit, or not in git")
                continue
            digest = sha256_hex(text)
            full = self.counter.count(text) <= self.full_max_tokens
            shown = text if full else pack(text, f"{path}.diff", line_numbers=True)
            rows.append(
                InjectedFile(
                    id=f"diff/{path}@{digest}",
                    path=path,
                    home=home,
                    sha256=digest,
                    mode="DIFF",
                    tokens=self.counter.count(shown),
                    lines=text.count("\n") + 1,
                    chars=len(text),
                    text=shown,
                )
            )
            found.events.append(f"injected the changes of {path} ({rows[-1].tokens} tokens)")
        return rows

    def _row(self, path: str, home: tuple[str, str], found: _Found) -> InjectedFile | None:
        data = self.files.read(*home)
        digest = sha256_hex(data)
        if self.manifest.get(path, digest) != digest:
            found.warnings.append(f"{path} changed since ingestion; the file as it is now is shown")
        decoded, note = decode(data)
        if decoded is None:
            found.warnings.append(f"{path} is no text and is not injected ({note}); {_PASSAGES}")
            return None
        if ASSUMED in note:
            found.warnings.append(f"{path} was read as {note}")
        text = decoded.replace("\r\n", "\n").rstrip("\n")
        full = self.counter.count(text) <= self.full_max_tokens
        if full:
            shown = number_lines(text) if self.line_numbers else text
        else:
            shown = pack(text, path, line_numbers=True)
        return InjectedFile(
            id=f"files/{path}@{digest}",
            path=path,
            home=home,
            sha256=digest,
            mode="FULL" if full else "PACK",
            numbered=self.line_numbers or not full,
            tokens=self.counter.count(shown),
            lines=text.count("\n") + 1,
            chars=len(text),
            text=shown,
        )
