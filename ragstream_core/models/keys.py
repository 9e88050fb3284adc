"""The key of the language model: from the settings' secret, or from a file that only you can read.

It is handed to the endpoint and to nobody else: no message, log, event or record holds it.
"""

from __future__ import annotations

import re
import stat
from pathlib import Path

from pydantic import SecretStr

from ragstream_core.errors import Refused, UsageError

MAX_KEY_BYTES = 8_192
_KEY = re.compile(r"[!-~]+")  # printable ASCII: anything else could end a header
_FROM = "export RAGSTREAM_PROVIDER__API_KEY, or name a file by provider.api_key_file"


def provider_key(key: SecretStr, key_file: str) -> SecretStr:
    """Return the key; empty where none is set.

    Args:
        key: From the environment or ``.env``; it comes first.
        key_file: A file whose only line is the key; empty for none.

    Raises:
        Refused: Others than its owner may read the file.
        UsageError: The file cannot be read, or what it holds is no key.
    """
    given = key.get_secret_value().strip()
    if given or not key_file:
        return _checked(given, "provider.api_key") if given else SecretStr("")
    return _checked(_text_of(Path(key_file).expanduser()), key_file)


def _text_of(path: Path) -> str:
    try:
        with path.open("rb") as handle:
            mode = path.stat().st_mode
            if not stat.S_ISREG(mode):
                raise UsageError(f"{path} is not a regular file", hint=_FROM)
            if mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise Refused(
                    f"{path} holds a key and is open to others (mode {stat.S_IMODE(mode):04o})",
                    hint=f"chmod 600 {path}",
                )
            return handle.read(MAX_KEY_BYTES).decode("utf-8", "replace").strip()
    except OSError as error:
        what = error.strerror or type(error).__name__
        raise UsageError(f"the key file {path} cannot be read: {what}", hint=_FROM) from None


def _checked(text: str, where: str) -> SecretStr:
    if _KEY.fullmatch(text) is None:
        raise UsageError(f"{where} holds no key: one line of printable characters", hint=_FROM)
    return SecretStr(text)
