"""What was said and is kept: the tab *Conversation*, and its choice in the sidebar."""
