"""The output of the magics: objects with text for terminals and HTML for notebooks."""
