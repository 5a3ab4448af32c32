"""What serves a dashboard: the socket, who may connect, and the answers to requests that fail."""
