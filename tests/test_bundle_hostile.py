"""Bundles that somebody made up, checksums right: refused with a reason, and nothing runs or swells."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import struct
import tracemalloc
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from accelperf.bundle import MANIFEST, load_bundle, save_bundle
from accelperf.bundle.arrays import pack_arrays, unpack_arrays
from accelperf.bundle.document import parse, seal
from accelperf.errors import AccelperfError, InputError
from accelperf.features import FeatureMatrix
from accelperf.models.catalog import create

Maker = Callable[..., FeatureMatrix]
Change = Callable[[dict[str, Any]], object]

KINDS: dict[str, dict[str, Any]] = {
    "standard": {},
    "linear": {},
    "gtb": {},
    "xgboost": {"n_estimators": 2},
    "gp_analytic": {"mean": "tiled", "restarts": 0, "steps": 10},
    "gp_calibrated": {},
}


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory, features_of: Maker) -> dict[str, Path]:
    """Return a folder with a bundle of each kind."""
    features = features_of(12)
    folders = {}
    for key, hyperparameters in KINDS.items():
        folders[key] = tmp_path_factory.mktemp(key)
        save_bundle(
            create(key, hyperparameters).fit(features), folders[key], estimator=key,
            settings=hyperparameters, features=features, features_md5="0" * 32, metrics={},
        )  # fmt: skip
    return folders


def content_of(folder: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    (path,) = folder.glob("arrays-*.npz")
    manifest = parse((folder / MANIFEST).read_bytes(), folder / MANIFEST)
    return {k: v for k, v in manifest.items() if not k.startswith("sha256")}, unpack_arrays(
        path.read_bytes(), path
    )


def forge(folder: Path, manifest: Mapping[str, Any], arrays: bytes) -> Path:
    """Write a bundle with checksums that fit."""
    folder.mkdir(parents=True, exist_ok=True)
    digest = hashlib.sha256(arrays).hexdigest()
    (folder / MANIFEST).write_bytes(seal({**manifest, "arrays_sha256": digest}))
    (folder / f"arrays-{digest[:16]}.npz").write_bytes(arrays)
    return folder


def npz(members: Mapping[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", compression) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, compress_type=compression)
    return stream.getvalue()


def npy(header: str, content: bytes = b"", version: bytes = b"\x01\x00") -> bytes:
    text = header.encode("latin-1")
    return b"\x93NUMPY" + version + struct.pack("<H", len(text)) + text + content


def header(descr: str = "'<f8'", shape: str = "(15,)", order: str = "False") -> str:
    return f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}\n"


def refused(good: dict[str, Path], tmp_path: Path, arrays: bytes) -> str:
    """Return why a linear estimator with such arrays is refused."""
    manifest, _ = content_of(good["linear"])
    with pytest.raises(InputError) as error:
        load_bundle(forge(tmp_path / "forged", manifest, arrays))
    assert str(error.value).startswith(str(tmp_path / "forged"))
    return str(error.value)


def with_member(name: str, content: bytes) -> bytes:
    return npz({"mean.npy": npy(header(), bytes(120)), name: content})


@pytest.mark.parametrize(
    "name",
    ["../mean.npy", "/etc/mean.npy", "..\\mean.npy", "a/b.npy", "mean", "Mean.npy", ".npy", "mean.npy.npy",
     "mean\u0000.npy", "x" * 65 + ".npy", "ünder.npy", "-.npy", "C:mean.npy"],
)  # fmt: skip
def test_names_that_lead_elsewhere(good: dict[str, Path], tmp_path: Path, name: str) -> None:
    content = with_member(name, npy(header(), bytes(120)))
    if "\u0000" in name:  # Python's writer would cut the name
        content = with_member("mean_.npy", npy(header(), bytes(120))).replace(b"mean_.npy", b"mean\x00.npy")
    assert "members named after arrays" in refused(good, tmp_path, content)
    assert not list(tmp_path.parent.glob("mean*"))


class Fires:
    """Leaves a trace when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return (os.mkdir, (str(self.path),))


@pytest.mark.parametrize("descr", ["'|O'", "'O'", "[('a', '|O')]", "'<f8,O'"])
def test_pickled_objects(good: dict[str, Path], tmp_path: Path, descr: str) -> None:
    trace = tmp_path / "trace"
    content = with_member("scale.npy", npy(header(descr, "(1,)"), pickle.dumps(Fires(trace))))
    message = refused(good, tmp_path, content)
    assert "pickled objects" in message or "a structure" in message
    whole = refused(good, tmp_path, pickle.dumps(Fires(trace)))
    assert "expected NumPy arrays" in whole
    assert not trace.exists()


@pytest.mark.parametrize(
    ("shape", "descr", "reason"),
    [
        ("(1000000000000,)", "'<f8'", "8000000000000 bytes"),
        ("(99999, 99999, 99999)", "'<f8'", "bytes"),
        ("(" + "9" * 300 + ",)", "'<f8'", "bytes"),
        ("(3,)", "'<U999999'", "bytes"),
        ("(1000000000000,)", "'<U0'", "texts"),
        ("(0, " + "9" * 30 + ")", "'<f8'", "expected array scale: 0 bytes"),
        ("(-1,)", "'<f8'", "a shape"),
        ("(True,)", "'<f8'", "a shape"),
        ("(1, 1, 1, 1, 1)", "'<f8'", "a shape"),
        ("[15]", "'<f8'", "a shape"),
        ("(15.0,)", "'<f8'", "a shape"),
    ],
)
def test_arrays_that_claim_more_than_is_there(
    good: dict[str, Path], tmp_path: Path, shape: str, descr: str, reason: str
) -> None:
    content = with_member("scale.npy", npy(header(descr, shape), bytes(120)))
    tracemalloc.start()
    message = refused(good, tmp_path, content)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert reason in message
    assert peak < 2_000_000


def test_a_zip_bomb(good: dict[str, Path], tmp_path: Path) -> None:
    bomb = npz({"scale.npy": npy(header(shape="(10000000,)"), bytes(80_000_000))}, zipfile.ZIP_DEFLATED)
    assert len(bomb) < 100_000
    tracemalloc.start()
    message = refused(good, tmp_path, bomb)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert "bytes declared" in message
    assert peak < 2_000_000


def test_small_compressed_members(good: dict[str, Path], tmp_path: Path) -> None:
    content = npz({"scale.npy": npy(header(), os.urandom(120))}, zipfile.ZIP_DEFLATED)
    assert "uncompressed arrays" in refused(good, tmp_path, content)


def test_members_that_share_their_bytes(good: dict[str, Path], tmp_path: Path) -> None:
    """Many directory entries that point at one member multiply a file without compression."""
    member = npy(header(shape="(4096,)"), bytes(8 * 4096))
    one = npz({"a0.npy": member})
    start = one.index(b"PK\x01\x02")
    entry, end = one[start : one.index(b"PK\x05\x06")], one[one.index(b"PK\x05\x06") :]
    entries = b"".join(entry.replace(b"a0.npy", f"a{index}.npy".encode()) for index in range(10))
    end = end[:8] + struct.pack("<HHI", 10, 10, len(entries)) + end[16:]
    assert "bytes declared" in refused(good, tmp_path, one[:start] + entries + end)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"PK", b"\x00" * 200, npz({}), npz({"mean.npy": b""}),
        npz({"mean.npy": npy(header(shape="(0, " + "9" * 30 + ")"))}),
        npz({"mean.npy": b"\x93NUMPY"}),
        npz({"mean.npy": npy("{}")}), npz({"mean.npy": npy(header(), bytes(119))}),
        npz({"mean.npy": npy(header(), bytes(128))}), npz({"mean.npy": npy(header("'<f4'"), bytes(60))}),
        npz({"mean.npy": npy(header("'>f8'"), bytes(120))}),
        npz({"mean.npy": npy(header("'|V8'"), bytes(120))}),
        npz({"mean.npy": npy(header("'<c16'"), bytes(240))}),
        npz({"mean.npy": npy(header("'<M8[s]'"), bytes(120))}),
        npz({"mean.npy": npy("(" * 2000)}), npz({"mean.npy": npy("'" * 5000)}),
        npz({"mean.npy": npy(header(order="1"), bytes(120))}),
        npz({"mean.npy": npy(header(), bytes(120), b"\x09\x00")}),
        npz({"mean.npy": npy("__import__('os').mkdir('trace')")}),
        npz({"mean.npy": npy(header("'<U1'", "(1,)"), struct.pack("<I", 0x110000))}),
        npz({"mean.npy": npy(header("'<U1'", "(1,)"), struct.pack("<I", 0xD800))}),
        npz({"mean.npy": npy(header(), struct.pack("<15d", *[np.nan] * 15))}),
        npz({"mean.npy": npy(header(), struct.pack("<15d", *[np.inf] * 15))}),
    ],
)  # fmt: skip
def test_other_arrays(good: dict[str, Path], tmp_path: Path, content: bytes) -> None:
    refused(good, tmp_path, content)


def test_a_name_twice(good: dict[str, Path], tmp_path: Path) -> None:
    member = npy(header(), bytes(120))
    content = npz({"mean.npy": member, "meam.npy": member}).replace(b"meam.npy", b"mean.npy")
    assert "'mean' twice" in refused(good, tmp_path, content)


@given(st.binary(max_size=300))
@settings(max_examples=150)
def test_any_bytes_are_arrays_or_refused(content: bytes) -> None:
    with pytest.raises(InputError):
        unpack_arrays(content, Path("arrays.npz"))


@given(place=st.integers(0, 10_000), value=st.integers(0, 255))
@settings(max_examples=300)
def test_a_changed_byte_in_an_archive_is_read_or_refused(place: int, value: int) -> None:
    content = bytearray(pack_arrays({"mean": np.arange(3.0), "names": np.array(["a", "bc"])}))
    content[place % len(content)] = value
    try:
        arrays = unpack_arrays(bytes(content), Path("arrays.npz"))
    except InputError:
        return
    assert all(array.dtype.kind in "fiU" for array in arrays.values())


def change(good: dict[str, Path], tmp_path: Path, kind: str, edit: Callable[..., object]) -> Path:
    manifest, arrays = content_of(good[kind])
    edit(manifest["predictor"]["values"], arrays)
    return forge(tmp_path / "forged", manifest, pack_arrays(arrays))


def put(name: str, value: object) -> Callable[..., object]:
    """Return an edit: an array in place of an array, else a value."""

    def edit(values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        if isinstance(value, np.ndarray):
            arrays[name] = value
        else:
            values[name] = value

    return edit


def drop(name: str) -> Callable[..., object]:
    def edit(values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        values.pop(name, None)
        arrays.pop(name, None)

    return edit


@pytest.mark.parametrize(
    ("kind", "edit", "reason"),
    [
        ("standard", put("variant", "other"), "variant: one of"),
        ("standard", put("variant", ["paper"]), "variant: one of"),
        ("linear", put("intercept", "0"), "intercept: a number"),
        ("linear", put("intercept", True), "intercept: a number"),
        ("linear", drop("intercept"), "predictor.values.intercept, got nothing"),
        ("linear", drop("mean"), "an array mean"),
        ("linear", put("mean", np.zeros(14)), r"mean of shape \[15\], got \[14\]"),
        ("linear", put("mean", np.zeros((15, 1))), r"mean of shape \[15\], got \[15, 1\]"),
        ("linear", put("mean", np.zeros(15, dtype=int)), "mean of numbers, got int64"),
        ("linear", put("mean", np.full(15, "a")), "mean of numbers"),
        ("linear", put("scale", np.full(15, -1.0)), "scale: numbers of 0 or more"),
        ("gtb", put("rule", "mean"), "rule: one of"),
        ("gtb", put("roots", np.array([10**6] * 10)), "array roots"),
        ("gtb", put("weights", np.ones(3)), "of shape"),
        ("gp_analytic", put("kernels", ["cosine"]), "a kernel, one of"),
        ("gp_analytic", put("kernels", []), "kernels: one, or two"),
        ("gp_analytic", put("kernels", "rbf"), "a list of texts"),
        ("gp_analytic", put("operation", "-"), "operation: one of"),
        ("gp_analytic", put("mean", "nowhere"), "a mean, one of"),
        ("gp_analytic", put("mean", 3), "mean: a text"),
        ("gp_analytic", put("modules", ["antigravity"]), "a mean function of module 'antigravity'"),
        ("gp_analytic", put("noise_variance", -1.0), "noise_variance: a number of 0 or more"),
        ("gp_analytic", put("residuals", np.zeros(5)), r"residuals of shape \[12\], got \[5\]"),
        ("gp_analytic", put("cholesky", np.zeros((12, 12))), "above 0 on the diagonal"),
        ("gp_analytic", put("cholesky", np.eye(11)), r"cholesky of shape \[12, 12\]"),
        ("gp_analytic", put("lengthscales_0", np.zeros(15)), "lengthscales_0: numbers above 0"),
        ("gp_analytic", put("lengthscales_0", np.ones(3)), "lengthscales_0 of shape"),
        ("gp_analytic", put("variance_0", np.array(1.0)), "variance_0 of shape"),
        ("gp_analytic", put("response", "square"), "response: one of"),
        ("gp_analytic", put("roofline", {"structure": {}}), "roofline: structure and sharpness"),
        ("gp_calibrated", put("sharpness", 0.0), "sharpness: a number above 0"),
        ("gp_calibrated", put("noise", [1.0]), "noise: 2 numbers"),
        ("gp_calibrated", put("structure", {"input_reads": "never"}), "a structure's input_reads"),
        ("gp_calibrated", put("structure", {"word_bits": "8"}), "a structure's word_bits"),
        ("gp_calibrated", put("structure", {"other": 1}), "structure with"),
        ("gp_calibrated", put("datasheets", [1]), "datasheets: a list of objects"),
        ("gp_calibrated", put("precision", np.eye(2)), "precision of shape"),
        ("gp_calibrated", put("parameters", np.zeros(3)), "parameters of shape"),
        ("gp_calibrated", put("support_keys", np.arange(12)), "support_keys of texts"),
        ("gp_calibrated", drop("tails"), "an array tails"),
    ],
)  # fmt: skip
def test_states_that_no_predictor_has(
    good: dict[str, Path], tmp_path: Path, kind: str, edit: Callable[..., object], reason: str
) -> None:
    folder = change(good, tmp_path, kind, edit)
    with pytest.raises(InputError, match=reason) as error:
        load_bundle(folder)
    assert str(error.value).startswith(str(folder))


def test_trees_that_walk_in_circles(good: dict[str, Path], tmp_path: Path) -> None:
    def circle(values: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
        inner = np.flatnonzero(arrays["feature"] >= 0)
        arrays["left"][inner] = inner

    with pytest.raises(InputError, match="children after their parents"):
        load_bundle(change(good, tmp_path, "gtb", circle))


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (lambda m: m.update(format="other"), "format 'accelperf-bundle'"),
        (lambda m: m.update(format_version=1), "no checksum"),
        (lambda m: m.update(format_version=3), "format version 1 or 2"),
        (lambda m: m["predictor"].update(kind="pickle"), "a kind of predictor, one of"),
        (lambda m: m["predictor"].update(kind=["linear"]), "predictor.kind: a text"),
        (lambda m: m["predictor"].update(kind="os:system"), "a kind of predictor, one of"),
        (lambda m: m["predictor"].pop("values"), "predictor.values: an object"),
        (lambda m: m.update(predictor=[]), "predictor: an object"),
        (lambda m: m.update(estimator=1), "estimator: a text"),
        (lambda m: m.update(settings=None), "settings: an object"),
        (lambda m: m.pop("training"), "training: an object"),
        (lambda m: m["training"].update(rows=0), "training.rows"),
        (lambda m: m["training"].update(rows=1.5), "training.rows"),
        (lambda m: m["training"].update(range={}), "training.range"),
        (lambda m: m["training"]["range"].update(groups=[1]), "training.range.groups"),
        (lambda m: m["training"]["range"].update(groups=["1", "2"]), "training.range.groups"),
        (lambda m: m["training"].update(origins="simulated"), "training.origins"),
        (lambda m: m["training"].update(features_md5=None), "training.features_md5"),
        (lambda m: m.update(feature_columns=[]), "the 15 parameters"),
        (lambda m: m["feature_columns"].reverse(), "the 15 parameters"),
        (lambda m: m.update(feature_columns="kernel_height"), "feature_columns: a list"),
    ],
)  # fmt: skip
def test_manifests_that_say_something_else(
    good: dict[str, Path], tmp_path: Path, edit: Change, reason: str
) -> None:
    manifest, arrays = content_of(good["linear"])
    edit(manifest)
    with pytest.raises(InputError, match=reason) as error:
        load_bundle(forge(tmp_path / "forged", manifest, pack_arrays(arrays)))
    assert str(error.value).startswith(str(tmp_path / "forged"))


@pytest.mark.parametrize("digest", ["../../../etc/passwd", "0" * 63, "0" * 64 + "/..", 7, None, "A" * 64])
def test_checksums_that_are_paths(good: dict[str, Path], tmp_path: Path, digest: object) -> None:
    manifest, _ = content_of(good["linear"])
    (tmp_path / MANIFEST).write_bytes(seal({**manifest, "arrays_sha256": digest}))
    with pytest.raises(InputError, match="arrays_sha256"):
        load_bundle(tmp_path)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[" * 100_000, "nested too deep"),
        ('{"a":' * 50_000, "nested too deep"),
        ('{"a": 1, "a": 2}', "key 'a' twice"),
        ('{"a": NaN}', "no finite number"),
        ('{"a": -Infinity}', "no finite number"),
        ('{"a": 1e999}', "no finite number"),
        ('{"a": ' + "9" * 5000 + "}", "a number of 5000 digits"),
        ("[]", "a list"),
        ("3", "a int"),
        ("", "Expecting value"),
        ('{"a": 1', "delimiter"),
        ('{"a": "\ud800"}', "expected"),
    ],
)
def test_json_that_is_too_much(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / MANIFEST).write_bytes(text.encode("utf-8", errors="surrogatepass"))
    with pytest.raises(InputError, match=reason):
        load_bundle(tmp_path)


def test_other_text_encodings(tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_bytes(b"\xff\xfe{\x00}\x00")
    with pytest.raises(InputError, match=r"bundle\.json: expected a bundle's JSON"):
        load_bundle(tmp_path)


def test_links_pipes_and_folders(good: dict[str, Path], tmp_path: Path) -> None:
    manifest, arrays = content_of(good["linear"])
    folder = forge(tmp_path / "forged", manifest, pack_arrays(arrays))
    (path,) = folder.glob("*.npz")
    secret = tmp_path / "secret"
    for victim in (path, folder / MANIFEST):
        content = victim.read_bytes()
        victim.rename(secret)
        victim.symlink_to(secret)
        with pytest.raises(InputError, match="a plain file that can be read, got a symbolic link"):
            load_bundle(folder)
        victim.unlink()
        os.mkfifo(victim)
        with pytest.raises(InputError, match="expected a plain file, got a folder, pipe or device"):
            load_bundle(folder)
        victim.unlink()
        victim.mkdir()
        with pytest.raises(InputError, match="expected a plain file"):
            load_bundle(folder)
        victim.rmdir()
        victim.write_bytes(content)
    load_bundle(folder)


def test_a_file_that_is_too_large_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / MANIFEST).open("wb") as stream:
        stream.truncate(200 * 2**20)  # a hole; nothing is stored
    tracemalloc.start()
    with pytest.raises(InputError, match="expected a file of at most 67108864 bytes, got 209715200"):
        load_bundle(tmp_path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2_000_000


@given(data=st.data())
@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_a_state_with_something_exchanged_never_ends_in_a_traceback(
    good: dict[str, Path], tmp_path: Path, features_of: Maker, data: st.DataObject
) -> None:
    """Whatever stands in a state, loading and predicting give numbers or an error of ours."""
    kind = data.draw(st.sampled_from(sorted(KINDS)))
    manifest, arrays = content_of(good[kind])
    values = manifest["predictor"]["values"]
    name = data.draw(st.sampled_from(sorted([*values, *arrays])))
    if name in arrays and data.draw(st.booleans()):
        kept = arrays[name]
        arrays[name] = data.draw(
            st.sampled_from([kept[:0], kept[:-1], kept[None], kept.astype(str), np.zeros(3), np.array(2.0)])
        )
    else:
        values[name] = data.draw(
            st.recursive(
                st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | st.just("rbf"),
                lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.just("structure"), inner),
                max_leaves=4,
            )
        )  # fmt: skip
    folder = forge(tmp_path / "forged", manifest, pack_arrays(arrays))
    try:
        with np.errstate(all="ignore"):
            load_bundle(folder).predictor.predict(features_of(4, seed=9))
    except AccelperfError:
        pass
    finally:
        for path in folder.iterdir():
            path.unlink()


def test_json_of_the_manifest_is_what_json_reads(good: dict[str, Path]) -> None:
    for folder in good.values():
        text = (folder / MANIFEST).read_text(encoding="utf-8")
        assert json.loads(text) == parse(text.encode(), folder / MANIFEST)
