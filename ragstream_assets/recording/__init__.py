"""How finished prompts and answers become Dagster runs, behind whoever waits for them."""
