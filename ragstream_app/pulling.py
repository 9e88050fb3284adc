"""What `ragstream models pull NAME` asks, shows and fetches."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from ragstream_app.session import note
from ragstream_core.errors import Refused, UsageError

if TYPE_CHECKING:
    from ragstream_core.config import AppConfig
    from ragstream_core.models.hub import Told


def _embedder(config: AppConfig) -> str:
    """Return the repository that the embedder's files come from."""
    settings = config.settings.embeddings
    if settings.backend != "fastembed":
        return settings.model
    from ragstream_core.embedders.fastembed import hub_source

    return hub_source(settings.model)


ROLES = {
    "reranker": lambda config: config.settings.rerank.model,
    "gate": lambda config: config.settings.gate.model,
    "embedder": _embedder,
}
"""Names for the models of the settings."""


def pulled_by_name(config: AppConfig, name: str, *, yes: bool) -> Path:
    """Fetch a model or a token file and return where it lies.

    Args:
        config: Says where models lie and where the hub is.
        name: A role of `ROLES`, a token file, or ``organisation/model`` with or without
            ``@revision``.
        yes: Do not ask.

    Raises:
        UsageError: No such name, or nobody can be asked.
        Refused: Somebody said no, or what the hub offers is refused.
        OperationFailed: It cannot be had.
    """
    from ragstream_core.build.models import models_dir
    from ragstream_core.models.hub import Hub
    from ragstream_core.models.pulling import pull_model, pull_token_file
    from ragstream_core.models.token_files import TOKEN_FILES

    directory = models_dir(config)
    directory.mkdir(parents=True, exist_ok=True)
    if name in TOKEN_FILES:
        file = TOKEN_FILES[name]
        _ask(f"{file.file_name}, {_mb(file.size)}, from {file.url}", yes)
        return _done(pull_token_file(file, directory, told=_shown(name)))
    repo, _, revision = str(ROLES[name](config) if name in ROLES else name).partition("@")
    settings = config.settings.hub
    hub = Hub(settings.url)
    model = hub.model(repo, revision=revision or "main", most_bytes=int(settings.max_gb * 1e9))
    licence = f", licence {model.licence}" if model.licence else ", licence not stated"
    said = f"{len(model.files)} files, {_mb(model.size)}{licence}"
    _ask(f"{repo} at {model.commit[:12]} from {hub.host}: {said}, into {directory / repo}", yes)
    return _done(pull_model(hub, model, directory, told=_shown(repo)))


def _ask(what: str, yes: bool) -> None:
    """Have somebody agree.

    Raises:
        UsageError: Nobody is there.
        Refused: They did not.
    """
    note(what)
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(
            "nothing was fetched: there is no terminal to confirm on", hint="say --yes"
        )
    if not typer.confirm("Fetch it?", err=True):
        raise Refused("nothing was fetched")


def _shown(name: str) -> Told:
    """Return what shows on a terminal how far a transfer is, at each tenth."""
    seen = [-1]

    def told(done: int, total: int) -> None:
        tenth = done * 10 // max(total, 1)
        if tenth > seen[0] and sys.stderr.isatty():
            seen[0] = tenth
            note(f"{name}: {_mb(done)} of {_mb(total)}")

    return told


def _done(path: Path) -> Path:
    note(f"it lies in {path}")
    return path


def _mb(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
