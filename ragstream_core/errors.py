"""What can go wrong, as a tree, and what a person can do about it, as actions.

RagstreamError                 exit code 1: the operation failed
├── UsageError                 2: the call is wrong
│   ├── UnknownProject         no such project
│   ├── UnknownSetting         a setting name or value that does not exist
│   ├── InvalidName            a project or file name that could leave the data root
│   ├── EmptyPrompt            nothing to ask
│   └── UnknownPrompt          no prompt under that key
├── Refused                    3: doing it would break a promise
│   ├── ProjectLocked          another process writes this project
│   ├── ModelMismatch          the store was built by another model
│   ├── IntegrityError         bytes on disk are not what was committed
│   ├── WeightsMismatch        a model file has an unexpected sha256
│   ├── DuplicateId            `add` was given a live id
│   ├── BudgetExceeded         the fixed parts alone are over the token budget
│   └── FenceBroken            a line of the prompt does not belong to who it should
└── OperationFailed            1
    ├── ExtraMissing           a package is needed that an extra of the installation brings
    ├── WeightsMissing         model weights cannot be found here
    ├── EmbeddingFailed        the encoder returned something unusable
    ├── StoreFailed            a vector store's engine refused, or its process died
    ├── InputUnavailable       something a prompt was made from cannot be had again
    ├── GenerationGone         the index generation a prompt needs is no longer kept
    ├── FileChanging           a file changed while it was being read
    ├── Stopped                a person ended it before it was through
    └── ChatFailed             there is no answer of the language model
        ├── ChatUnreachable    nobody answers at its address
        ├── ChatBusy           it says to come back later, and went on saying so
        ├── ChatRefused        it does not want this request: key, model, size, content
        ├── ChatTimeout        no answer within the time it may take
        └── ChatBroken         an answer that cannot be used: cut, empty, too large, no JSON
"""

from __future__ import annotations

import contextlib
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol, assert_never


@dataclass(frozen=True, slots=True)
class RunCommand:
    """Run a command of RAGstream.

    Attributes:
        verb: Its name, e.g. ``index check``.
        arguments: As on a command line, see `quoted`; a placeholder such as ``PROJECT`` is in
            capitals.
    """

    verb: str
    arguments: str = ""


@dataclass(frozen=True, slots=True)
class RunProgram:
    """Run another program in a terminal, e.g. ``pip install …``."""

    line: str


@dataclass(frozen=True, slots=True)
class AddOption:
    """Give the command that failed an option, e.g. ``--force``."""

    option: str


@dataclass(frozen=True, slots=True)
class SetSetting:
    """Set a setting, for this prompt or, if it is `lasting`, in the configuration."""

    name: str
    value: str
    lasting: bool = False


@dataclass(frozen=True, slots=True)
class SetVariable:
    """Set a variable of the environment."""

    name: str

    @classmethod
    def of(cls, setting: str) -> SetVariable:
        """Return the one that stands for a setting, as ``retrieval.top_k``."""
        return cls(f"RAGSTREAM_{setting.replace('.', '__')}".upper())


@dataclass(frozen=True, slots=True)
class SwitchOff:
    """Leave files out of the prompt: ``the file`` that the message names, or ``files``."""

    files: str = "the file"


@dataclass(frozen=True, slots=True)
class ChooseProject:
    """Choose a project."""


@dataclass(frozen=True, slots=True)
class AllowSecrets:
    """Send what looks like a secret nevertheless."""


@dataclass(frozen=True, slots=True)
class InjectFile:
    """Put the whole file into the prompt instead."""


@dataclass(frozen=True, slots=True)
class FreeSpace:
    """Free space on the disk."""


@dataclass(frozen=True, slots=True)
class TryAgain:
    """Do the same once more."""


def quoted(*words: object) -> str:
    """Return words of a command as they are typed: in quotes if they hold blanks or signs."""
    return " ".join(shlex.quote(str(word)) for word in words)


# What a person can do; each face has its own words for it.
Action = (
    RunCommand | RunProgram | AddOption | SetSetting | SetVariable | SwitchOff | ChooseProject
    | AllowSecrets | InjectFile | FreeSpace | TryAgain
)  # fmt: skip
# Words with actions among them; plain words read the same in each face.
Advice = tuple[str | Action, ...]
Hint = str | Action | Advice


def advice_of(hint: Hint) -> Advice:
    """Return a hint as advice, empty for an empty text."""
    if isinstance(hint, tuple):
        return hint
    return (hint,) if hint else ()


def on_the_command_line(action: Action, *, alone: bool) -> str:
    """Return the words of the command line; a command in a sentence stands between backticks.

    Args:
        action: What to do.
        alone: Whether it is the whole advice.
    """
    match action:
        case RunCommand(verb, arguments):
            line = f"ragstream {verb} {arguments}".rstrip()
            return line if alone else f"`{line}`"
        case RunProgram(line):
            return line if alone else f"`{line}`"
        case AddOption(option):
            return option
        case SetSetting(name, value, lasting):
            return f"set {name} to {value}" if lasting else f"--set {name}={value}"
        case SetVariable(name):
            return f"export {name}"
        case SwitchOff(files):
            return f"leave {files} out with --off PATH"
        case ChooseProject():
            return "-p PROJECT; `ragstream status` lists them"
        case AllowSecrets():
            return "send it with --allow-secrets"
        case InjectFile():
            return "--file instead"
        case FreeSpace():
            return "free disk space"
        case TryAgain():
            return "run the command again"
        case _:
            assert_never(action)


class _Words(Protocol):
    def __call__(self, action: Action, *, alone: bool) -> str: ...


def worded(advice: Advice, words: _Words = on_the_command_line) -> str:
    """Return advice as a text.

    Args:
        advice: What to do.
        words: A face's words for an action, given whether it is the whole advice.
    """
    alone = len(advice) == 1
    return "".join(part if isinstance(part, str) else words(part, alone=alone) for part in advice)


class RagstreamError(Exception):
    """Root of everything RAGstream raises on purpose.

    Args:
        message: What happened, and to which thing (path, project, setting).
        hint: What to do next: plain words, an action, or words with actions among them.
    """

    exit_code = 1

    def __init__(self, message: str, *, hint: Hint = ()) -> None:
        super().__init__(message)
        self.message = message
        self.advice = advice_of(hint)

    @property
    def hint(self) -> str:
        """What to do next, in the words of the command line; may be empty."""
        return worded(self.advice)

    def __str__(self) -> str:
        """Return the message and, on a second line, what to do next."""
        return f"{self.message}\n  next: {self.hint}" if self.hint else self.message


class UsageError(RagstreamError):
    """The call is wrong; nothing was attempted."""

    exit_code = 2


class UnknownProject(UsageError):
    """No project of that name: no folder under ``doc_raw``, and none in place."""


class UnknownSetting(UsageError):
    """A setting name or value that does not exist."""


class InvalidName(UsageError):
    """A project or file name that could lead outside the data root."""


class EmptyPrompt(UsageError):
    """The prompt holds no word."""


class UnknownPrompt(UsageError):
    """No recorded prompt has that key."""


class Refused(RagstreamError):
    """Going on would break a promise; everything was left as it was."""

    exit_code = 3


class ProjectLocked(Refused):
    """Another process holds the project's writer lock."""


class ModelMismatch(Refused):
    """The store was built by another embedding model."""


class IntegrityError(Refused):
    """Bytes on disk are not the bytes that were committed."""


class WeightsMismatch(Refused):
    """A model file does not have the sha256 it must have."""


class DuplicateId(Refused):
    """``add`` was given an id that is live already."""


class BudgetExceeded(Refused):
    """The parts of a prompt that cannot be cut are over the token budget."""


class FenceBroken(Refused):
    """A line of the finished prompt has another owner than it was given."""


class OperationFailed(RagstreamError):
    """The attempt was right and did not succeed."""


class ExtraMissing(OperationFailed):
    """A package is needed that the base install does not have; the hint installs it."""


class WeightsMissing(OperationFailed):
    """Model weights cannot be found on this machine."""


class EmbeddingFailed(OperationFailed):
    """The encoder returned a wrong count, a wrong shape or a non-finite vector."""


class StoreFailed(OperationFailed):
    """The engine of a vector store refused, or the process it runs in died."""


class InputUnavailable(OperationFailed):
    """Something that a prompt was made from cannot be had again."""


class GenerationGone(OperationFailed):
    """The index generation that a prompt was made from is no longer kept."""


class FileChanging(OperationFailed):
    """A file changed while it was being read; its old version stays live."""


class Stopped(OperationFailed):
    """A person ended it before it was through; nothing of it is half written."""


class ChatFailed(OperationFailed):
    """The language model gave no answer that can be used; nothing else is lost by that.

    Attributes:
        took: What it cost nevertheless, a `ChatUsage`; None where nobody knows.
    """

    took: Any = None


class ChatUnreachable(ChatFailed):
    """Nobody answers at the endpoint's address."""


class ChatBusy(ChatFailed):
    """The endpoint says to come back later (408, 409, 429, 5xx), and went on saying so."""


class ChatRefused(ChatFailed):
    """The endpoint or the model does not want this request."""


class ChatTimeout(ChatFailed):
    """There was no answer within the time that it may take."""


class ChatBroken(ChatFailed):
    """An answer that cannot be used: cut off, empty, too large, or not what was asked for."""


@contextlib.contextmanager
def told_at_the_end() -> Iterator[None]:
    """End the process of a server after an error of ours in its words, without a traceback.

    What it wrote last is what `ragstream up` or a service manager shows.

    Raises:
        SystemExit: Such an error was raised inside.
    """
    try:
        yield
    except RagstreamError as error:
        sys.stderr.write(f"error: {error}\n")
        raise SystemExit(error.exit_code) from None
