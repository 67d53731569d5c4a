"""What is source, what is data, what is a secret."""

from __future__ import annotations

import pytest

from rearview.versions import rules

SECRETS = [
    *(".env", ".env.local", ".envrc", "prod.env", "id_rsa", "id_rsa.pub", "id_ed25519", "server.pem", "tls.key", "cert.p12", ".netrc"),
    *("credentials.json", "credentials", "secrets.yaml", "secrets.toml", "SECRETS.TOML", "release.keystore", "token.txt", "token"),
    *("kaggle.json", "hf_token.txt", ".pypirc", "client_secret_123.json", "a/b/.env", ".aws/config", "home/.ssh/config"),
    *("secrets/db.yaml", "conf/credentials/x.py", "service_account.json", "github_token", "terraform.tfvars"),
]
NOT_SECRETS = [
    "tokenizer.py",
    "token.py",
    "keys.py",
    "environment.py",
    "env.py",
    "key.py",
    "secretary.py",
    "tokenizer.json",
    "environments/a.py",
]


@pytest.mark.parametrize("path", SECRETS)
def test_secrets(path: str) -> None:
    assert rules.secret(path)


@pytest.mark.parametrize("path", NOT_SECRETS)
def test_not_secrets(path: str) -> None:
    assert not rules.secret(path)


def test_a_private_key_under_a_harmless_name() -> None:
    assert rules.secret_content(b"-----BEGIN OPENSSH PRIVATE KEY-----\nabc")
    assert rules.secret_content(b"-----BEGIN PRIVATE KEY-----\nabc")
    assert rules.secret_content(b'notes first\n{"private_key": "-----BEGIN RSA PRIVATE KEY-----\\nMIIE"}')
    assert not rules.secret_content(b"-----BEGIN CERTIFICATE-----\nabc")
    assert not rules.secret_content(b"MARK = '-----BEGIN PRIVATE KEY-----'\n")


@pytest.mark.parametrize(
    "path",
    ["a.csv", "a.parquet", "x.NPY", "m.pt", "m.safetensors", "m.h5", "d.pkl", "a.png", "a.wav", "a.zip", "a.tar.gz", "a.sqlite", "a.pyc"],
)
def test_data(path: str) -> None:
    assert rules.data(path)
    assert not rules.source_like(path)


@pytest.mark.parametrize(
    "path",
    ["a.py", "a/b.pyi", "n.ipynb", "pyproject.toml", "c.yaml", "c.yml", "c.json", "requirements.txt", "requirements-dev.txt", "README.md"]
    + ["run.sh", "q.sql", "k.cu", "k.cuh", "x.rs", "x.jl", "x.R", "t.j2", "Makefile", "Dockerfile", "Dockerfile.gpu", "sub/CMakeLists.txt"],
)
def test_source(path: str) -> None:
    assert rules.source_like(path)
    assert not rules.data(path)


@pytest.mark.parametrize("path", ["notes.txt", "a", "requirements.zip", "data.jsonl", "train.log"])
def test_neither(path: str) -> None:
    assert not rules.source_like(path)


@pytest.mark.parametrize("path", ["venv/lib/a.py", "node_modules/x/a.js", ".cache/a.py", "a/__pycache__/b.py", "wandb/run-1/config.yaml"])
def test_new_files_in_skipped_folders(path: str) -> None:
    assert rules.source_like(path)
    assert not rules.new_source(path)


def test_binary_is_a_nul_among_the_first_bytes() -> None:
    assert rules.binary(b"a\0b")
    assert not rules.binary(b"a" * 8192 + b"\0")


@pytest.mark.parametrize("path", ["gcp-key.json", "wandb_api_key.json", "password.yaml", ".huggingface.toml", "conf/my_password.txt"])
def test_more_names_of_secrets(path: str) -> None:
    assert rules.secret(path)


@pytest.mark.parametrize("path", ["password_reset.py", "keys.json", "monkey.json"])
def test_names_that_only_sound_like_it(path: str) -> None:
    assert not rules.secret(path)
