"""The handlers of HTTP requests: REST interface, WebSocket stream, and proxy of Dask's dashboards."""
