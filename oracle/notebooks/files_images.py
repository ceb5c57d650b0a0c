# Stacks of images in files, after tutorials of napari, dask-image and tifffile
# needs: dask_image, scipy, skimage, tifffile, zarr

# %% imports and data
from glob import glob

import dask
import dask.array as da
import dask.array.image
import dask_image.imread
import dask_image.ndfilters
import dask_image.ndmeasure
import numpy as np
import scipy.ndimage as ndi
import skimage.filters
import skimage.io
import skimage.measure
import tifffile

rng = np.random.default_rng(13)
yy, xx = np.mgrid[:64, :96]
frames = rng.normal(200, 10, (12, 64, 96))
for number, frame in enumerate(frames):
    for cy, cx in rng.integers(10, 54, (4, 2)):
        frame += 800 * np.exp(-((yy - cy) ** 2 + (xx - cx - number) ** 2) / 20)
    tifffile.imwrite(f"t{number:02}.tif", frame.astype("uint16"))
tifffile.imwrite("stack.tif", frames.astype("uint16"))
names = sorted(glob("t??.tif"))
len(names)

# %% imread of dask-image
stack = dask_image.imread.imread("t??.tif")
stack.max(axis=0).compute()

# %% imread of Dask
images = dask.array.image.imread("t??.tif", imread=tifffile.imread)
images.mean(axis=(1, 2)).compute()

# %% delayed readers, as in napari's tutorial
sample = tifffile.imread(names[0])
lazy = [dask.delayed(tifffile.imread)(name) for name in names]
arrays = [da.from_delayed(each, shape=sample.shape, dtype=sample.dtype) for each in lazy]
delayed_stack = da.stack(arrays, axis=0)
delayed_stack.std(axis=0).compute()

# %% delayed readers of scikit-image
collection = [dask.delayed(skimage.io.imread)(name) for name in names[:4]]
four = da.stack([da.from_delayed(each, sample.shape, sample.dtype) for each in collection])
four.sum(axis=(1, 2)).compute()


# %% a reader by map_blocks
def read(block_id=None):
    return tifffile.imread(names[block_id[0]])[np.newaxis]


mapped = da.map_blocks(read, chunks=((1,) * 12, (64,), (96,)), dtype="uint16", meta=np.empty((0, 0, 0), "uint16"))
mapped.min(axis=0).compute()

# %% a sequence of files as Zarr
sequence = da.from_zarr(tifffile.imread(names, aszarr=True))
sequence.max(axis=(1, 2)).compute()

# %% a memory map
memory_map = da.from_array(tifffile.memmap("stack.tif", mode="r"), chunks=(3, 64, 96))
memory_map.mean(axis=(1, 2)).compute()

# %% background
background = da.median(stack.rechunk((-1, 32, 32)), axis=0)
corrected = stack.astype("float32") - background
corrected.mean(axis=0).compute()

# %% Gaussian filter of each image
smoothed = stack.astype("float64").map_overlap(
    ndi.gaussian_filter, depth={1: 8, 2: 8}, sigma=(0, 2, 2), boundary="reflect"
)
smoothed.max().compute()

# %% median filter of each image
medians = dask_image.ndfilters.median_filter(stack, size=(1, 3, 3))
medians.mean().compute()

# %% threshold by Otsu
threshold = skimage.filters.threshold_otsu(np.asarray(smoothed))
mask = smoothed > threshold
mask = mask.persist()
mask.sum(axis=(1, 2)).compute()

# %% label
labels, count = dask_image.ndmeasure.label(mask[0])
labels = labels.persist()
int(count)

# %% areas of the labels
areas = dask_image.ndmeasure.area(mask[0], labels, np.arange(1, 4))
areas.compute()

# %% region properties
table = skimage.measure.regionprops_table(np.asarray(labels), properties=("label", "area", "centroid"))
table["area"]


# %% objects of each image
def count_objects(block):
    return np.array([[[ndi.label(block[0])[1]]]])


mask.map_blocks(count_objects, chunks=(1, 1, 1), dtype="int64").ravel().compute()


# %% distance transform
def distances(block):
    return ndi.distance_transform_edt(block[0])[np.newaxis]


mask.map_blocks(distances, dtype="float64").max(axis=(1, 2)).compute()

# %% write the images as Zarr
corrected.to_zarr("corrected.zarr", overwrite=True)
da.from_zarr("corrected.zarr").std(axis=(1, 2)).compute()


# %% a pyramid
pyramid = [stack.astype("float32")]
for _ in range(2):
    pyramid.append(da.coarsen(np.mean, pyramid[-1], {1: 2, 2: 2}))
for number, level in enumerate(pyramid):
    level.to_zarr("pyramid.zarr", component=str(number), overwrite=True)
da.from_zarr("pyramid.zarr", component="2").mean(axis=(1, 2)).compute()


# %% write TIFF files by delayed functions
def save(image, number):
    tifffile.imwrite(f"out{number}.tif", np.asarray(image))
    return number


dask.compute([dask.delayed(save)(image, number) for number, image in enumerate(stack[:3])])
tifffile.imread("out2.tif").sum()

# %% montage of maxima along two axes
top, side = stack.max(axis=0), stack.max(axis=1)
dask.compute(top.mean(), side.std())
