"""Rows as a pandas DataFrame; pandas is imported when somebody asks for one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ragstream_core.errors import OperationFailed, RunProgram

if TYPE_CHECKING:
    import pandas as pd


def data_frame(rows: Iterable[Mapping[str, object]], columns: Sequence[str]) -> pd.DataFrame:
    """Return rows as a DataFrame."""
    try:
        import pandas as pd
    except ImportError as error:
        raise OperationFailed(
            "a DataFrame needs pandas", hint=RunProgram("pip install pandas")
        ) from error
    return pd.DataFrame(list(rows), columns=list(columns))
