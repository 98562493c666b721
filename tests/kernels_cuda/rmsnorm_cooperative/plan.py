import kw


def plan(x, weight, eps, out):
    rows, cols = x.shape
    scales = kw.scratch("scales", 4 * rows)
    blocks = min(rows, 2 * kw.device.multiprocessors)
    step = kw.launch(
        "rmsnorm", blocks, 256, x, weight, kw.f32(eps), out, scales, kw.i32(rows), kw.i32(cols), cooperative=True
    )
    return kw.plan(step)
