"""Reading other programs' conversations: exports of chats and session logs of coding agents."""
