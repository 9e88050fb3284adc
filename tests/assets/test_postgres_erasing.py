"""Cleared turns and forgotten files leave Dagster's records in PostgreSQL, too."""

import psycopg
import pytest

from ragstream_assets import instance
from ragstream_core.conversations.clearing import Choice
from ragstream_core.errors import StoreFailed
from ragstream_core.prompts.inputs import PromptRequest
from ragstream_core.services.clear_history import clear
from ragstream_core.services.forget import forget
from ragstream_core.services.ingest import ingest_project
from tests.assets.test_history_clearing import ANSWER, ASKED, CANARIES, CANCELED, leave_words, say
from tests.copies import holders
from tests.recorded import record_prompt


@pytest.fixture
def shared(open_root, root, database, monkeypatch):
    monkeypatch.setenv("DAGSTER_POSTGRES_URL", "")  # restored afterwards
    return open_root(root, **{"dagster.storage": database})


def dumped(database):
    """Return all rows of all tables as one text."""
    with psycopg.connect(database) as db:
        tables = db.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        return "\n".join(
            str(row)
            for (name,) in tables.fetchall()
            for row in db.execute(f'SELECT t::text FROM "{name}" t').fetchall()
        ).lower()


def test_no_row_of_a_cleared_turn_is_left_there(shared, root, database):
    ingest_project(shared, "demo")
    say(shared, "plain", "What does an ingest hold?", "The lock of its project.")
    done = record_prompt(shared, PromptRequest(ASKED, ("demo",), session="secret"))
    say(shared, "secret", ASKED, ANSWER, done.record.prompt_key)
    other = record_prompt(
        shared, PromptRequest("What is left behind?", ("demo",), settings={"history.recency_k": 0})
    )
    home = instance.instance_for(shared.config)
    waits = leave_words(home, ASKED, ANSWER)
    assert CANARIES[0] in dumped(database)
    clear(shared, Choice("secret"))
    assert holders(root, *CANARIES) == []
    assert CANARIES[0] not in dumped(database)
    listed = {record.dagster_run.run_id for record in home.get_run_records()}
    assert {other.run_id, waits} <= listed and not home.get_runs(CANCELED)
    assert all(home.all_logs(run) for run in listed - {waits})


def test_no_row_of_a_forgotten_file_is_left_there(shared, root, database, open_root):
    folder = root / "doc_raw" / "demo"
    (folder / "vault.md").write_text(f"# Vault\n\n{ANSWER}\n")
    ingest_project(shared, "demo")
    record_prompt(shared, PromptRequest("How does the vault open?", ("demo",)))
    other = record_prompt(shared, PromptRequest("What does an ingest hold?", ("demo",)))
    home = instance.instance_for(shared.config)
    waits = leave_words(home, ANSWER)
    assert CANARIES[1] in dumped(database)
    away = open_root(root, **{"dagster.storage": "postgresql://me@127.0.0.1:1/none"})
    with pytest.raises(StoreFailed, match="may still be there") as error:
        forget(away, "demo", "vault.md", delete=True)
    assert "dagster.storage" in error.value.hint and CANARIES[1] in dumped(database)
    report = forget(shared, "demo", "vault.md")  # goes on
    assert holders(root, CANARIES[1]) == [] and CANARIES[1] not in dumped(database)
    assert any(name.startswith("dagster.storage (") for name in report.removed)
    assert {other.run_id, waits} <= {record.dagster_run.run_id for record in home.get_run_records()}
