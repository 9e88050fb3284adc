"""The password of a page that other machines may reach; only a slow hash of it is kept."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from pathlib import Path

from ragstream_core.atomic import replace_text
from ragstream_core.config import AppConfig
from ragstream_core.errors import Refused

FILE_NAME = "page-password"
SHORTEST = 12
COST, BLOCK, LANES = 2**14, 8, 1
"""scrypt: 16 MB and some 50 ms a guess."""
SALT_BYTES = 16


@dataclass(frozen=True)
class Password:
    """A password that can be compared, not read.

    Attributes:
        salt: Random, of this password alone.
        digest: scrypt of the password and the salt, 64 bytes.
    """

    salt: bytes
    digest: bytes

    def matches(self, given: str) -> bool:
        """Whether this is the password; takes as long for a wrong one as for the right one."""
        return hmac.compare_digest(_scrypt(given, self.salt), self.digest)


def make_password(text: str) -> Password:
    """Return what is kept of a password.

    Raises:
        Refused: It is shorter than `SHORTEST` characters.
    """
    if len(text) < SHORTEST:
        raise Refused(
            f"a password of {len(text)} characters",
            hint=f"at least {SHORTEST}; several words are easy to keep in mind",
        )
    salt = secrets.token_bytes(SALT_BYTES)
    return Password(salt, _scrypt(text, salt))


def password_file(config: AppConfig) -> Path:
    """Return where the hash lies: in the data root, whether it is there or not."""
    return config.data_dir / FILE_NAME


def write_password(path: Path, password: Password) -> None:
    """Keep a password's hash in a file of its owner alone.

    Raises:
        OSError: The data root cannot be written.
    """
    replace_text(path, f"scrypt {password.salt.hex()} {password.digest.hex()}\n")
    path.chmod(0o600)


def read_password(path: Path) -> Password:
    """Return the password of a file.

    Raises:
        Refused: There is none, others can read it, or it is damaged.
    """
    if not path.is_file():
        raise Refused("the page has no password", hint="ragstream password")
    if path.stat().st_mode & 0o077:
        raise Refused(f"others can read {path}", hint=f"chmod 600 {path}; ragstream password")
    try:
        kind, salt, digest = path.read_text(encoding="ascii").split()
        if kind == "scrypt":
            return Password(bytes.fromhex(salt), bytes.fromhex(digest))
    except ValueError:
        pass
    raise Refused(f"{path} has been altered", hint="ragstream password")


def _scrypt(text: str, salt: bytes) -> bytes:
    return hashlib.scrypt(text.encode(), salt=salt, n=COST, r=BLOCK, p=LANES)
