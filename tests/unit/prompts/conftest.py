"""The workspace of the tests of prompts."""

import pytest

from tests.workspaces import ingested_workspace


@pytest.fixture
def workspace(tmp_path):
    return ingested_workspace(tmp_path)
