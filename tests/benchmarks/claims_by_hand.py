"""Passages of the handbook with sentences about them, as somebody would say it in other words."""

SECRETS = (
    "With `discovery.secrets: warn` a file that seems to hold a secret is ingested as it is, and a "
    "warning names the place. The secret itself is never printed, logged or stored with the "
    "warning: a kind, a path and a line are all you get, and all you need."
)
SENSOR = (
    "A sensor in Dagster watches the document folders and requests an ingest when something "
    "changed. The folder sensor looks every 30 seconds. It requests one run for each changed "
    "project. No ticks at all mean that the daemon is not running."
)
CARE = (
    "`ragstream index check` reads the structure of every index. It takes seconds. Derived files "
    "that differ from the catalog are made again on the spot, and the command says which. "
    "`--read-data 3/7` reads the third of seven parts, so seven nightly runs see every byte once a "
    "week. The exit code is 3 when something is wrong."
)
NONCE = (
    "The nonce is the first 12 digits of a sha256 over all untrusted blocks and your own words. If "
    "these digits happen to occur in one of the texts, four more digits are taken until they do "
    "not. An author cannot write it into a document in advance."
)
GOLD = (
    "The last generation is asked the same questions at the same moment, with the same settings. "
    "After a change of the embedding model the two cannot be compared, and only the floor holds. "
    "The first generation of a project has nothing to be compared with."
)
CLAIMS = (
    (SECRETS, "A file with a possible secret is still ingested when the mode is `warn`.", True),
    (SECRETS, "You are told the kind, the path and the line.", True),
    (SECRETS, "RAGstream never logs the secret itself.", True),
    (SECRETS, "The warning tells where the suspected secret is.", True),
    (SECRETS, "The secret is printed together with the warning.", False),
    (SECRETS, "Under `discovery.secrets: warn` files that hold a secret are skipped.", False),
    (SECRETS, "The warning is sent to the administrator by mail.", False),
    (SECRETS, "You get a kind, a path, a line and the first four letters.", False),
    (SENSOR, "Dagster's sensor asks for an ingest once a document folder has changed.", True),
    (SENSOR, "Every 30 seconds the folder sensor takes a look.", True),
    (SENSOR, "Each project that changed gets a run of its own.", True),
    (SENSOR, "If you see no ticks, the daemon is not running.", True),
    (SENSOR, "The folder sensor looks every 60 seconds.", False),
    (SENSOR, "One run covers all changed projects.", False),
    (SENSOR, "The sensor watches the document folders and deletes old files.", False),
    (SENSOR, "No ticks at all mean that nothing has changed.", False),
    (CARE, "Checking the structure of all indexes takes only seconds.", True),
    (CARE, "With `--read-data 3/7`, one of seven parts is read.", True),
    (CARE, "Derived files that do not match the catalog are rebuilt at once.", True),
    (CARE, "If something is wrong, the command exits with code 3.", True),
    (CARE, "The exit code is 3 when everything is fine.", False),
    (CARE, "Seven nightly runs see every byte once a month.", False),
    (CARE, "Derived files that differ from the catalog are deleted.", False),
    (CARE, "`ragstream index check` reads every vector of every generation.", False),
    (NONCE, "The nonce consists of the first 12 digits of a sha256.", True),
    (NONCE, "When the digits already occur in a text, four more are added.", True),
    (NONCE, "Authors cannot put the nonce into a document beforehand.", True),
    (NONCE, "Both the untrusted blocks and your own words enter the hash.", True),
    (NONCE, "The nonce is drawn at random for each prompt.", False),
    (NONCE, "The nonce is the first 16 digits of a sha256 over all untrusted blocks.", False),
    (NONCE, "An author can write the nonce into a document in advance.", False),
    (NONCE, "The nonce covers the untrusted blocks only.", False),
    (GOLD, "Both generations are asked the same questions with the same settings.", True),
    (GOLD, "After changing the embedding model, only the floor counts.", True),
    (GOLD, "There is nothing to compare a project's first generation with.", True),
    (GOLD, "The questions are put to the last generation at the same moment.", True),
    (GOLD, "After a change of the embedding model the two can still be compared.", False),
    (GOLD, "The first generation is compared with an empty one.", False),
    (GOLD, "The last generation is asked other questions with the same settings.", False),
    (GOLD, "The floor holds for English documents only.", False),
)  # fmt: skip
