"""Data parallel training over gloo: each rank with dropout and noise of its own, small buckets, a sampler that is told the epoch, a metric
summed over all ranks."""

import random
import time

import fingerprint
import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import rearview as rv

torch.set_num_threads(1)
EPOCHS = 3


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(5)
    data = TensorDataset(torch.randn(72, 10), torch.randn(72, 1))
    net = nn.Sequential(nn.Linear(10, 33), nn.Tanh(), nn.Dropout(0.2), nn.Linear(33, 17), nn.Tanh(), nn.Linear(17, 1))
    torch.manual_seed(100 + rank)
    np.random.seed(rank)
    random.seed(rank)
    model = DistributedDataParallel(net, bucket_cap_mb=0.001)
    sampler = DistributedSampler(data, shuffle=True, seed=3)
    loader = DataLoader(data, batch_size=4, sampler=sampler)
    opt = torch.optim.Adam(model.parameters(), lr=1e-2)
    seen = 0
    with rv.checkpointing(model=model, opt=opt):
        for epoch in rv.loop("epoch", range(EPOCHS)):
            sampler.set_epoch(epoch)
            total = torch.zeros(())
            for step, (x, y) in enumerate(rv.loop("step", loader)):
                x = x + 0.1 * float(np.random.normal()) + 0.1 * random.random()
                loss = nn.functional.mse_loss(model(x), y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                total += loss.detach()
                seen += len(x)
                rv.log("loss", loss)
                print(f"rank {rank} epoch {epoch} step {step} loss {loss.item().hex()}", flush=True)
            dist.all_reduce(total)
            rv.log("total", total)
            print(f"rank {rank} epoch {epoch} total {total.item().hex()}", flush=True)
    time.sleep(0.3)  # torch ends its threads with the lock held that their last piece of work may need: let them be done with it
    dist.destroy_process_group()
    fingerprint.show(net.state_dict(), opt.state_dict()["state"], seen, world)


if __name__ == "__main__":
    main()
