"""Where the data of a collection lives, who called, and which library an error came from. Runs in the kernel."""
