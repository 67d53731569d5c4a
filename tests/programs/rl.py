"""Reinforcement learning by step: an endless loop left by `break`, an environment with a generator of its own, lists as attributes of the
policy, a preallocated replay buffer that is written by index, a deque of rewards, an epsilon that decays."""

import argparse
import itertools
import random
from collections import deque, namedtuple

import fingerprint
import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

import rearview as rv

parser = argparse.ArgumentParser()
parser.add_argument("--gamma", type=float, default=0.95)
parser.add_argument("--seed", type=int, default=543)
args = parser.parse_args()
torch.set_num_threads(1)
torch.manual_seed(args.seed)
random.seed(args.seed)
eps = np.finfo(np.float32).eps.item()
Seen = namedtuple("Seen", ["state", "action", "reward"])


class Walk:
    """A noisy walk on a line; the reward is to stay near the middle."""

    def __init__(self, seed):
        self.np_random = np.random.Generator(np.random.PCG64(seed))
        self.at = 0.0

    def reset(self):
        self.at = float(self.np_random.normal())
        self.left = 12
        return np.array([self.at, self.left / 12], np.float32)

    def step(self, action):
        self.at += (0.5 if action else -0.5) + 0.1 * float(self.np_random.normal())
        self.left -= 1
        done = self.left == 0 or abs(self.at) > 3
        return np.array([self.at, self.left / 12], np.float32), 1.0 - abs(self.at), done


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.affine1, self.affine2 = nn.Linear(2, 16), nn.Linear(16, 2)
        self.dropout = nn.Dropout(p=0.3)
        self.saved_log_probs, self.rewards = [], []

    def forward(self, x):
        return torch.softmax(self.affine2(torch.relu(self.dropout(self.affine1(x)))), dim=1)


class Replay:
    def __init__(self, size):
        self.states = np.zeros((size, 2), np.float32)
        self.rewards = torch.zeros(size)
        self.at = self.full = 0

    def add(self, seen):
        self.states[self.at] = seen.state
        self.rewards[self.at] = seen.reward
        self.at = (self.at + 1) % len(self.states)
        self.full = max(self.full, self.at)


env = Walk(args.seed)
policy = Policy()
critic = nn.Linear(2, 1)
optimizer = torch.optim.Adam([{"params": policy.parameters(), "lr": 1e-2}, {"params": critic.parameters(), "lr": 3e-3}])
replay, recent = Replay(200), deque(maxlen=10)
epsilon, running_reward, last = 0.3, 0.0, None


def select_action(state):
    probs = policy(torch.from_numpy(state).float().unsqueeze(0))
    m = Categorical(probs)
    action = m.sample() if np.random.random() > epsilon else torch.tensor([int(env.np_random.integers(2))])
    policy.saved_log_probs.append(m.log_prob(action))
    return action.item()


def finish_episode():
    R, returns = 0, deque()
    for r in policy.rewards[::-1]:
        R = r + args.gamma * R
        returns.appendleft(R)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + eps)
    policy_loss = torch.cat([-p * r for p, r in zip(policy.saved_log_probs, returns, strict=True)]).sum()
    picks = np.random.randint(0, max(replay.full, 1), 16)
    value_loss = ((critic(torch.from_numpy(replay.states[picks])).squeeze(1) - replay.rewards[picks]) ** 2).mean()
    optimizer.zero_grad()
    (policy_loss + value_loss).backward()
    optimizer.step()
    del policy.rewards[:], policy.saved_log_probs[:]
    return policy_loss.item()


def main():
    global epsilon, running_reward, last
    np.random.seed(args.seed)
    with rv.checkpointing():
        for i_episode in rv.loop("episode", itertools.count(1)):
            state, ep_reward = env.reset(), 0
            for t in rv.loop("t", range(1, 100)):  # noqa: B007
                action = select_action(state)
                last = Seen(state, action, 0.0)
                state, reward, done = env.step(action)
                last = last._replace(reward=reward)
                replay.add(last)
                policy.rewards.append(reward)
                ep_reward += reward
                if done:
                    break
            running_reward = 0.05 * ep_reward + 0.95 * running_reward
            recent.append(ep_reward)
            loss = finish_episode()
            epsilon *= 0.95
            rv.log("reward", ep_reward)
            rv.log("policy_loss", loss)
            print(f"episode {i_episode} length {t} last {ep_reward.hex()} average {running_reward.hex()}", flush=True)
            if i_episode >= 20 and len(recent) == 10:
                break


if __name__ == "__main__":
    main()
    at_the_end = (list(last), list(recent), epsilon, running_reward, replay.states, replay.rewards, replay.at, env.at)
    fingerprint.show(policy.state_dict(), critic.state_dict(), optimizer.state_dict()["state"], at_the_end, env.np_random.random())
