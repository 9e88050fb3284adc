"""`PgvectorStore`: what is refused before a database is asked."""

import pytest

from ragstream_core.proposers.pgvector import PgvectorStore


@pytest.mark.parametrize("name", ["", "x; DROP TABLE y", "Upper", "a" * 41])
def test_a_name_that_is_none_of_a_table_is_refused(name):
    with pytest.raises(ValueError, match="no name of a table"):
        PgvectorStore("postgresql://127.0.0.1:1/none", 3, name=name)
