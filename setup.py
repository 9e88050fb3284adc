"""Puts the sample project into the wheel: the handbook, with its rules and memory.

It lies in `data/` once, where a checkout reads it; everything else is in pyproject.toml.
"""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

FOLDERS = ("doc_raw/handbook", "projects/handbook")


class WithSample(build_py):
    """Copies the sample project to `ragstream_core/sample`; an editable install needs no copy."""

    def run(self) -> None:
        """Build the packages, then add the sample."""
        super().run()
        if self.editable_mode:
            return
        sample = Path(self.build_lib) / "ragstream_core" / "sample"
        shutil.rmtree(sample, ignore_errors=True)
        for folder in FOLDERS:
            shutil.copytree(Path("data") / folder, sample / folder)


setup(cmdclass={"build_py": WithSample})
