import kw

TEAMS = 4  # tunable: TEAMS = 4, 2, 8

def ceil(a, b):
    return -(-a // b)

def plan(x, weight, bias, out):
    batch, channels, height, width = x.shape
    filters = weight.shape[0]
    down, across = (height - 2) // 2, (width - 2) // 2
    chunks = ceil(batch * down * across, 64)
    # 64 windows in a row touch at most so many rows of windows, and so many images.
    rows = min(ceil(63, across) + 1, down)
    slots = (ceil(63, down * across) + 1) * channels
    segment = ceil((2 * rows + 2) * width + 3, 4) * 4
    words = channels * (32 if width % 2 == 0 else 64)

    def cost(slices):
        # Warps of the fullest scheduler, times what one of them issues or what the loads from shared memory take.
        group = ceil(filters, TEAMS * slices)
        warps = ceil(ceil(chunks * slices, kw.device.multiprocessors) * TEAMS, 4)
        return warps * max(150 + words + group * (75 * channels + 11), 4 * (words + group * (12 * channels + 4)))

    group = ceil(filters, TEAMS * min(range(1, 17), key=cost))
    slices = ceil(filters, TEAMS * group)
    definitions = {
        "BATCH": batch, "CHANNELS": channels, "HEIGHT": height, "WIDTH": width, "FILTERS": filters,
        "TEAMS": TEAMS, "GROUP": group, "SLICES": slices, "SLOTS": slots, "SEGMENT": segment,
    }
    shared = 4 * (slots * segment + TEAMS * group * channels * 12)
    return kw.plan(kw.launch("conv", chunks * slices, 32 * TEAMS, x, weight, bias, out, shared=shared), definitions=definitions)
