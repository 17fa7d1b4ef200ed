"""OpenAI's /v1/embeddings, with its own client."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import openai
import pytest
from serve.conftest import Running, running
from train.task_data import QUICK, make_rows

import headway


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, lm_dir: Path) -> Iterator[Running]:
    out = tmp_path_factory.mktemp("embedder") / "embedder"
    headway.train(make_rows("embed", 60), out=out, task="embed", steps=4, **QUICK)
    with running(out, lm_dir) as made:
        yield made


@pytest.fixture(scope="module")
def client(server: Running) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as made:
        yield made


def test_vectors_are_those_of_the_model(client: openai.OpenAI, server: Running) -> None:
    texts = ["7 a red house", "a dog"]
    answer = client.embeddings.create(model="embedder", input=texts)  # in base64
    plain = client.embeddings.create(model="embedder", input=texts, encoding_format="float")
    assert [one.embedding for one in answer.data] == [one.embedding for one in plain.data]
    assert [one.index for one in answer.data] == [0, 1] and answer.model == "embedder"
    encoder = server.state.pool.models[0].loaded
    np.testing.assert_allclose([one.embedding for one in answer.data], encoder.embed(texts), atol=1e-6)
    assert answer.usage.prompt_tokens == len("7 a red house") + len("a dog")
    assert client.embeddings.create(model="embedder", input="one").data[0].index == 0
    assert client.models.retrieve("embedder").id == "embedder"


def test_errors(client: openai.OpenAI, lm_dir: Path) -> None:
    for model in ("none", lm_dir.name):
        with pytest.raises(openai.NotFoundError, match="does not exist"):
            client.embeddings.create(model=model, input="x")
    for empty in ("", [], ["x", ""]):
        with pytest.raises(openai.BadRequestError, match="input must be a text"):
            client.embeddings.create(model="embedder", input=empty)
    with pytest.raises(openai.BadRequestError):
        client.embeddings.create(model="embedder", input="x", dimensions=4)
