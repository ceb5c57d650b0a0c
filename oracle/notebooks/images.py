# Image processing with dask-image, after its quickstart
# needs: dask_image, tifffile, scipy

# %% imports and data
import dask.array as da
import dask_image.imread
import dask_image.ndfilters
import dask_image.ndfourier
import dask_image.ndinterp
import dask_image.ndmeasure
import dask_image.ndmorph
import numpy as np
import scipy.ndimage
import tifffile

rng = np.random.default_rng(8)
yy, xx = np.mgrid[:80, :120]
image = rng.normal(10, 1, (80, 120))
for cy, cx in [(15, 20), (50, 60), (60, 100), (20, 90)]:
    image += 50 * np.exp(-((yy - cy) ** 2 + (xx - cx) ** 2) / 40)
for i in range(4):
    tifffile.imwrite(f"frame_{i}.tif", (image + i).astype("uint16"))
img = da.from_array(image, chunks=(80, 60))
img

# %% read a stack of files
stack = dask_image.imread.imread("frame_*.tif")
stack.shape, stack.dtype

# %% maximum projection
stack.max(axis=0).compute()

# %% mean of each frame
stack.mean(axis=(1, 2)).compute()

# %% Gaussian filter
smoothed = dask_image.ndfilters.gaussian_filter(img, sigma=2)
smoothed.max().compute()

# %% Gaussian filter of a stack
dask_image.ndfilters.gaussian_filter(stack.astype(float), sigma=[0, 1, 1])[0].compute()

# %% background by difference of Gaussians
dog = dask_image.ndfilters.gaussian_filter(img, 1) - dask_image.ndfilters.gaussian_filter(img, 5)
dog.std().compute()

# %% median filter
dask_image.ndfilters.median_filter(img, size=3)

# %% uniform, minimum, maximum
u = dask_image.ndfilters.uniform_filter(img, size=5)
lo, hi = dask_image.ndfilters.minimum_filter(img, size=3), dask_image.ndfilters.maximum_filter(img, size=3)
(hi - lo).mean().compute(), u.sum().compute()

# %% rank and percentile filters
dask_image.ndfilters.percentile_filter(img, 20, size=3).compute()

# %% Sobel and Prewitt
edges = da.hypot(dask_image.ndfilters.sobel(img, axis=0), dask_image.ndfilters.sobel(img, axis=1))
edges.max().compute()

# %% Laplace
dask_image.ndfilters.laplace(img).min().compute(), dask_image.ndfilters.gaussian_laplace(img, 2).min().compute()

# %% gradient magnitude
dask_image.ndfilters.gaussian_gradient_magnitude(img, 1.5).compute()

# %% convolution
kernel = np.ones((3, 3)) / 9
dask_image.ndfilters.convolve(img, kernel).compute()

# %% correlation
dask_image.ndfilters.correlate(img, np.array([[0, 1, 0], [1, -4, 1], [0, 1, 0]])).sum().compute()

# %% generic filter
dask_image.ndfilters.generic_filter(img, np.ptp, size=3)[::10, ::10].compute()

# %% local threshold
dask_image.ndfilters.threshold_local(img, (25, 25)).mean().compute()

# %% threshold and label
mask = smoothed > 20
labels, n = dask_image.ndmeasure.label(mask)
labels = labels.persist()
int(n)

# %% labels
labels.compute()

# %% areas of labels
index = np.arange(1, 5)
dask_image.ndmeasure.area(img, labels, index).compute()

# %% means of labels
dask_image.ndmeasure.mean(img, labels, index).compute()

# %% sums of labels
dask_image.ndmeasure.sum_labels(img, labels, index).compute()

# %% centres of mass
dask_image.ndmeasure.center_of_mass(img, labels, index).compute()

# %% maximum
largest = dask_image.ndmeasure.maximum(img, labels, index)
largest.compute()

# %% variance, deviation, median
(
    dask_image.ndmeasure.standard_deviation(img, labels, index).compute(),
    dask_image.ndmeasure.median(img, labels, index).compute(),
)

# %% histogram by label
dask_image.ndmeasure.histogram(img, 0, 80, 8, labels, index).compute()[0]

# %% maximum position
dask_image.ndmeasure.maximum_position(img, labels, index).compute()

# %% minimum
dask_image.ndmeasure.minimum(img, labels, index).compute()

# %% labeled comprehension
dask_image.ndmeasure.labeled_comprehension(img, labels, index, np.max, float, 0).compute()

# %% find objects
dask_image.ndmeasure.find_objects(labels).compute()

# %% binary erosion and dilation
eroded = dask_image.ndmorph.binary_erosion(mask, iterations=2)
dilated = dask_image.ndmorph.binary_dilation(mask)
eroded.sum().compute(), dilated.sum().compute()

# %% opening and closing
structure = np.ones((3, 3))
opened = dask_image.ndmorph.binary_opening(mask, structure=structure)
closed = dask_image.ndmorph.binary_closing(opened, structure=structure)
closed.compute()

# %% labels of an opened mask
opened_labels, count = dask_image.ndmeasure.label(opened, structure=structure)
int(count)

# %% Fourier filters
spectrum = da.fft.fftn(img.rechunk(-1))
blurred = da.fft.ifftn(dask_image.ndfourier.fourier_gaussian(spectrum, sigma=2)).real
blurred.compute()

# %% Fourier shift
da.fft.ifft2(dask_image.ndfourier.fourier_shift(spectrum, (5, 3))).real[:3].compute()

# %% affine transform
dask_image.ndinterp.affine_transform(img, np.array([[1.0, 0.1], [0.0, 1.0]]), order=1).compute()

# %% rotate
dask_image.ndinterp.rotate(img, 30, reshape=False, order=1).mean().compute()

# %% SciPy by map_overlap
img.map_overlap(scipy.ndimage.gaussian_filter, depth=8, boundary="reflect", sigma=2).compute()

# %% SciPy on a computed image
filled = scipy.ndimage.binary_fill_holes(mask.compute())
filled.sum()

# %% normalize by percentile
lo_, hi_ = da.percentile(img.ravel(), [1, 99]).compute()
da.clip((img - lo_) / (hi_ - lo_), 0, 1).mean().compute()

# %% tiles
tiles = [float(img.blocks[i, j].mean().compute()) for i in range(img.numblocks[0]) for j in range(img.numblocks[1])]
tiles
