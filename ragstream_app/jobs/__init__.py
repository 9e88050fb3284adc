"""What the page does in threads of its own; none of it knows Streamlit."""
