"""Which files are source: names and first bytes decide. Pure.

Knows secrets, data and source by name. Must not know where a file came from, git or the disk. Secrets are refused
whatever else is said; `docs/formats/versions.md` lists these sets for people.
"""

from __future__ import annotations

import re

_SECRET_NAMES = frozenset(
    {
        *("netrc", ".netrc", "_netrc", ".pgpass", "pgpass.conf", ".my.cnf", ".mylogin.cnf", ".pypirc", ".npmrc", ".yarnrc", ".htpasswd"),
        *(".git-credentials", ".dockercfg", ".dockerconfigjson", ".boto", ".s3cfg", ".rclone.conf", "rclone.conf", "kubeconfig"),
        *("kaggle.json", "token", "token.txt", "token.json", "tokens.txt", "tokens.json", "api_token", "api_token.txt", "access_token"),
        *("password", "password.txt", "passwords.txt", "passwords.json", "passwd", "secret", "secret.txt", "secret.json", "secret.yaml"),
        *("secret.yml", "secret.toml", "secret.py", "secring.gpg", "terraform.tfvars", "vault_pass.txt", "vault_pass"),
    }
)
_SECRET_STARTS = (
    *(".env", "id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "credentials", ".credentials", "secrets", ".secret", "client_secret"),
    *("service_account", "service-account", "hf_token", ".huggingface", "api_key", "apikey", "api-key", ".token", ".vault"),
)
_SECRET_ENDS = (
    *(".env", ".pem", ".key", ".p12", ".pfx", ".p8", ".jks", ".keystore", ".kdbx", ".ppk", ".gpg", ".pgp", ".keytab", ".ovpn"),
    *(".token", ".secret", ".secrets", ".apikey", ".tfvars", ".tfstate", ".tfstate.backup", "_token", "_token.txt", "_credentials.json"),
)
_SECRET_WORDS = (
    *("api_key", "apikey", "api-key", "password", "passwd", "private_key", "private-key", "access_key", "secret_key"),
    *("-key.json", "_key.json"),
)
"""Anywhere in the name of a file that is no Python source."""
_SECRET_FOLDERS = frozenset(
    {
        *(".aws", ".ssh", ".gnupg", ".gpg", ".azure", ".gcloud", ".kube", ".docker", ".password-store"),
        *("secrets", ".secrets", "credentials", ".credentials", ".env", ".envs"),
    }
)

_DATA_ENDS = (
    *(".csv", ".tsv", ".parquet", ".feather", ".arrow", ".orc", ".avro", ".jsonl", ".ndjson", ".xls", ".xlsx", ".ods", ".sas7bdat", ".dta"),
    *(".npy", ".npz", ".mat", ".h5", ".hdf5", ".hdf", ".nc", ".zarr", ".tfrecord", ".tfrecords", ".mdb", ".lmdb", ".rec", ".beton"),
    *(".pt", ".pth", ".ckpt", ".safetensors", ".bin", ".onnx", ".pb", ".tflite", ".keras", ".gguf", ".ggml", ".mlmodel", ".joblib"),
    *(".pkl", ".pickle", ".dill", ".model", ".weights", ".params", ".caffemodel", ".msgpack", ".rds", ".rdata"),
    *(".png", ".jpg", ".jpeg", ".gif", ".bmp", ".tif", ".tiff", ".webp", ".ico", ".svg", ".heic", ".psd", ".pdf", ".ps", ".eps"),
    *(".wav", ".mp3", ".flac", ".ogg", ".m4a", ".aac", ".mp4", ".avi", ".mov", ".mkv", ".webm", ".dcm", ".nii"),
    *(".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".lz4", ".7z", ".rar", ".whl", ".egg", ".jar"),
    *(".sqlite", ".sqlite3", ".db", ".duckdb", ".db-wal", ".db-shm", ".wal", ".log", ".out", ".err", ".tmp", ".swp"),
    *(".so", ".dylib", ".dll", ".a", ".o", ".obj", ".exe", ".pyc", ".pyo", ".class", ".pyd"),
)

_SOURCE_ENDS = (
    *(".py", ".pyi", ".pyx", ".pxd", ".pxi", ".pyw", ".ipynb", ".toml", ".cfg", ".ini", ".conf", ".yaml", ".yml", ".json", ".json5"),
    *(".md", ".rst", ".sh", ".bash", ".zsh", ".fish", ".ps1", ".bat", ".slurm", ".sbatch", ".sql", ".gin", ".jsonnet", ".hocon"),
    *(".c", ".cc", ".cpp", ".cxx", ".cu", ".cuh", ".h", ".hh", ".hpp", ".hxx", ".m", ".mm", ".metal", ".cl", ".f", ".f90", ".s", ".asm"),
    *(".rs", ".go", ".jl", ".r", ".rmd", ".lua", ".java", ".kt", ".scala", ".swift", ".js", ".mjs", ".ts", ".tsx", ".jsx", ".css"),
    *(".proto", ".thrift", ".fbs", ".jinja", ".jinja2", ".j2", ".tmpl", ".mako", ".cmake", ".mk", ".bzl", ".nix", ".tf", ".qmd"),
)
_SOURCE_NAMES = frozenset(
    {
        *("makefile", "gnumakefile", "dockerfile", "containerfile", "cmakelists.txt", "justfile", "snakefile", "pipfile", "procfile"),
        *("build", "workspace", "build.bazel", "manifest.in", "vagrantfile", ".gitignore", ".gitattributes", ".dockerignore"),
        *("pdm.lock", "poetry.lock", "uv.lock", "pipfile.lock", "pixi.lock", "cargo.lock", ".python-version", ".tool-versions", "go.mod"),
    }
)
_SOURCE_STARTS = ("requirements", "constraints", "dockerfile.", "makefile.")

SKIPPED_FOLDERS = frozenset(
    {
        *(".rearview", ".git", ".hg", ".svn", "node_modules", "__pycache__", "site-packages", "dist-packages", "__pypackages__"),
        *("venv", ".venv", "virtualenv", ".tox", ".nox", ".eggs", ".mypy_cache", ".ruff_cache", ".pytest_cache", ".hypothesis"),
        *(".ipynb_checkpoints", ".cache", ".idea", ".vscode", "wandb", "mlruns", "lightning_logs", "multirun", ".dvc", ".conda"),
    }
)
"""Folders with nothing new of the user's own: libraries, caches, and what other tools write at each run."""

ENVIRONMENT_MARKS = ("pyvenv.cfg", "conda-meta")
"""A folder with one of these in it is a virtual environment."""

_SNIFFED_BYTES = 8192
_PRIVATE_KEY = re.compile(rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY-----(?:\\[nr]|\s)+[A-Za-z0-9+/=]")
"""The mark with something behind it, in a text or in a JSON string. The mark alone is what programs look for."""


def secret(path: str) -> bool:
    """Whether a path may hold a secret: never taken, not even when it is asked for."""
    *folders, name = path.lower().split("/")
    return (
        name in _SECRET_NAMES
        or name.startswith(_SECRET_STARTS)
        or name.endswith(_SECRET_ENDS)
        or (not name.endswith(".py") and any(word in name for word in _SECRET_WORDS))
        or any(folder in _SECRET_FOLDERS for folder in folders)
    )


def secret_content(data: bytes) -> bool:
    """Whether a file is a private key under some harmless name."""
    return data.startswith(b"PuTTY-User-Key-File") or _PRIVATE_KEY.search(data) is not None


def data(path: str) -> bool:
    """Whether a path is data, a model, a picture, an archive, a log or compiled code."""
    return path.lower().endswith(_DATA_ENDS)


def source_like(path: str) -> bool:
    """Whether a file that nobody tracks is source by its name."""
    name = path.rpartition("/")[2].lower()
    return name.endswith(_SOURCE_ENDS) or name in _SOURCE_NAMES or (name.startswith(_SOURCE_STARTS) and not data(name))


def skipped_folder(name: str) -> bool:
    """Whether new files are not looked for in a folder of this name."""
    return name in SKIPPED_FOLDERS or name.startswith(".") or name.endswith(".egg-info")


def new_source(path: str) -> bool:
    """Whether a file that nobody tracks is source by its name and its folders."""
    return source_like(path) and not ("/" in path and any(skipped_folder(folder) for folder in path.split("/")[:-1]))


def binary(data: bytes) -> bool:
    """Git's own rule: a NUL among the first bytes."""
    return b"\0" in data[:_SNIFFED_BYTES]
