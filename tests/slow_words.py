"""An embedder for tests of workers: hashed words, and each text takes a little time."""

import os
import time

from ragstream_core.models.embedders.hashed import HashedEmbedder

TEXT_S = float(os.environ.get("TEST_TEXT_S", "0.004"))


class SlowWords(HashedEmbedder):
    """As `HashedEmbedder`, and slow enough that trouble meets it at work."""

    def _passage(self, text):
        time.sleep(TEXT_S)
        return super()._passage(text)


def make() -> SlowWords:
    return SlowWords()
