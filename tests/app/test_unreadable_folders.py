"""Folders in place that this user may not read: what can be had is taken, the rest is named."""

import os
import shutil
import subprocess
import sys

import pytest

from tests.workspaces import ROOT

WORDS = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search")
"""Root, but bound by permissions like everybody."""
LIKE_A_USER = WORDS if os.geteuid() == 0 else ()
pytestmark = pytest.mark.skipif(bool(LIKE_A_USER and not shutil.which("setpriv")), reason="setpriv")


@pytest.fixture
def desk(tmp_path):
    """A folder with `shop/open`, `shop/closed` and `other`."""
    for name in ("shop/open", "shop/closed", "other"):
        (tmp_path / name).mkdir(parents=True)
        text = f"# Words\n\nWhat the folder {name} says of anvils.\n"
        (tmp_path / name / "a.md").write_text(text)
    (tmp_path / "shop" / "open" / "secret.md").write_text("# Mine\n\nOthers may not read this.\n")
    yield tmp_path
    for name in ("shop", "shop/closed", "other"):
        (tmp_path / name).chmod(0o700)


def call(*words):
    """Run a command as a user who may not read everything; return exit code, and what it said."""
    program = [*LIKE_A_USER, sys.executable, "-m", "ragstream_app", *words]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "400"}
    done = subprocess.run(program, env=environment, capture_output=True, text=True, check=False)
    said = done.stdout + done.stderr
    assert "Traceback" not in said, said
    return done.returncode, said


def test_what_this_user_may_not_read_is_named_and_nothing_goes(desk):
    shop, other = desk / "shop", desk / "other"
    assert call("project", "add", "shop", str(shop), str(other))[0] == 0
    assert call("ingest", "shop")[0] == 0
    (shop / "closed").chmod(0)
    (shop / "open" / "secret.md").chmod(0)
    (shop / "open" / "new.md").write_text("# New\n\nIt is read all the same.\n")
    code, said = call("ingest", "shop")
    assert code == 0 and "1  shop/open/new.md" in said and "skipped: shop/closed: Perm" in said
    assert "shop/open/secret.md: cannot be read: Permission denied" in said
    live = int(said.partition("live")[2].split()[0])
    assert live == 5, "what was known of both stays"
    shop.chmod(0)
    code, said = call("ingest", "shop")
    assert str(shop) in said and "stay in the index" in said, said
    other.chmod(0)
    code, said = call("ingest", "shop")
    assert code == 1 and str(other) in said and "ermission denied" in said, said
    listed = call("project", "list")[1]
    assert "5 indexed" in listed and listed.count("unreadable") == 2, listed
    code, said = call("project", "add", "more", str(other), "--overlap")
    assert code == 2 and "cannot be listed: permission denied" in said and "chmod u+rx" in said
