"""A data root with the sample project, a model on loopback, and the server that stands on both."""

import pytest

from ragstream_core.services.ingest import ingest_project
from tests.app.conftest import PAGES
from tests.app.model_answers import cites
from tests.app.serving import serving
from tests.model_server import KEY
from tests.model_server import serving as model_serving
from tests.workspaces import hashed_workspace, write_docs


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """The data root, ingested."""
    found = tmp_path_factory.mktemp("served") / "data"
    write_docs(found, "manual", PAGES)
    ingest_project(hashed_workspace(found), "manual")
    return found


@pytest.fixture
def space(root):
    """The same, opened in this process."""
    return hashed_workspace(root)


@pytest.fixture(scope="module")
def model_of_module():
    with model_serving(cites) as found:
        yield found


@pytest.fixture
def model(model_of_module):
    """The model; a test may give it other answers."""
    model_of_module.answers[:] = [cites]
    model_of_module.seen.clear()
    return model_of_module


@pytest.fixture(scope="module")
def served(root, model_of_module):
    """The server with that model."""
    provider = {
        "provider__base_url": model_of_module.url,
        "provider__api_key": KEY,
        "provider__model": "toy-1",
        "provider__budget_s": "20",
    }
    with serving(root, **provider) as found:
        yield found


@pytest.fixture(scope="module")
def alone(root):
    """A server without a model, for one request at a time."""
    with serving(root, api__workers="1", provider__base_url="http://127.0.0.1:9/v1") as found:
        yield found
