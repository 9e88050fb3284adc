"""The alias table: which header names mean which canonical header (R-103, C-10)."""

from __future__ import annotations

import re
from importlib import resources
from typing import Any

from ragstream_core.errors import UnknownSetting

CONTENT = ("TASK", "CONTEXT", "PURPOSE", "USER_PROMPT")
META = ("SYSTEM", "AUDIENCE", "FORMAT", "DEPTH", "ROLE", "TONE")
CANONICAL = (*CONTENT, *META)
_NUMBERING = re.compile(r"^\s*\d{1,3}(?:\.\d{1,3}){0,3}[.)]?\s")
_NOT_WORD = re.compile(r"[\W_]+")
_HINT = "compare with the table that ships: ragstream_core/agents/aliases.yaml"


def normalise_header(name: str) -> str:
    """Fold a header: no numbering, no punctuation, lower case, single spaces."""
    return _NOT_WORD.sub(" ", _NUMBERING.sub("", name)).strip().casefold()


def default_alias_text() -> str:
    """Return the YAML text of the table that ships with the package."""
    return resources.files(__package__).joinpath("aliases.yaml").read_text(encoding="utf-8")


def parse_aliases(text: str) -> dict[str, str]:
    """Read an alias table.

    Args:
        text: YAML: canonical header → list of names.

    Returns:
        Folded name → canonical header; every canonical header also stands for itself.

    Raises:
        UnknownSetting: Not such a table, an unknown canonical header, or a name given twice.
    """
    import yaml

    try:
        data: Any = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise UnknownSetting(f"the alias table is not YAML: {error}", hint=_HINT) from None
    if not isinstance(data, dict):
        raise UnknownSetting("the alias table must map headers to lists of names", hint=_HINT)
    table = {normalise_header(name): name for name in CANONICAL}
    for canonical, names in data.items():
        if canonical not in CANONICAL or not isinstance(names, list):
            raise UnknownSetting(f"alias table: {canonical!r} is not a known header", hint=_HINT)
        for name in map(normalise_header, map(str, names)):
            if table.setdefault(name, canonical) != canonical:
                raise UnknownSetting(f"alias table: {name!r} is given twice", hint=_HINT)
    return table
