"""Runs of many machines: executors on Ray, shards of a run, results in Parquet parts, and what each node did."""

from __future__ import annotations

from pytest_crucible.features.row import Feature, Option

FEATURE = Feature(
    "scale",
    options=(
        Option(
            "executor",
            "send samples from the workers of a cluster: ray (starts a local one), ray://HOST:PORT or auto",
            key="string",
            metavar="WHERE",
        ),
        Option(
            "shard", "run one part of the samples, for example 3/8; `crucible merge` joins the parts", metavar="K/N"
        ),
        Option(
            "results",
            "directory or s3:// address for replies and scores, in Parquet parts beside the run store",
            key="string",
            command_line=False,
        ),
    ),
    check_options="pytest_crucible.features.scale.executor_options:check_options",
    tables={
        "store_tables": "pytest_crucible.features.scale.tables:TABLES",
        "adapter_kinds": "pytest_crucible.features.scale.vllm_kind:KINDS",
    },
)
