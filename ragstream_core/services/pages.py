"""The page behind a citation of a PDF, as a picture of the very bytes that were indexed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ragstream_core.errors import InputUnavailable, RunCommand
from ragstream_core.ingestion.file_types import file_type
from ragstream_core.records.identity import sha256_hex

if TYPE_CHECKING:
    from ragstream_core.wiring.workspace import Workspace


def has_pages(path: str) -> bool:
    """Whether the pages of a file can be shown as pictures.

    Args:
        path: Of the file.
    """
    return file_type(path) == "pdf"


def page_picture(workspace: Workspace, project: str, path: str, *, sha256: str, page: int) -> bytes:
    """Return a page of a document as a PNG.

    Args:
        workspace: The data root.
        project: The document's project.
        path: Relative to the project, as in the index.
        sha256: Of the bytes that were indexed.
        page: Its number, from 1.

    Raises:
        UnknownProject: There is no such project.
        InputUnavailable: The file is not what it was, or its page cannot be drawn.
    """
    from ragstream_core.ingestion.parsers.page_image import page_png

    where = f"{project}/{path}"
    limit = workspace.config.settings.discovery.max_pdf_bytes
    try:
        fd = workspace.open_document(project, path)
        with os.fdopen(fd, "rb") as handle:
            data = handle.read(limit + 1)
    except (OSError, ValueError) as error:
        raise InputUnavailable(f"{where} cannot be read any more: {error}") from None
    if sha256_hex(data) != sha256:
        raise InputUnavailable(
            f"{where} was changed since it was indexed; page {page} may be another one now",
            hint=RunCommand("ingest", project),
        )
    picture, problem = page_png(data, page)
    if problem:
        raise InputUnavailable(f"page {page} of {where} cannot be shown: {problem}")
    return picture
