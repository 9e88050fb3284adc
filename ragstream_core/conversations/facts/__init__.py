"""Facts worth remembering in what a person said."""
