import kw


def plan(x, weight, eps, out):
    rows, cols = x.shape
    threads = 256 if cols >= 1024 else 128
    vector = "true" if cols % 4 == 0 else "false"
    kernel = f"rmsnorm<{threads}, {vector}>"
    return kw.plan(kw.launch(kernel, rows, threads, x, weight, kw.f32(eps), out, kw.i32(cols)))
