"""The golden corpus, ingested once."""

import pytest

from tests.goldens.corpus import build


@pytest.fixture(scope="session")
def space(tmp_path_factory):
    return build(tmp_path_factory.mktemp("goldens"))
