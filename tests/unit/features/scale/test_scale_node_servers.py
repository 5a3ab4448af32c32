"""A server on each node: one identity, and one checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_crucible.backends.openai.settings import read_settings
from pytest_crucible.features.scale.node_servers import compare_node_servers, read_node_servers
from pytest_crucible.records import Adapter
from pytest_crucible.records.errors import SpecError

ROOT = Path()


def adapter(url: str = "http://{node}:8000/v1", model: str = "claims-v2") -> Adapter:
    return Adapter(name="v2", backend="openai", options={"base_url": url, "model": model})


def test_the_address_and_the_limits_are_those_of_the_node_and_the_identity_is_the_same():
    first, second = (read_settings(adapter(), ROOT, {}, node) for node in ("10.0.0.1", "10.0.0.2"))

    assert (first.address.host, second.address.host) == ("10.0.0.1", "10.0.0.2")
    assert first.server != second.server
    assert first.identity == second.identity == "http://{node}:8000/v1#claims-v2"


def test_an_ipv6_address_is_put_in_brackets():
    assert read_settings(adapter(), ROOT, {}, "fd00::7").address.host.strip("[]") == "fd00::7"


def test_a_query_with_a_secret_stays_out_of_the_identity():
    settings = read_settings(
        adapter("http://{node}:8000/v1?tenant=$TENANT_KEY"), ROOT, {"TENANT_KEY": "k1"}, "10.0.0.1"
    )

    assert settings.identity == "http://{node}:8000/v1?tenant=$TENANT_KEY#claims-v2"


def test_without_a_cluster_the_sentence_says_what_to_do():
    with pytest.raises(SpecError) as error:
        read_settings(adapter(), ROOT, {})
    assert str(error.value) == (
        "adapter 'v2' has base_url = 'http://{node}:8000/v1', and this process is on no node of a cluster: "
        "run it with --crucible-executor=ray, or write the address of one server"
    )


def test_a_server_of_one_address_is_no_server_of_nodes():
    assert read_node_servers([adapter("http://10.0.0.9:8000/v1")], ROOT, "10.0.0.1") == {}


def serving(model: str = "claims-v2", **facts: object) -> dict[str, tuple[str, dict[str, dict[str, object]]]]:
    return {"v2": ("claims-v2", {model: facts})}


def test_nodes_that_serve_one_checkpoint_are_accepted():
    assert not compare_node_servers({"gpu-1": serving(root="/m/a"), "gpu-2": serving(root="/m/a")})


def test_another_checkpoint_is_refused_and_both_are_named():
    nodes = {"gpu-1": serving(root="77cd"), "gpu-2": serving(root="77cd"), "gpu-3": serving(root="9ab0")}

    assert compare_node_servers(nodes) == [
        "gpu-3 serves 'claims-v2' from checkpoint 9ab0, gpu-1 from 77cd: load the same checkpoint on each node"
    ]


def test_servers_that_name_no_checkpoint_are_compared_by_all_that_they_report():
    [sentence] = compare_node_servers({"gpu-1": serving(meta={"size": 1}), "gpu-2": serving(meta={"size": 2})})

    assert sentence.startswith("gpu-2 serves 'claims-v2' from checkpoint ")


def test_a_server_without_the_model_is_refused():
    assert compare_node_servers({"gpu-1": serving("base")}) == ["gpu-1 serves 'base', not 'claims-v2': load it there"]


def test_a_server_that_lists_nothing_is_not_compared():
    nodes = {"gpu-1": {"v2": ("claims-v2", {})}, "gpu-2": serving(root="77cd")}

    assert not compare_node_servers(nodes)
