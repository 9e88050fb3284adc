"""`--diff` in a folder that came with its `.git`: no command that its settings name is run."""

import os
import subprocess

from ragstream_core.services.projects import AddRequest, add
from ragstream_core.wiring.file_sources import diff_of
from tests.workspaces import hashed_workspace


def test_a_filter_of_the_repositorys_own_settings_is_not_run(tmp_path):
    clone, ran = tmp_path / "clone", tmp_path / "ran"
    clone.mkdir()

    def git(*words):
        subprocess.run(["git", "-C", str(clone), *words], check=True, capture_output=True)

    (clone / "a.md").write_text("one\n")
    git("init", "-q")
    git("add", ".")
    git("-c", "user.name=x", "-c", "user.email=x@y", "commit", "-qm", "x")
    (clone / ".gitattributes").write_text("* filter=a.b=c\n* filter=evil\n")
    with (clone / ".git" / "config").open("a") as settings:
        for name in ("a.b=c", "evil"):
            settings.write(f'[filter "{name}"]\n clean = touch {ran}; cat\n required = true\n')
    (clone / "a.md").write_text("two, longer\n")
    os.utime(clone / "a.md", (1, 1))
    space = hashed_workspace(tmp_path / "root" / "data")
    add(space, "clone", AddRequest([clone]))
    assert "+two, longer" in diff_of(space, "clone", "a.md")
    assert not ran.exists()
    git("diff", "HEAD")
    assert ran.exists(), "git by itself runs it: the test can fail"
