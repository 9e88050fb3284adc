"""The request that the Launchpad runs as it stands; it asks the sample project about itself."""

from ragstream_core.build.workspace import Workspace
from ragstream_core.orchestration.inputs import PromptRequest

EXAMPLE = "example"
QUESTION = (
    "# Task\nWhat happens when an ingest is killed half way, and what do I have to do afterwards?\n"
    "\n# Context\nWe ingest every night from a script, and the machine was restarted during the "
    "run.\n\n# Format\nA short list of steps."
)


def resolve(workspace: Workspace, reference: str) -> PromptRequest:
    """Return the request behind a reference; ``example`` is put into the inbox first.

    Raises:
        UnknownPrompt: No such request in the inbox.
        IntegrityError: Its bytes do not have its digest.
        UsageError: It is not a request.
        OSError: The inbox cannot be written.
    """
    if reference == EXAMPLE:
        request = PromptRequest(QUESTION, ("handbook",))
        reference = workspace.store.put_request(request)
    return workspace.store.request(reference)
