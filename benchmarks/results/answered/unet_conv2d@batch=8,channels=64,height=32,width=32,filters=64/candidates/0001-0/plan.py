import math

import kw


def ceil(a, b):
    return -(-a // b)


def power(value):
    return 1 << max(0, math.ceil(math.log2(max(1, value))))


def literal(value):
    if isinstance(value, bool) or isinstance(value, int):
        return str(int(value))
    if value != value:
        return "__int_as_float(0x7fc00000)"
    if abs(value) == math.inf:
        return "INF" if value > 0 else "(-INF)"
    return f"{value!r}f" if "e" in repr(value) or "." in repr(value) else f"{value!r}.0f"


def widest(wanted, size):
    while size % wanted:
        wanted //= 2
    return wanted


def kept(arrays, cols, width, team, parts, registers, shared, teams=1):
    # Of arrays with the share of a row that a thread has: how many lie in shared memory, in how many bytes.
    chunks = ceil(cols, team * width * parts)
    outside = max(0, arrays - registers // (chunks * width))
    size = 4 * outside * team * teams * chunks * width
    return (outside, size) if registers and size <= shared else None


def plan(x, weight, bias, out):
    steps_, definitions_ = [], {}
    batch_0 = x.size(0)
    definitions_["BATCH_0"] = batch_0
    channels_0 = x.size(1)
    definitions_["CHANNELS_0"] = channels_0
    height_0 = x.size(2)
    definitions_["HEIGHT_0"] = height_0
    width_0 = x.size(3)
    definitions_["WIDTH_0"] = width_0
    filters_0 = weight.size(0)
    definitions_["FILTERS_0"] = filters_0
    tall_0 = x.size(2)
    definitions_["TALL_0"] = tall_0
    broad_0 = x.size(3)
    definitions_["BROAD_0"] = broad_0
    definitions_["PERIOD_0_0"] = weight.size(0)
    definitions_["INDEX_0"] = 'int' if batch_0 * max(channels_0 * height_0 * width_0, filters_0 * tall_0 * broad_0) < 2 ** 31 else 'long long'
    blocks_convolution_0, threads_convolution_0 = (ceil(batch_0 * ((tall_0 - 1) // 1 + 1) * ((broad_0 - 1) // 1 + 1), 256) * ceil(filters_0, 8)), 256
    definitions_["BLOCKS_convolution_0"] = blocks_convolution_0
    definitions_["THREADS_convolution_0"] = threads_convolution_0
    blocks_ = blocks_convolution_0
    threads_ = max([threads_convolution_0])
    definitions_["THREADS_0"] = threads_
    definitions_["LEAST_0"] = min(1, 2048 // threads_)
    if blocks_:
        steps_.append(kw.launch("launch0", blocks_, threads_, bias, out, x, weight))
    return kw.plan(*steps_, definitions=definitions_)
