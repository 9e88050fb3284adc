"""The bearer token of the HTTP server: made once, kept in a file of its owner alone."""

from __future__ import annotations

import contextlib
import hmac
import secrets
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.errors import Refused, RunCommand, RunProgram, quoted
from ragstream_core.platform.files import create_bytes, make_private_dir, replace_bytes

if TYPE_CHECKING:
    from ragstream_core.config import AppConfig

FILE_NAME = "api-token"
PREFIX = "rs-"
SECRET_BYTES = 32
_NEW = RunCommand("serve", "--new-token")


def token_file(config: AppConfig) -> Path:
    """Return where the token lies: in the data root, whether it is there or not."""
    return config.data_dir / FILE_NAME


def ensure_token(path: Path) -> str:
    """Return the token of a file; the first call makes both.

    Of two processes that make it at the same moment, both return the one that is kept.

    Args:
        path: As `token_file` returns it.

    Raises:
        Refused: Others can read the file, or it is damaged.
        OSError: The data root cannot be written.
    """
    if not path.exists():
        make_private_dir(path.parent)
        with contextlib.suppress(FileExistsError):  # another process was first
            create_bytes(path, _fresh())
    return read_token(path)


def replace_token(path: Path) -> str:
    """Make a new token and return it; a running server keeps the old one until it is restarted.

    Raises:
        OSError: The data root cannot be written.
    """
    replace_bytes(path, _fresh())
    return read_token(path)


def read_token(path: Path) -> str:
    """Return the token of a file.

    Raises:
        Refused: There is none, others can read it, or it is damaged.
        OSError: It cannot be read.
    """
    if not path.is_file():
        raise Refused("there is no token yet", hint=RunCommand("serve", "--show-token"))
    if path.stat().st_mode & 0o077:
        raise Refused(
            f"others can read {path}",
            hint=(RunProgram(quoted("chmod", 600, path)), ", and then ", _NEW),
        )
    text = path.read_bytes().decode("ascii", "replace").strip()
    if not text.startswith(PREFIX) or len(text) < SECRET_BYTES or not text.isprintable():
        raise Refused(f"{path} has been altered", hint=_NEW)
    return text


def is_token(given: str, token: str) -> bool:
    """Whether a text is the token; takes as long for a wrong one as for the right one."""
    return hmac.compare_digest(given.encode("utf-8", "replace"), token.encode())


def _fresh() -> bytes:
    return f"{PREFIX}{secrets.token_urlsafe(SECRET_BYTES)}\n".encode()
