"""`git diff` of a named file: what has changed since the last commit, pinned with the prompt.

No shell, a fixed list of arguments, a time and a size limit; nothing is fetched, no external diff
tool and no text converter runs. Only files that may be injected may be named.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ragstream_core.agents.a1_file_injector import forced_paths
from ragstream_core.build.file_sources import injectable
from ragstream_core.errors import OperationFailed, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ragstream_core.build.workspace import Workspace

PREFIX = "diff:"
MAX_BYTES = 500_000
TIMEOUT_S = 20.0
_GIT = (
    "git", "--no-pager", "--no-optional-locks", "--literal-pathspecs",
    "-c", "core.fsmonitor=false", "-c", "core.quotePath=false", "-c", "protocol.allow=never",
)  # fmt: skip
_DIFF = (
    "diff", "--no-ext-diff", "--no-textconv", "--no-color", "--relative", "--src-prefix=a/",
    "--dst-prefix=b/", "--unified=3", "--submodule=short", "HEAD", "--",
)  # fmt: skip


def pinned_diffs(
    workspace: Workspace, wanted: Sequence[str], projects: Sequence[str]
) -> dict[str, str]:
    """Return the diffs that a prompt asks for, ``diff:project/path`` → text.

    Args:
        workspace: The data root.
        wanted: Names as for ``--file``.
        projects: The prompt's projects, sorted.

    Raises:
        UsageError: No single file, no git, no repository, no commit, or too long a diff.
        OperationFailed: git takes too long.
    """
    if not wanted:
        return {}
    several = len(projects) > 1
    homes = {
        f"{project}/{path}" if several else path: (project, path)
        for project in projects
        for path in injectable(workspace, project)
    }
    tokens = [token.replace("\\", "/").removeprefix("./") for token in wanted]
    names = dict.fromkeys(name for token in tokens for name in forced_paths(token, list(homes)))
    return {
        f"{PREFIX}{'/'.join(homes[name])}": diff_of(workspace.doc_dir(homes[name][0]), *homes[name])
        for name in names
    }


def diffs_in(texts: Mapping[str, str]) -> dict[tuple[str, str], str]:
    """Return the diffs among a prompt's pinned texts, (project, path) → text."""
    found: dict[tuple[str, str], str] = {}
    for key, text in texts.items():
        if key.startswith(PREFIX):
            project, _, path = key.removeprefix(PREFIX).partition("/")
            found[project, path] = text
    return found


def diff_of(root: Path, project: str, path: str) -> str:
    """Return what `git diff HEAD` says about one file; empty where nothing changed.

    Args:
        root: The project's folder; inside a work tree.
        project: Its name, for messages.
        path: The file, relative to it.

    Raises:
        UsageError: No git, no repository, no commit, or too long a diff.
        OperationFailed: git takes too long.
    """
    name = f"{project}/{path}"
    with tempfile.TemporaryFile() as out:
        try:
            done = subprocess.run(
                [*_GIT, "-C", str(root), *_DIFF, path],
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.PIPE,
                timeout=TIMEOUT_S, check=False,
            )  # fmt: skip
        except FileNotFoundError:
            raise UsageError(
                f"no diff of {name}: git is not installed",
                hint="install git, or pipe a diff in: git diff | ragstream prompt - -p PROJECT",
            ) from None
        except subprocess.TimeoutExpired:
            raise OperationFailed(f"no diff of {name}: git took over {TIMEOUT_S:g} s") from None
        if done.returncode:
            said = done.stderr.decode("utf-8", "replace").strip().split("\n")[0][:200]
            raise UsageError(
                f"no diff of {name}: {said or f'git ended with {done.returncode}'}",
                hint="the file must lie in a git work tree with a commit",
            )
        out.seek(0)
        data = out.read(MAX_BYTES + 1)
    if len(data) > MAX_BYTES:
        raise UsageError(f"the diff of {name} is over {MAX_BYTES} bytes", hint="--file instead")
    return data.decode("utf-8", "replace").replace("\r\n", "\n").rstrip("\n")
