"""What a ``%%gpudask`` cell does before, while and after its body runs."""
