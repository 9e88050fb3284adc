"""What a settings file may say only once a person has confirmed it.

A file can come with a folder that somebody else made. So each setting that could send, load, open,
erase or say something in the person's name carries one of the marks below (`Asks`), and `sift`
leaves it out of a file that nobody has confirmed. All other settings count in any file.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from ragstream_core.errors import Advice, Refused, RunCommand, SetVariable, quoted

# Section → key → value.
Layer = dict[str, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Asks:
    """The mark of a setting that only a confirmed file may set."""

    what: str  # it decides, as the object of "it decides …"
    free: tuple[object, ...] = ()  # values that any file may set, as it may its default
    inside: bool = False  # a path or a name: any file may name what lies in the file's own folder
    # Nothing runs while it is not confirmed. For settings whose absence would do more than the
    # file asks for: keep what it says is not kept, or write into another data root.
    stops: bool = False


ADDRESS = Asks("where texts, vectors and keys are sent")
KEY = Asks("which key is sent")
CODE = Asks("whose code is loaded", free=("exact", "catalog", "chroma", "faiss", "faiss_ivf"))
EMBEDDER = Asks(
    "whose code is loaded and whether texts are sent",
    free=("onnx", "sentence_transformers", "fastembed", "hashed"),
)
PROVIDER = Asks("whose code is loaded", free=("openai",))
SENDS = Asks(
    "whether texts are sent to a language model",
    free=("deterministic", "extractive", "off", "rules", "auto", "nli", "quote"),
)
PATH = Asks("what is read or written outside of its folder", inside=True)
LOGS = Asks("whose conversations are taken in")
ROOT = Asks("which data root is written", inside=True, stops=True)
KEPT = Asks("what is kept, and for how long")
NOT_KEPT = Asks("whether anything is kept", stops=True)
FACTS = Asks("what is remembered without asking", free=("ask",))
SECRETS = Asks("what happens to secrets in documents", free=("skip", "redact"))
DOOR = Asks("who may connect, and what they may do")
WORDS = Asks("what prompts say in your name")


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A setting that a file nobody has confirmed does not get."""

    name: str  # dotted
    value: str  # as it stands there, asterisks for a secret
    what: str  # it decides
    task: str = ""  # the task profile that it stands in
    stops: bool = False  # whether nothing may run without it


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """A settings file that was read."""

    path: Path
    # by an option or a variable; by `ragstream config trust`; by neither
    state: Literal["named", "confirmed", "unconfirmed"]
    left_out: tuple[LeftOut, ...] = ()  # what of it does not count therefore


def mark_of(field: FieldInfo) -> Asks | None:
    """Return the mark of a setting; None if any file may set it."""
    return next((mark for mark in field.metadata if isinstance(mark, Asks)), None)


def own_folder(path: Path) -> Path | None:
    """Return the folder that a file or a data root may speak for, links resolved.

    None if that is the home folder or above it: there every folder of the person would be its own.
    """
    folder = Path(os.path.realpath(path)).parent
    try:
        home = Path(os.path.realpath(Path.home()))
    except RuntimeError:  # this user has none
        return folder if folder != Path(folder.anchor) else None
    return None if home.is_relative_to(folder) else folder


def leads_out(named: str, own: Path | None) -> bool:
    """Return whether a path leads out of a folder, links resolved."""
    if own is None or "\0" in named:
        return True
    try:
        path = own / Path(named).expanduser()
    except RuntimeError:  # `~NAME` of nobody
        return True
    return not Path(os.path.realpath(path)).is_relative_to(own)


def sift(
    layer: Mapping[str, Mapping[str, Any]],
    models: Mapping[str, type[Any]],
    own: Path | None,
    *,
    task: str = "",
) -> tuple[Layer, tuple[LeftOut, ...]]:
    """Return what counts of a file that nobody has confirmed, and what does not."""
    kept: Layer = {}
    left = []
    for section, values in layer.items():
        kept[section] = {}
        for key, value in values.items():
            field = models[section].model_fields[key]
            mark = mark_of(field)
            if mark is None or _is_free(mark, field, value, own, task=task):
                kept[section][key] = value
            else:
                shown = "********" if field.annotation is SecretStr else _plain(str(value))
                left.append(LeftOut(f"{section}.{key}", shown, mark.what, task, mark.stops))
    return kept, tuple(left)


def _plain(text: str) -> str:
    """Return a stranger's words without what could steer a terminal."""
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)


def _is_free(mark: Asks, field: FieldInfo, value: Any, own: Path | None, *, task: str) -> bool:
    default = field.default
    default = default.get_secret_value() if isinstance(default, SecretStr) else default
    same = type(value) is type(default) and value == default
    if (same and not task) or any(value is free or value == free for free in mark.free):
        return True
    return mark.inside and isinstance(value, str) and not leads_out(value, own)


def counting(file: SettingsFile, above: Collection[str]) -> SettingsFile:
    """Return a file without what a stronger layer sets anyway."""
    left = tuple(one for one in file.left_out if one.task or one.name not in above)
    for one in left:
        if one.stops and not one.task:
            raise Refused(
                f"{file.path} says {one.name}: {one.value}, which decides {one.what}, and you have "
                "not confirmed this file",
                hint=(*_to_confirm(file.path), "; or say it yourself: ", SetVariable.of(one.name)),
            )
    return SettingsFile(file.path, file.state, left)


def require_whole(files: Iterable[SettingsFile], task: str) -> None:
    """Refuse a task profile of which something was left out: it was asked for by its name."""
    for file in files:
        if left := tuple(one for one in file.left_out if one.task == task):
            raise Refused(
                f"the task profile {task} of {file.path} sets {_shown(left)}, and you have not "
                "confirmed this file",
                hint=_to_confirm(file.path),
            )


def left_out_notices(
    files: Iterable[SettingsFile], tasks: Collection[str]
) -> list[tuple[str, Advice]]:
    """Return what to tell a person about settings that do not count, each with what to do."""
    found: list[tuple[str, Advice]] = []
    for file in files:
        if left := tuple(one for one in file.left_out if one.task in ("", *tasks)):
            said = f"{file.path} is not confirmed by you and cannot set {_shown(left)}"
            found.append((said, _to_confirm(file.path)))
    return found


def _to_confirm(path: Path) -> Advice:
    return RunCommand("config trust", quoted(path)), " shows what it says and asks"


def _shown(left: Sequence[LeftOut]) -> str:
    """Return settings as words: what they decide behind their names."""
    by_what: dict[str, list[str]] = {}
    for one in left:
        name = _plain(f"tasks.{one.task}.{one.name}" if one.task else one.name)
        by_what.setdefault(one.what, []).append(name)
    return "; ".join(f"{', '.join(names)} ({what})" for what, names in by_what.items())
