"""The wire format, held against the real Protocol Buffers classes where `tinker` is installed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_crucible.local_model.engine import Scored
from pytest_crucible.local_model.sampling import Sampled
from pytest_crucible.local_model.server import protobuf
from pytest_crucible.local_model.server.models import Answer, Scoring
from pytest_crucible.local_model.server.protobuf import (
    read_forward_backward,
    write_forward_backward,
    write_sample_response,
)

OUTPUT = (
    "0a0b41727261795265636f726412470a0b41727261795265636f726412360a086c6f6770726f6273122a0a0c000080bf000000c0000000bf12180000"
    "00000000000008000000000000000c00000000000000180118021a130a086c6f73733a73756d110000000000000c40"
)
"""Two datums of lengths 2 and 1, and a loss of 3.5, as the official library writes them."""
SAMPLE = "0a160801120807000000090000001a08000000bf000080be12080000c07f0000c0bf"


@pytest.fixture(scope="module")
def official():
    return pytest.importorskip("tinker.proto.tinker_public_pb2")


@given(st.lists(st.integers(-(2**63), 2**63 - 1)), st.integers(-(2**31), 2**31 - 1))
def test_integers_come_back_alone_packed_and_of_32_bits(values, narrow):
    packed = protobuf.read_fields(protobuf.packed_integers(2, values))
    single = protobuf.read_fields(b"".join(b"\x10" + protobuf.varint(value) for value in values))

    assert protobuf.all_ints(packed, 2) == protobuf.all_ints(single, 2) == values
    assert protobuf.last_int(single, 2) == (values[-1] if values else 0)
    assert protobuf.last_int(protobuf.read_fields(protobuf.integer(1, narrow)), 1, bits=32) == narrow


@given(st.text(), st.floats(allow_nan=False))
def test_texts_and_doubles_come_back(text, value):
    fields = protobuf.read_fields(protobuf.text(1, text) + protobuf.double(2, value))

    assert (protobuf.last_text(fields, 1), protobuf.last_double(fields, 2)) == (text, value)


def test_absent_fields_have_the_default_of_their_kind():
    assert (protobuf.last_int({}, 1), protobuf.last_text({}, 1), protobuf.last_double({}, 1)) == (0, "", 0.0)
    assert (protobuf.all_ints({}, 1), protobuf.all_bytes({}, 1)) == ([], [])


@pytest.mark.parametrize(
    "message",
    [b"\x08", b"\x0a\x05ab", b"\x09\x00", b"\x00\x01", b"\x0b", b"\xff" * 11, b"\x0a" + b"\xff" * 9 + b"\x01"],
    ids=["no value", "cut bytes", "cut double", "number 0", "a group", "endless number", "enormous length"],
)
def test_invalid_messages_are_refused(message):
    with pytest.raises(ValueError, match=r"field|number|wire type"):
        protobuf.read_fields(message)


@given(st.binary(max_size=200))
def test_garbage_is_read_or_refused(message):
    try:
        request = read_forward_backward(message)
    except ValueError:
        return

    assert isinstance(request.data, list)


@given(st.data())
def test_a_damaged_request_is_read_or_refused(data):
    whole = bytearray(_request())
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        request = read_forward_backward(bytes(whole[: data.draw(st.integers(0, len(whole)))]))
    except ValueError:
        return

    assert all(isinstance(tokens, list) for tokens, _ in request.data)


def test_a_forward_backward_output_is_what_the_official_library_writes():
    outputs = [{"logprobs": np.array([-1.0, -2.0], np.float32)}, {"logprobs": np.array([-0.5], np.float32)}]

    assert write_forward_backward(outputs, {"loss:sum": 3.5}).hex() == OUTPUT


def test_a_sample_response_is_what_the_official_library_writes():
    answer = Answer([Sampled([7, 9], [-0.5, -0.25], "length", "")], Scored(np.array([np.nan, -1.5])))

    assert write_sample_response(answer, Scoring()).hex() == SAMPLE


def test_an_image_is_refused_in_a_sentence():
    image = protobuf.data(3, protobuf.data(1, protobuf.data(2, protobuf.text(2, "png"))))

    with pytest.raises(ValueError, match="this model reads only text"):
        read_forward_backward(image)


def test_an_official_request_is_read(official):
    message = official.ForwardBackwardRequest(model_id="S:train:0", seq_id=7, loss_fn="ppo", forward_only=True)
    message.loss_fn_config["clip_low_threshold"] = 0.8
    if hasattr(message, "loss_fn_config_v2"):
        message.loss_fn_config_v2["clip_low_threshold"].number = 0.8
    datum = message.data.add()
    datum.model_input.add().encoded_text.tokens = np.array([5, 6], "<i4").tobytes()
    datum.model_input.add().encoded_text.tokens = np.array([7], "<i4").tobytes()
    weights = datum.loss_fn_inputs["weights"]
    weights.dense, weights.dtype = np.array([0.0, 1.0, 0.5], "<f4").tobytes(), official.DTYPE_FLOAT32
    weights.shape.extend([3])
    sparse = datum.loss_fn_inputs["target_tokens"]
    sparse.dtype = official.DTYPE_INT64
    sparse.shape.extend([3, 2])
    sparse.sparse_csr.values = np.array([4, 9], "<i8").tobytes()
    sparse.sparse_csr.crow_indices = np.array([0, 1, 1, 2], "<i8").tobytes()
    sparse.sparse_csr.col_indices = np.array([1, 0], "<i8").tobytes()

    request = read_forward_backward(message.SerializeToString())
    (tokens, inputs) = request.data[0]

    assert (request.model_id, request.seq_id, request.loss, request.forward_only) == ("S:train:0", 7, "ppo", True)
    assert request.loss_config == {"clip_low_threshold": 0.8}
    assert tokens == [5, 6, 7]
    assert inputs["weights"].tolist() == [0.0, 1.0, 0.5]
    assert inputs["target_tokens"].tolist() == [[0, 4], [0, 0], [9, 0]]


def test_an_official_library_reads_a_whole_sample_response(official):
    if not hasattr(official, "PromptAltTokens"):
        pytest.skip("this version of tinker does not know alternatives")
    top = np.array([[3, 4], [7, 7]]), np.array([[-0.5, -1.0], [np.nan, np.nan]])
    drawn = np.array([[1, 2]]), np.array([[-1.0, -2.0]], np.float32)
    scored = Scored(np.array([np.nan, -1.0]), *top, of_targets=drawn[1])

    message = official.SampleResponse.FromString(
        write_sample_response(Answer([Sampled([3], [-0.5], "stop", "", *top)], scored, drawn), Scoring())
    )
    sequence = message.sequences[0]

    assert sequence.stop_reason == official.STOP_REASON_STOP
    assert np.frombuffer(sequence.topk_sampled_logprobs.token_ids, "<i4").tolist() == [3, 4, 0, 0]
    assert np.frombuffer(message.topk_prompt_logprobs.logprobs, "<f4").tolist() == [-0.5, -1.0, -99999.0, -99999.0]
    assert message.prompt_alt_tokens.tokens.shape == [1, 2]
    assert np.frombuffer(message.target_prompt_logprobs.dense, "<f4").tolist() == [-1.0, -2.0]


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.floats(-1e6, 1e6))
def test_the_official_library_reads_every_output(lengths, loss):
    official = pytest.importorskip("tinker.proto.tinker_public_pb2")
    outputs = [{"logprobs": np.arange(length, dtype=np.float32)} for length in lengths]

    message = official.ForwardBackwardOutput.FromString(write_forward_backward(outputs, {"loss:sum": loss}))
    record = message.loss_fn_outputs[0]

    assert (record.num_datums, message.metrics["loss:sum"]) == (len(lengths), loss)
    assert np.frombuffer(record.fields["logprobs"].offsets, "<i8").tolist() == [
        4 * end for end in np.cumsum([0, *lengths])
    ]


def _request() -> bytes:
    tokens = protobuf.data(1, protobuf.data(1, protobuf.data(1, np.arange(4, dtype="<i4").tobytes())))
    tensor = protobuf.data(2, protobuf.write_tensor(np.ones(4, np.float32)))
    datum = tokens + protobuf.data(2, protobuf.text(1, "weights") + tensor)
    return protobuf.text(1, "S:train:0") + protobuf.integer(2, 1) + protobuf.data(3, datum) + protobuf.text(4, "ppo")
