"""Three hundred passages, each with something that a person types about it, and how both are read.

English, German, French, Spanish and Chinese; written for the tests of this repository. The file
holds the inputs beside the results, so that recording again keeps the rows.
"""

import json
from pathlib import Path

from tests.nets.product import read

RECORDED = Path(__file__).with_name("rows.jsonl")


def recorded() -> list[dict]:
    """Each row: language, text, question, and under ``read`` what `product.read` said of it."""
    return [json.loads(line) for line in RECORDED.read_text(encoding="utf-8").splitlines()]


def made_now() -> list[dict]:
    """The same rows as the code of now reads them."""
    return [{**row, "read": read(row["text"], row["question"])} for row in recorded()]
