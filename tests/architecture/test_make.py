"""What is built and locked: every package is in the wheel, and the constraints were resolved."""

import shutil
import subprocess
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_failing_resolver_leaves_the_constraints_alone(tmp_path):
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path / name)
    uv = tmp_path / ".venv" / "bin" / "uv"
    uv.parent.mkdir(parents=True)
    uv.write_text("#!/bin/sh\nexit 1\n")
    uv.chmod(0o755)
    (tmp_path / ".venv" / ".installed").touch()
    before = (tmp_path / "constraints.txt").read_bytes()
    done = subprocess.run(["make", "lock"], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode != 0
    assert (tmp_path / "constraints.txt").read_bytes() == before


def test_every_package_is_in_the_wheel():
    packages = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"][
        "packages"
    ]
    there = {
        ".".join(path.parent.relative_to(ROOT).parts)
        for root in ("ragstream_core", "ragstream_assets", "ragstream_app")
        for path in (ROOT / root).rglob("__init__.py")
    }
    assert set(packages) == there
