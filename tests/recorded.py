"""The recorder as the tests use it: whoever asks for a prompt here gets its run as well."""

from ragstream_assets.recorder import recorder
from ragstream_assets.recorder.writer import writer

WAIT_S = 240.0


def record_prompt(*args, **given):
    """As the recorder's; returns once the run is written, or why it is not is known.

    The chain runs unless ``fresh=False`` is said.
    """
    given.setdefault("fresh", True)
    return _written(recorder.record_prompt, *args, **given)


def record_stage(*args, **given):
    """The same for some ops."""
    return _written(recorder.record_stage, *args, **given)


def _written(call, *args, **given):
    try:
        return call(*args, **given)
    finally:
        assert writer.flush(WAIT_S)
