"""What most unit tests of the upper layers stand on."""

import pytest

from tests.workspaces import ingested_workspace


@pytest.fixture
def space(tmp_path):
    """A workspace with four documents in the project ``demo``, ingested."""
    return ingested_workspace(tmp_path)
