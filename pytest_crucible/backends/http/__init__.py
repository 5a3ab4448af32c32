"""HTTP/1.1 as an eval needs it: many small POST requests to one server, on connections that are kept open."""
