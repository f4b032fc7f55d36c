#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Real software that must not notice a preload: each subcommand prints samples
of what it computed, one JSON object a line, for compare.py to compare."""
import json
import os
import sys

TEXT = "/usr/share/common-licenses/GPL-3"


def sample(*values):
    print(json.dumps({"sample": [v.hex() if isinstance(v, float) else v
                                 for v in values]}), flush=True)


def torch_model(seed=0):
    import torch
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(256, 512), torch.nn.GELU(),
                               torch.nn.Linear(512, 512), torch.nn.GELU(),
                               torch.nn.Linear(512, 10)).cuda()


def train(model, steps, step=None):
    import torch
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    g = torch.Generator().manual_seed(3)
    for _ in range(steps):
        x = torch.randn(64, 256, generator=g).cuda()
        y = torch.randint(0, 10, (64,), generator=g).cuda()
        opt.zero_grad()
        loss = torch.nn.functional.cross_entropy((step or model)(x), y)
        loss.backward()
        opt.step()
        sample(float(loss))


def compiled():
    import torch
    model = torch_model()
    train(model, 25, torch.compile(model))


def owngraph():
    import torch
    model = torch_model()
    opt = torch.optim.SGD(model.parameters(), 0.1)
    x = torch.zeros(64, 256, device="cuda")
    y = torch.zeros(64, dtype=torch.long, device="cuda")

    def step():
        opt.zero_grad(set_to_none=False)
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        return loss

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    g = torch.Generator().manual_seed(3)
    for _ in range(30):
        x.copy_(torch.randn(64, 256, generator=g))
        y.copy_(torch.randint(0, 10, (64,), generator=g))
        graph.replay()
        sample(float(loss))


def loader():
    import torch

    class Data(torch.utils.data.Dataset):
        def __len__(self):
            return 40 * 64

        def __getitem__(self, i):
            g = torch.Generator().manual_seed(i)
            return torch.randn(256, generator=g), i % 10

    model = torch_model()
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    for x, y in torch.utils.data.DataLoader(Data(), 64, num_workers=4,
                                            pin_memory=True):
        x, y = x.cuda(non_blocking=True), y.cuda(non_blocking=True)
        opt.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        sample(float(loss))


def events():
    import torch
    model = torch_model()
    begin = torch.cuda.Event(enable_timing=True)
    end = torch.cuda.Event(enable_timing=True)
    opt = torch.optim.SGD(model.parameters(), 0.1)
    x = torch.ones(64, 256, device="cuda")
    for _ in range(30):
        begin.record()
        opt.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        opt.step()
        end.record()
        end.synchronize()
        ms = begin.elapsed_time(end)
        sample(float(loss), 0 < ms < 1000)


def cupy():
    import cupy
    a = cupy.random.RandomState(1).rand(512, 512).astype(cupy.float32)
    w = cupy.ones((512, 512), cupy.float32)
    for _ in range(30):
        w = cupy.tanh(a @ w) - 0.01 * w
        sample(float(w.sum()))


def jax():
    os.environ.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.1")
    import jax
    import jax.numpy as jnp

    @jax.jit
    def step(w, x, y):
        def loss(w):
            return jnp.mean((jnp.tanh(x @ w[0]) @ w[1] - y) ** 2)
        value, g = jax.value_and_grad(loss)(w)
        return value, [a - 0.1 * b for a, b in zip(w, g)]

    key = jax.random.PRNGKey(0)
    w = [jax.random.normal(key, (256, 512)) * 0.05,
         jax.random.normal(key, (512, 8)) * 0.05]
    for i in range(30):
        x = jax.random.normal(jax.random.PRNGKey(i), (64, 256))
        value, w = step(w, x, x[:, :8])
        sample(float(value))


def nccl():
    import torch
    import torch.distributed as dist
    os.environ.setdefault("MASTER_ADDR", "127.0.0.1")
    os.environ.setdefault("MASTER_PORT", "29511")
    dist.init_process_group("nccl", rank=0, world_size=1)
    model = torch.nn.parallel.DistributedDataParallel(torch_model())
    train(model, 25)
    t = torch.ones(1 << 20, device="cuda")
    dist.all_reduce(t)
    sample(float(t.sum()))
    dist.destroy_process_group()


def child(rank, queue):
    import torch
    queue.put(float(torch.ones(8, device="cuda").sum()) + rank)


def forks():
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    import torch
    import torch.multiprocessing as mp
    sample(torch.cuda.is_available())
    context = mp.get_context("fork")
    queue = context.Queue()
    for rank in range(3):
        p = context.Process(target=child, args=(rank, queue))
        p.start()
        sample(queue.get(timeout=120))
        p.join()
        sample(p.exitcode)


if __name__ == "__main__":
    {f.__name__: f for f in (compiled, owngraph, loader, events, cupy, jax,
                             nccl, forks)}[sys.argv[1]]()
