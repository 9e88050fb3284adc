"""The sample project: RAGstream's handbook with its rules and memory, put into a data root.

It ships in the wheel; in a checkout it is the project below `data/`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import ragstream_core
from ragstream_core.errors import OperationFailed, Refused, RunCommand
from ragstream_core.platform.files import replace_bytes

PROJECT = "handbook"
QUESTION = (
    "How does RAGstream score a long question, "
    "and what does the reranker do without a cross-encoder?"
)
FOLDERS = (f"doc_raw/{PROJECT}", f"projects/{PROJECT}")


@dataclass(frozen=True, slots=True)
class SamplePlan:
    """What putting the sample project into a data root would do; nothing is done yet."""

    source: Path
    data_dir: Path
    new: tuple[str, ...]  # files that are not there, as paths below the root
    changed: tuple[str, ...]  # files that are there with other content
    occupied: bool  # whether the root holds something else than parts of the sample

    @property
    def needs_consent(self) -> bool:
        """Whether a person is to be asked: files are written beside others, or over them."""
        return bool(self.changed) or (self.occupied and bool(self.new))

    def to_json(self) -> dict[str, object]:
        """Return the documented JSON form."""
        return {
            "data_dir": str(self.data_dir),
            "project": PROJECT,
            "new": list(self.new),
            "changed": list(self.changed),
            "needs_consent": self.needs_consent,
        }


def sample_source() -> Path:
    """Return the folder that the sample lies in, laid out as a data root.

    Raises:
        OperationFailed: This installation does not hold it.
    """
    package = Path(ragstream_core.__file__).parent
    for folder in (package / "sample", package.parent / "data"):
        if (folder / FOLDERS[0]).is_dir():
            return folder
    raise OperationFailed(
        f"the handbook is not in {package / 'sample'}", hint="install RAGstream again"
    )


def plan_sample(data_dir: Path, source: Path | None = None) -> SamplePlan:
    """Compare the sample with a data root; nothing is written.

    Args:
        data_dir: The data root, which need not exist.
        source: Where the sample lies; default: `sample_source`.

    Raises:
        Refused: The root has a project of that name with documents elsewhere.
        OperationFailed: This installation does not hold the sample.
        OSError: A file cannot be read.
    """
    source = source or sample_source()
    for folder in FOLDERS:
        if (data_dir / folder).is_symlink() or (data_dir / folder / "project.yaml").is_file():
            raise Refused(
                f"the project {PROJECT!r} of {data_dir} has its documents elsewhere",
                hint=(RunCommand("demo"), " in another folder"),
            )
    new: list[str] = []
    changed: list[str] = []
    for path in _files(source):
        there = data_dir / path
        if not there.is_file():
            new.append(path)
        elif there.read_bytes() != (source / path).read_bytes():
            changed.append(path)
    return SamplePlan(source, data_dir, tuple(new), tuple(changed), _is_occupied(data_dir))


def put_sample(plan: SamplePlan) -> None:
    """Write the files of a plan; each appears whole, and a second call goes on after a kill.

    Raises:
        OSError: Disk full, permission denied.
    """
    for path in (*plan.new, *plan.changed):
        replace_bytes(plan.data_dir / path, (plan.source / path).read_bytes())


def _files(source: Path) -> list[str]:
    found = (path for folder in FOLDERS for path in (source / folder).rglob("*"))
    return sorted(path.relative_to(source).as_posix() for path in found if path.is_file())


def _is_occupied(data_dir: Path) -> bool:
    """Return whether something else than (a part of) the sample lies in a data root."""
    if not data_dir.is_dir():
        return False
    ours = {Path(folder) for folder in FOLDERS}
    parents = {folder.parent for folder in ours}
    made = {Path("models")}  # made again whenever it is missing
    tops = {path.relative_to(data_dir) for path in data_dir.iterdir()}
    inside = {path.relative_to(data_dir) for p in parents for path in (data_dir / p).glob("*")}
    return bool((tops - parents - made) | (inside - ours))
