# scikit-image and SciPy on blocks with map_blocks and map_overlap
# needs: skimage, scipy

# %% imports and data
import dask
import dask.array as da
import numpy as np
import scipy.ndimage as ndi
import scipy.signal
import scipy.stats
import skimage.color
import skimage.exposure
import skimage.feature
import skimage.filters
import skimage.measure
import skimage.morphology
import skimage.restoration
import skimage.segmentation
import skimage.transform
import skimage.util

rng = np.random.default_rng(9)
yy, xx = np.mgrid[:200, :240]
picture = 0.2 + 0.1 * rng.random((200, 240)) + 0.6 * (((yy - 100) ** 2 + (xx - 120) ** 2) < 50**2)
rgb = rng.random((128, 128, 3))
img = da.from_array(picture, chunks=(100, 120))
img

# %% Gaussian by map_overlap
smooth = img.map_overlap(skimage.filters.gaussian, depth=9, boundary="reflect", sigma=2, preserve_range=True)
smooth.mean().compute()

# %% Otsu threshold of all
threshold = skimage.filters.threshold_otsu(img.compute())
(img > threshold).sum().compute()

# %% Otsu given a Dask array
binary = img > skimage.filters.threshold_otsu(np.asarray(img))
binary.sum().compute()

# %% Sobel
img.map_overlap(skimage.filters.sobel, depth=1).max().compute()

# %% median of blocks
img.map_overlap(skimage.filters.median, depth=2, boundary="nearest")

# %% Canny
canny = img.map_overlap(skimage.feature.canny, depth=10, sigma=2, dtype=bool)
canny.sum().compute()

# %% total variation
img.map_overlap(skimage.restoration.denoise_tv_chambolle, depth=10, weight=0.1).std().compute()

# %% adaptive equalization
img.map_blocks(skimage.exposure.equalize_adapthist, clip_limit=0.03, dtype=float).mean().compute()

# %% gamma
img.map_blocks(skimage.exposure.adjust_gamma, 0.5).sum().compute()

# %% rescale intensity
skimage.exposure.rescale_intensity(img.compute(), out_range=(0, 1)).max()

# %% to grey
grey = da.from_array(rgb, chunks=(64, 64, 3)).map_blocks(skimage.color.rgb2gray, drop_axis=2, dtype=float)
grey.compute()

# %% grey by weights
(da.from_array(rgb, chunks=(64, 64, 3)) @ np.array([0.2125, 0.7154, 0.0721])).compute()

# %% to HSV
da.from_array(rgb, chunks=(64, 64, 3)).map_blocks(skimage.color.rgb2hsv, dtype=float)[..., 0].mean().compute()


# %% resize blocks
def half(block):
    return skimage.transform.resize(block, (block.shape[0] // 2, block.shape[1] // 2), anti_aliasing=True)


small = img.map_blocks(half, chunks=(50, 60), dtype=float)
small.shape, small.mean().compute()

# %% local mean by coarsen
da.coarsen(np.mean, img, {0: 4, 1: 4}).compute()

# %% opening of grey values
img.map_overlap(skimage.morphology.opening, depth=3, footprint=np.ones((5, 5))).min().compute()

# %% label and properties
labels = skimage.measure.label((img > threshold).compute())
props = skimage.measure.regionprops_table(
    labels, intensity_image=img.compute(), properties=("label", "area", "mean_intensity")
)
props["area"].max()


# %% count of objects by block
def count_objects(block):
    return np.array([[skimage.measure.label(block).max()]])


(img > threshold).map_blocks(count_objects, chunks=(1, 1), dtype=int).compute()

# %% watershed on a block
distance = ndi.distance_transform_edt((img > threshold).compute())
skimage.segmentation.watershed(-distance, mask=distance > 0).max()

# %% distance transform by map_overlap
(img > threshold).map_overlap(ndi.distance_transform_edt, depth=20, dtype=float).max().compute()

# %% local binary pattern
img.map_overlap(skimage.feature.local_binary_pattern, depth=2, P=8, R=1, dtype=float).mean().compute()

# %% entropy of integers
ubyte = img.map_blocks(skimage.util.img_as_ubyte, dtype="uint8")
ubyte.max().compute(), ubyte.dtype

# %% invert and montage
skimage.util.invert(ubyte.compute()).min()

# %% structural similarity
from skimage.metrics import peak_signal_noise_ratio, structural_similarity

(
    structural_similarity(img.compute(), smooth.compute(), data_range=1.0),
    peak_signal_noise_ratio(img.compute(), smooth.compute(), data_range=1.0),
)


# %% delayed images
@dask.delayed
def segment(block, level):
    return skimage.measure.label(block > level).max()


counts = [segment(b, 0.5) for b in img.to_delayed().ravel()]
dask.compute(*counts)

# %% apply_parallel
skimage.util.apply_parallel(
    skimage.filters.gaussian, img.compute(), chunks=(100, 120), depth=9, extra_keywords={"sigma": 1}
).mean()

# %% convolution with SciPy
img.map_overlap(scipy.signal.convolve2d, depth=1, boundary=0, in2=np.ones((3, 3)) / 9, mode="same").compute()

# %% Fourier convolution
img.map_blocks(lambda b: scipy.signal.fftconvolve(b, np.ones((5, 5)), mode="same")).sum().compute()

# %% zoom
img.map_blocks(lambda b: ndi.zoom(b, 0.5, order=1), chunks=(50, 60), dtype=float).mean().compute()

# %% z-scores of blocks
img.map_blocks(scipy.stats.zscore, axis=None).std().compute()

# %% Wiener filter
img.map_overlap(scipy.signal.wiener, depth=3, mysize=5).mean().compute()

# %% histogram for a plot
counts_, edges_ = np.histogram(img.compute().ravel(), bins=20)
counts_

# %% SciPy statistics of a Dask array
scipy.stats.describe(img.ravel().compute()).mean, scipy.stats.skew(np.asarray(img).ravel())
