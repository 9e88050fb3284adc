"""Where a finished Super-Prompt goes: stdout, a file, the clipboard, or JSON.

A file that is there is not replaced unasked. What is handed out is searched for secrets first and
the places are named: what becomes of the text is up to the person who takes it.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_app.session import emit_json
from ragstream_core.errors import OperationFailed, Refused, UsageError

if TYPE_CHECKING:
    from ragstream_core.prompts.made_prompt import MadePrompt
    from ragstream_core.services.what_if import Compared

# Programs that put their input on a clipboard; the first that is there and succeeds is used.
CLIPBOARDS = (
    ("wl-copy",),
    ("xclip", "-selection", "clipboard"),
    ("xsel", "--clipboard", "--input"),
    ("pbcopy",),
)
_ELSEWHERE = "--out FILE, or install wl-clipboard, xclip or xsel"
_PATIENCE_S = 10.0


@dataclass(frozen=True, slots=True)
class Target:
    """Where a Super-Prompt is wanted.

    Attributes:
        out: A file; None for none.
        copy: On the clipboard.
        force: Replace a file that is there.
        as_json: As JSON on stdout, whatever else.
    """

    out: Path | None = None
    copy: bool = False
    force: bool = False
    as_json: bool = False

    def check(self) -> None:
        """Refuse what cannot be done, before anything is made.

        Raises:
            Refused: The file already exists.
            UsageError: It is a folder, or no program knows a clipboard.
        """
        if self.out is not None and self.out.is_dir():
            raise UsageError(f"{self.out} is a folder", hint="--out FILE")
        if self.out is not None and self.out.is_file() and not self.force:
            raise _there(self.out)
        if self.copy and not _installed():
            raise UsageError("no clipboard program is installed", hint=_ELSEWHERE)


def deliver(
    prompt: MadePrompt,
    target: Target,
    compared: Compared | None = None,
    *,
    remarks: Sequence[str] = (),
) -> None:
    """Hand a Super-Prompt out, and say what it seems to hold that should not get around.

    Args:
        prompt: Without a finished text nothing is written or copied.
        target: Where to.
        compared: What differs from the prompt with what was left out; None: not asked.
        remarks: What else there is to say of it, behind its warnings.

    Raises:
        Refused: A file came up meanwhile.
        OperationFailed: The file cannot be written, or the clipboard program failed.
    """
    warnings = (*prompt.warnings, *remarks, *_secrets(prompt.text))
    if target.out is not None and prompt.text:
        try:
            _write(target.out, prompt.text, force=target.force)
        except OSError as error:
            kept = f"; the prompt is kept: {prompt.key[:12]}" if prompt.key else ""
            raise OperationFailed(
                f"{target.out} cannot be written: {error.strerror or error}{kept}",
                hint="--out FILE in a folder that may be written to",
            ) from None
    if target.copy and prompt.text:
        _copy(prompt.text)
    if target.as_json:
        told = {"compared": compared} if compared else {}
        emit_json(prompt.to_json() | {"warnings": list(warnings)} | told)
        return
    from ragstream_app.output.tables import print_prompt

    places = [str(target.out)] if target.out is not None else []
    print_prompt(prompt, warnings, [*places, *(["the clipboard"] if target.copy else [])])
    if compared:
        from ragstream_app.output.explain import print_compared

        print_compared(compared)


def _secrets(text: str) -> list[str]:
    from ragstream_core.answers.answer import places_of
    from ragstream_core.ingestion.secrets import phrase

    found = places_of(text)
    return [f"it seems to contain secrets: {phrase(found)}"] if found else []


def _there(out: Path) -> Refused:
    return Refused(f"{out} already exists", hint="--force, or another name")


def _write(out: Path, text: str, *, force: bool) -> None:
    from ragstream_core.platform.files import create_bytes, make_private_dir, replace_text

    if out.exists() and not out.is_file():  # a pipe or device must not be replaced by a file
        with out.open("w", encoding="utf-8") as stream:
            stream.write(text)
    elif force:
        replace_text(out.resolve(), text)
    else:
        make_private_dir(out.resolve().parent)
        try:
            create_bytes(out.resolve(), text.encode("utf-8"))
        except FileExistsError:
            raise _there(out) from None


def _installed() -> list[tuple[str, ...]]:
    return [words for words in CLIPBOARDS if shutil.which(words[0])]


def _copy(text: str) -> None:
    for words in _installed():
        try:
            subprocess.run(
                words, input=text.encode("utf-8"), check=True, timeout=_PATIENCE_S,
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError):
            continue
        return
    tried = ", ".join(words[0] for words in _installed())
    raise OperationFailed(
        f"the text could not be copied to the clipboard (tried {tried})", hint=_ELSEWHERE
    )
