"""A Tinker service on this machine: the unmodified `tinker` SDK trains and samples the local model through it.

    crucible tinker server

From the outside in: `process` (the process, also as a child of another), `transport` (HTTP/1.1 on the loopback
interface), `application` (key, routes, errors), files of endpoints (`application` too, `training`, `sampling`, `openai`), `state`
(sessions and what they own), `futures` (results that are fetched later, and the one thread in which the model computes), `models`
(what is sampled), `archive` (checkpoints on disk). The wire formats: `openai_formats` for JSON, `protobuf` for the rest.
"""
