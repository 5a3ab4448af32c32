"""A Tinker service on this machine: the unmodified `tinker` SDK trains and samples the embedded model through it.

    crucible tinker-server

From the outside in: `command` (the process), `transport` (HTTP/1.1 on the loopback interface), `application` (key, routes, errors),
one file of endpoints for each subject (`sessions`, `training`, `saving`, `sampling`, `listing`, `openai`), `state` (who has
what), `futures` (answers that are fetched later), `work` (the one thread in which the model computes), `replies` (what it computes
for sample requests), `archive` (checkpoints on disk). On the wire: `messages` and `fields` for JSON, `protobuf`, `tensors` and
`tinker_messages` for the rest. `process` starts all that as a child process.
"""
