"""A ``%%gpudask`` cell: its rewriting, its context, and what is shown under it."""
