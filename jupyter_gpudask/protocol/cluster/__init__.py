"""A cluster: its options and its state."""
