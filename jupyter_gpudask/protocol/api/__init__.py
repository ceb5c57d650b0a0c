"""Data between the Jupyter server and browsers: the bodies of the REST API, and the WebSocket's messages."""
