"""What the magics show: objects with a text for terminals and HTML for notebooks."""
