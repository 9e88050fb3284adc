"""What serves many machines is neither imported nor listening while no setting names it."""

import json

ENGINES = {
    "procrastinate", "psycopg_pool", "dagster_postgres", "kubernetes",
    "psycopg", "psycopg2", "faiss", "s3fs", "gcsfs", "adlfs",  # Dagster loads fsspec
}  # fmt: skip
WORK = """
import json, os, sys
from pathlib import Path
from ragstream_app.cli.main import main

def listening():
    inodes = {os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd')
              if os.path.exists(f'/proc/self/fd/{n}')}
    rows = [row.split() for table in ('tcp', 'tcp6')
            for row in Path(f'/proc/self/net/{table}').read_text().splitlines()[1:]]
    return [row[1] for row in rows if row[3] == '0A' and f'socket:[{row[9]}]' in inodes]

codes = [main(words) for words in json.loads(sys.argv[1])]
loaded = sorted({name.partition('.')[0] for name in sys.modules})
print(json.dumps([codes, loaded, listening()]), file=sys.stderr)
"""


def test_an_ingest_and_a_prompt_load_no_engine(data, spawn):
    words = [
        ["ingest", "manual"],
        ["prompt", "How does the exact file lock work?", "-p", "manual"],
        ["search", "citation", "-p", "manual"],
        ["status"],
        ["index", "check", "manual"],
    ]
    done = spawn(json.dumps(words), code=WORK)
    codes, loaded, listening = json.loads(done.stderr.strip().splitlines()[-1])
    assert codes == [0] * len(words), done.stderr
    assert "dagster" not in loaded and "numpy" in loaded  # it did the work
    assert ENGINES.isdisjoint(loaded), ENGINES.intersection(loaded)
    assert listening == []
