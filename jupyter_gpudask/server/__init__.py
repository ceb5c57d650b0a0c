"""The Jupyter server's side: one cluster for each kernel that asks for one, followed from its start to its end."""
