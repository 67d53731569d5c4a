"""Files of tensors: read back by the libraries they are for, bit for bit, or refused by name."""

from __future__ import annotations

import io
from typing import Any

import pytest

from rearview.cli.shown import tensors
from rearview.errors import UsageError

np = pytest.importorskip("numpy")


def written(suffix: str, value: object, name: str = "net") -> io.BytesIO:
    file = io.BytesIO()
    tensors.FORMATS[suffix](name, value, file)
    file.seek(0)
    return file


def test_arrays_leave_as_safetensors_and_come_back() -> None:
    library = pytest.importorskip("safetensors.numpy")
    arrays = {
        "a": np.arange(6, dtype=np.float32).reshape(2, 3), "b": np.array(True), "big": np.array([1, 2], dtype=">i4"),
        "none": np.zeros((0, 2)),
        "turned": np.arange(6, dtype=np.int16).reshape(2, 3).T, "c": np.array([1 + 2j], np.complex64), "ü": np.array([255], np.uint8),
    }  # fmt: skip
    loaded = library.load(written(".safetensors", arrays).getvalue())
    assert loaded.keys() == arrays.keys()
    for name, array in arrays.items():
        assert loaded[name].shape == array.shape
        assert np.array_equal(loaded[name], array)
    assert loaded["big"].dtype == np.int32


def test_what_safetensors_has_no_type_for_is_named() -> None:
    with pytest.raises(UsageError, match=r"x is of complex128.*\.pt"):
        written(".safetensors", {"x": np.zeros(1, np.complex128)})
    with pytest.raises(UsageError, match=r"opt does not consist of tensors alone: param_groups.0.lr \(float\).*\.pt"):
        written(".safetensors", {"param_groups": [{"lr": 0.1}]}, "opt")
    with pytest.raises(UsageError, match="no tensor"):
        written(".safetensors", {})
    with pytest.raises(UsageError, match="__metadata__"):
        written(".safetensors", {"__metadata__": np.zeros(1)})


def test_npz_holds_arrays_and_numbers_under_their_names() -> None:
    state = {"file": np.arange(3), "allow_pickle": 1.5, "deep": {"er": [np.float32(2), "text"]}}
    loaded = np.load(written(".npz", state), allow_pickle=False)
    assert sorted(loaded) == ["allow_pickle", "deep.er.0", "deep.er.1", "file"]
    assert loaded["deep.er.0"].dtype == np.float32
    assert loaded["file"].tolist() == [0, 1, 2]
    assert np.load(written(".npz", np.arange(2), "w"), allow_pickle=False)["w"].tolist() == [0, 1]


def test_npz_keeps_the_zeros_at_the_end_of_bytes() -> None:
    """NumPy's own type for bytes, and that for text, drops them."""
    state = {"key": b"abc\0\0", "none": b"", "scalar": np.bytes_(b"a\0")}
    loaded = np.load(written(".npz", state), allow_pickle=False)
    assert {name: (loaded[name].dtype, loaded[name].tobytes()) for name in loaded} == {
        name: (np.dtype(np.uint8), bytes(value)) for name, value in state.items()
    }
    with pytest.raises(UsageError, match=r"x is text that ends with a zero character.*write a \.pt file instead"):
        written(".npz", {"x": "abc\0"})


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_no_format_is_named_that_refuses_it_as_well(suffix: str) -> None:
    with pytest.raises(UsageError, match="x is an array of object.*: export a part of it") as refused:
        written(suffix, {"x": np.array([object()])})
    assert not any(word in str(refused.value) for word in (".npz", ".pt", ".safetensors"))
    if suffix == ".npz":
        with pytest.raises(UsageError, match=r"x is of type NoneType.*\.pt"):
            written(".npz", {"x": None})
        with pytest.raises(UsageError, match="x is of type object.*: export a part of it$"):
            written(".npz", {"x": object()})
    else:
        with pytest.raises(UsageError, match=r"x is of str\d+.*write a \.npz file"):
            written(".safetensors", {"x": np.array(["a"])})


def test_names_that_would_fall_together_are_refused() -> None:
    with pytest.raises(UsageError, match=r"'a\.b'"):
        written(".npz", {"a.b": np.zeros(1), "a": {"b": np.zeros(1)}})


@pytest.mark.torch
class TestTorch:
    def test_every_type_comes_back_from_safetensors(self) -> None:
        import torch

        library = pytest.importorskip("safetensors.torch")
        state: dict[str, Any] = {}
        for dtype in library._TYPES.values():
            data = torch.arange(16, dtype=torch.uint8).reshape(2, 8)
            state[str(dtype)] = (data % 2).bool() if dtype is torch.bool else data.view(dtype)
        state |= {"part": torch.arange(12.0)[3:9:2], "scalar": torch.tensor(2.5), "none": torch.zeros(0, 4)}
        state["conj"] = torch.tensor([1 + 2j]).conj()

        def bits(tensor: Any) -> list[int]:
            return tensor.contiguous().resolve_conj().flatten().view(torch.uint8).tolist()

        loaded = library.load(written(".safetensors", state).getvalue())
        assert loaded.keys() == state.keys()
        for name, tensor in state.items():
            assert loaded[name].dtype == tensor.dtype
            assert loaded[name].shape == tensor.shape
            assert bits(loaded[name]) == bits(tensor)

    def test_tied_weights_are_written_under_both_names(self) -> None:
        import torch

        library = pytest.importorskip("safetensors.torch")
        weight = torch.arange(4.0)
        state = {"embed.weight": weight, "head.weight": weight, "part": weight[:2], "other": weight.clone()}
        assert tensors.shared("net", state) == [["embed.weight", "head.weight"]]
        loaded = library.load(written(".safetensors", state).getvalue())
        assert torch.equal(loaded["head.weight"], weight)

    def test_pt_loads_without_unpickling(self) -> None:
        import torch

        weight = torch.arange(4, dtype=torch.bfloat16)
        groups = [{"lr": 0.1, "betas": (0.9, 0.999), "params": [0]}]
        state: dict[str, Any] = {"state": {0: {"exp_avg": weight, "step": torch.tensor(3.0)}}, "param_groups": groups}
        state |= {"array": np.arange(3), "scalar": np.float32(1.5), "tied": weight}
        loaded = torch.load(written(".pt", state, "opt"), weights_only=True)
        assert loaded["param_groups"] == state["param_groups"]
        assert torch.equal(loaded["state"][0]["exp_avg"], weight)
        assert loaded["array"].tolist() == [0, 1, 2]
        assert loaded["scalar"].item() == 1.5
        assert loaded["tied"].data_ptr() == loaded["state"][0]["exp_avg"].data_ptr()
        for odd in (object(), {"x": print}, {"x": np.array(["a"])}, {object(): 1}):
            with pytest.raises(UsageError, match="opt"):
                written(".pt", odd, "opt")
        with pytest.raises(UsageError, match=r"opt.x is an array of <U1.*write a \.npz file"):
            written(".pt", {"x": np.array(["a"])}, "opt")
        with pytest.raises(UsageError, match="opt.x is an array of object.*: export a part of it$"):
            written(".pt", {"x": np.array([object()])}, "opt")

    def test_numpy_has_no_bfloat16(self) -> None:
        import torch

        with pytest.raises(UsageError, match=r"x is a tensor of bfloat16.*safetensors or \.pt"):
            written(".npz", {"x": torch.zeros(1, dtype=torch.bfloat16)})

    def test_sparse_goes_to_pt_only(self) -> None:
        import torch

        sparse = torch.eye(3).to_sparse()
        for suffix in (".safetensors", ".npz"):
            with pytest.raises(UsageError, match=r"^x is a tensor that is not dense, which \w+ has no type for: write a \.pt file"):
                written(suffix, {"x": sparse})
        loaded = torch.load(written(".pt", {"x": sparse}), weights_only=True)
        assert torch.equal(loaded["x"].to_dense(), torch.eye(3))
