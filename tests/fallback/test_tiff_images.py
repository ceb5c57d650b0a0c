"""Images in TIFF files: as tifffile reads them, which parses only the first of those that are alike."""

import numpy as np
import pytest
import tifffile

from jupyter_gpudask.fallback import tiff_images

IMAGES = np.random.default_rng(1).integers(0, 2**16, (4, 40, 50)).astype("uint16")


@pytest.fixture(autouse=True)
def layouts(monkeypatch):
    known = {}
    monkeypatch.setattr(tiff_images, "_layouts", known)
    return known


def written(folder, images=IMAGES, **options):
    files = [folder / f"{number}.tif" for number in range(len(images))]
    for number, (file, image) in enumerate(zip(files, images, strict=True)):
        each = {name: value[number] if isinstance(value, list) else value for name, value in options.items()}
        tifffile.imwrite(file, image, **each)
    return files


def read(files):
    """The images, and how many files were parsed after the first one."""
    assert np.array_equal(tiff_images.read(files[0]), tifffile.imread(files[0]))
    parsed = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiff_images, "_imread", lambda file: parsed.append(file) or tifffile.imread(file))
        found = [tiff_images.read(str(file)) for file in files]
    for image, file in zip(found, files, strict=True):
        expected = tifffile.imread(file)
        assert (image.dtype, image.shape, image.flags.writeable) == (expected.dtype, expected.shape, True)
        np.testing.assert_array_equal(image, expected)
    return len(parsed)


@pytest.mark.parametrize("kind", ["uint16", "float32", "int8"])
@pytest.mark.parametrize("shape", [(40, 50), (500, 4)])
def test_images_that_are_alike_are_parsed_once(tmp_path, kind, shape):
    assert read(written(tmp_path, IMAGES.reshape(4, *shape).astype(kind))) == 0


@pytest.mark.parametrize(
    ("images", "options"),
    [
        (IMAGES, {"byteorder": ">"}),
        (IMAGES, {"compression": "zlib"}),
        (IMAGES, {"tile": (16, 16)}),
        (IMAGES > 99, {}),
        (IMAGES.reshape(4, 4, 10, 50), {"photometric": "minisblack"}),
    ],
    ids=["byteorder", "compression", "tile", "bits", "pages"],
)
def test_all_others_are_parsed(tmp_path, images, options):
    assert read(written(tmp_path, images, **options)) == 4


def test_files_that_differ_in_more_than_their_pixels_are_parsed(tmp_path):
    assert read(written(tmp_path, description=list("abcd"))) == 3


def test_a_file_that_was_written_again_is_read_again(tmp_path):
    files = written(tmp_path)
    assert read(files) == 0
    written(tmp_path, IMAGES[::-1])
    assert read(files) == 0
    tifffile.imwrite(files[1], IMAGES[1].T)
    assert read(files) > 0


def test_errors_and_patterns_are_those_of_tifffile(tmp_path):
    files = written(tmp_path)
    read(files)
    assert tiff_images.read(str(tmp_path / "*.tif")).shape == IMAGES.shape
    assert tiff_images.read(files).shape == IMAGES.shape
    files[1].write_bytes(files[1].read_bytes()[:-100])
    for file in (tmp_path / "missing.tif", files[1]):
        with pytest.raises(Exception, match=r".") as expected:
            tifffile.imread(file)
        with pytest.raises(type(expected.value)) as found:
            tiff_images.read(file)
        assert str(found.value) == str(expected.value)
