"""The obvious way to segment and describe a picture: loops over pixels (speedboost_and_structured 4.8 and 4.9)."""

import itertools

import numpy as np
from scipy import ndimage


def merged(edges, pixels, scale, least):
    """Felzenszwalb and Huttenlocher's rule on edges (weight, a, b), lightest first; the component of each node."""
    name = list(range(len(pixels)))
    pixels = dict(enumerate(pixels))
    inner = dict.fromkeys(pixels, 0.0)

    def join(a, b):
        for i, n in enumerate(name):
            if n == b:
                name[i] = a
        pixels[a] += pixels.pop(b)

    for weight, i, j in edges:
        a, b = name[i], name[j]
        if a != b and weight <= min(inner[a] + scale / pixels[a], inner[b] + scale / pixels[b]):
            join(a, b)
            inner[a] = weight
    for _, i, j in edges:
        a, b = name[i], name[j]
        if a != b and min(pixels[a], pixels[b]) < least:
            join(a, b)
    order = {n: k for k, n in enumerate(dict.fromkeys(name))}
    return [order[n] for n in name]


def hierarchy(rgb, scales, least):
    """Atoms and the region of each atom at every level, without a blur."""
    height, width, _ = rgb.shape
    colour = rgb.reshape(-1, 3).astype(float)
    edges = []
    for y, x in itertools.product(range(height), range(width)):
        for k, (dy, dx) in enumerate([(0, 1), (1, 0), (1, 1), (-1, 1)]):
            if 0 <= y + dy < height and x + dx < width:
                i, j = y * width + x, (y + dy) * width + x + dx
                weight = (
                    int(np.float32(np.sqrt(((colour[i] - colour[j]) ** 2).sum())) * np.float32(128)) / 128
                )
                edges.append((weight, y, k, x, i, j))
    edges = [(weight, i, j) for weight, _, _, _, i, j in sorted(edges)]
    atom = np.array(merged(edges, [1] * len(colour), scales[0], least[0]))
    levels = [np.arange(atom.max() + 1)]
    for scale, size in zip(scales[1:], least[1:], strict=True):
        region = levels[-1][atom]
        n = region.max() + 1
        mean = np.array([colour[region == r].mean(axis=0) for r in range(n)])
        picture = region.reshape(height, width)
        pairs = {(a, b) for a, b in zip(picture[:, :-1].ravel(), picture[:, 1:].ravel(), strict=True)}
        pairs |= {(a, b) for a, b in zip(picture[:-1].ravel(), picture[1:].ravel(), strict=True)}
        pairs = sorted({(min(p), max(p)) for p in pairs if p[0] != p[1]})
        edges = sorted((float(np.float32(np.linalg.norm(mean[a] - mean[b]))), a, b) for a, b in pairs)
        joined = np.array(merged(edges, list(np.bincount(region)), scale, size))
        levels.append(joined[levels[-1]])
    return atom.reshape(height, width), np.array(levels)


def soft_codes(descriptors, centres):
    """max(0, mean_j d_j - d_i) of squared distances, all centres at once (7.14)."""
    distance = ((descriptors[:, None] - centres) ** 2).sum(axis=2)
    return np.maximum(0.0, distance.mean(axis=1, keepdims=True) - distance)


def textures(lab):
    """Responses of the filter bank at every second pixel."""

    def blurred(plane, sigma):
        return ndimage.gaussian_filter(plane.astype(float), sigma, mode="nearest", truncate=3)

    def across(plane, axis):
        ahead = np.take(plane, np.minimum(np.arange(plane.shape[axis]) + 1, plane.shape[axis] - 1), axis)
        behind = np.take(plane, np.maximum(np.arange(plane.shape[axis]) - 1, 0), axis)
        return ahead, behind

    out = [blurred(plane, sigma) for sigma in (1, 2, 4) for plane in lab]
    for sigma in (1, 2, 4, 8):
        plane = blurred(lab[0], sigma)
        out.append(sigma**2 * (sum(sum(across(plane, axis)) for axis in (0, 1)) - 4 * plane))
    for sigma in (2, 4):
        plane = blurred(lab[0], sigma)
        for axis in (1, 0):
            ahead, behind = across(plane, axis)
            out.append(sigma * 0.5 * (ahead - behind))
    return np.array(out)[:, ::2, ::2]


def patterns(lightness, window=3):
    """Roots of the frequencies of uniform binary patterns in windows of seven by seven cells of two by two pixels."""
    height, width = lightness.shape
    rows, columns = (height + 1) // 2, (width + 1) // 2
    around = [(0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1), (-1, 0), (-1, 1)]
    out = np.zeros((20, rows, columns))
    for distance in (1, 2):
        count = np.zeros((10, rows, columns))
        for y, x in itertools.product(range(height), range(width)):
            bits = []
            for dy, dx in around:
                v = min(max(y + distance * dy, 0), height - 1)
                u = min(max(x + distance * dx, 0), width - 1)
                bits.append(lightness[v, u] > lightness[y, x] + np.float32(0.01))
            runs = sum(a != b for a, b in zip(bits, bits[1:] + bits[:1], strict=True))
            count[sum(bits) if runs <= 2 else 9, y // 2, x // 2] += 1
        for y, x in itertools.product(range(rows), range(columns)):
            part = count[:, max(y - window, 0) : y + window + 1, max(x - window, 0) : x + window + 1]
            frequency = part.sum(axis=(1, 2))
            out[(distance - 1) * 10 : distance * 10, y, x] = np.sqrt(frequency / frequency.sum())
    return out


def edges(plane, margin=4):
    """Edges in eight directions, summed over the four by four pixels from every second pixel on."""
    height, width = plane.shape
    padded = np.pad(plane.astype(float), 1, mode="edge")
    across = 0.5 * (padded[1:-1, 2:] - padded[1:-1, :-2])
    down = 0.5 * (padded[2:, 1:-1] - padded[:-2, 1:-1])
    strength = np.hypot(across, down)
    rows, columns = (height + 1) // 2, (width + 1) // 2
    out = np.zeros((8, rows + 2 * margin, columns + 2 * margin))
    for k in range(8):
        along = across * np.cos(k * np.pi / 4) + down * np.sin(k * np.pi / 4)
        value = np.maximum(along, 0) ** 4 / (strength**3 + 1e-12)
        pairs = np.zeros((rows, columns))
        for y, x in itertools.product(range(height), range(width)):
            pairs[y // 2, x // 2] += value[y, x]
        for y, x in itertools.product(range(-margin, rows + margin), range(-margin, columns + margin)):
            ys, xs = np.clip([y, y + 1], 0, rows - 1), np.clip([x, x + 1], 0, columns - 1)
            out[k, y + margin, x + margin] = pairs[np.ix_(ys, xs)].sum()
    return out
