"""A Tinker service on this machine: the unmodified `tinker` SDK trains and samples the local model through it.

    crucible tinker server

From the outside in: `command` (the process), `transport` (HTTP/1.1 on the loopback interface), `application` (key, routes, errors),
one file of endpoints for each subject (`sessions`, `training`, `saving`, `sampling`, `listing`, `openai`), `state` (sessions
and what they own), `futures` (results that are fetched later), `worker` (the one thread in which the model computes), `replies`
(sample requests), `archive` (checkpoints on disk). The wire formats: `messages` and `request_fields` for JSON, `protobuf`,
`tensors` and `tinker_messages` for the rest. `process` starts it all as a child process.
"""
