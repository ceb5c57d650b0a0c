"""Jobs of batch systems and pods of Kubernetes that run workers: their states, logs and ends."""
