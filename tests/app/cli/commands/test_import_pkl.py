"""`ragstream index import-pkl`: documents from an old snapshot, and nothing from a hostile one."""

import json
import os
import pickle

import numpy as np


class Hostile:
    def __init__(self, command):
        self.command = command

    def __reduce__(self):
        return os.system, (self.command,)


def test_an_honest_pickle_becomes_a_project_that_can_be_asked(environment, tmp_path, run):
    path = tmp_path / "old.pkl"
    value = {
        "ids": ["locks", "soup"],
        "texts": ["The lock restricts a prompt to the files.", "Soup is served at noon."],
        "vectors": np.eye(2, 8, dtype=np.float32),
        "metadata": [{}, {}],
    }
    path.write_bytes(pickle.dumps(value))
    code, out, err = run("index", "import-pkl", str(path), "-p", "old_notes", "--json")
    assert code == 0, err
    assert json.loads(out) == {
        "project": "old_notes",
        "written": ["imported/locks.md", "imported/soup.md"],
        "unchanged": [],
        "empty": 0,
        "vectors": 2,
    }
    code, out, _ = run("index", "import-pkl", str(path), "-p", "old_notes")
    assert code == 0 and "0 documents written, 2 unchanged" in out
    assert run("ingest", "old_notes")[0] == 0
    code, out, _ = run("search", "when is soup served", "-p", "old_notes", "--json")
    assert json.loads(out)[0]["source"] == "imported/soup.md"


def test_a_hostile_pickle_is_refused(environment, tmp_path, run):
    path, canary = tmp_path / "bad.pkl", tmp_path / "canary"
    path.write_bytes(pickle.dumps(Hostile(f"touch {canary}")))
    code, _, err = run("index", "import-pkl", str(path), "-p", "old_notes")
    assert code == 3 and "system" in err and "no array or container needs" in err
    assert not canary.exists() and not (environment / "doc_raw").exists()


def test_wrong_usage_is_exit_code_2(environment, tmp_path, run):
    assert run("index", "import-pkl", str(tmp_path / "none.pkl"), "-p", "old_notes")[0] == 2
    assert run("index", "import-pkl", str(tmp_path / "none.pkl"), "-p", "../x")[0] == 2
