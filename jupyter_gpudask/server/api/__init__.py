"""What browsers ask the Jupyter server: REST, the WebSocket, and the proxy of dashboards."""
