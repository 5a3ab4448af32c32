"""A lean HTTP/1.1 client for evals: many small POST requests to one server, on connections that are kept open."""
