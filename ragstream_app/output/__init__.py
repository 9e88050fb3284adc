"""What people see on a terminal, and text that the page shares with it."""
