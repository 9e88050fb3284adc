"""What can go wrong, as a tree; every message says what, where, and what to run next.

RagstreamError                 exit code 1: the operation failed
├── UsageError                 2: the call is wrong
│   ├── UnknownProject         no such folder under doc_raw
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

from typing import Any


class RagstreamError(Exception):
    """Root of everything RAGstream raises on purpose.

    Args:
        message: What happened, and to which thing (path, project, setting).
        hint: The next command or step for the person who reads it; may be empty.
    """

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        """Return the message and, on a second line, what to do next."""
        return f"{self.message}\n  next: {self.hint}" if self.hint else self.message


class UsageError(RagstreamError):
    """The call is wrong; nothing was attempted."""

    exit_code = 2


class UnknownProject(UsageError):
    """No such folder under ``doc_raw``."""


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
