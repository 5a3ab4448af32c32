"""The server of a dashboard: its socket, who may connect, and the answers to requests that fail."""
