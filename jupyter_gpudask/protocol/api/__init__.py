"""What the Jupyter server and browsers send to each other: the bodies of the REST API, and the WebSocket's messages."""
