"""Public training programs asked in hindsight: are the answers those of a run that had the statements from the start?

    python scripts/corpus_questions.py --tools FOLDER --mirror FOLDER --work FOLDER --python VENV_PYTHON [--json] [ids...]

The programs, and the calls added to them, are those of `corpus.py`. Each is recorded once as it is; then two statements are added, one in
the outer loop and one further inside (below, by the line of the program that they stand behind), and `rearview replay` is asked for each.
A second copy, in the same folder, is run with the statements from the start: every value has to be the same, at the same place. A question
that the plan refuses, by name and before anything is run, is no failure. The project's files have to be the same before and after.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpus import Change, Copy, Loop, over_programs

OURS = (".rearview", ".corpus.out", ".corpus.err", "__pycache__")
"""Files of this tool, and what a program's start leaves: nothing that a replay could have changed."""
_KEYS = frozenset(("projid", "run", "tstamp", "filename"))


@dataclass(frozen=True)
class Question:
    """A statement added in hindsight."""

    level: str
    """`outer`: in the outer loop; `inner`: further inside."""
    name: str
    file: str
    behind: str
    """The statement that it stands behind, by its first line; the first one that begins so."""
    value: str
    """What it logs."""


def _norm(what: str, of: str) -> str:
    return f"sum(float({of}.pow(2).sum()) for p in {what}.parameters() if {of} is not None) ** 0.5"


MORE: dict[str, Change] = {"nanogpt": Change("train.py", (Loop("", 5, "micro"),))}
"""Loops that are named for the questions' sake: in `corpus.py` the program has only one."""
_SPACES = (
    "assert isinstance(envs.single_action_space",
    "[space.seed(1) for space in (envs.observation_space, envs.single_observation_space, envs.action_space)]",
)
SEEDED: dict[str, tuple[str, str, str]] = {"cleanrl_ppo": ("cleanrl/ppo.py", *_SPACES), "cleanrl_dqn": ("cleanrl/dqn.py", *_SPACES)}
"""File, line and statement of what seeds generators that a program seeds with the time it is, and never draws from: they are compared."""
QUESTIONS: dict[str, tuple[Question, Question]] = {
    "mnist": (
        Question("outer", "per_class", "mnist/main.py", "correct += pred.eq(",
                 "[int((target[pred.view(-1) == target] == k).sum()) for k in range(10)]"),
        Question("inner", "grad_norm", "mnist/main.py", "loss.backward()", _norm("model", "p.grad")),
    ),
    "vae": (
        Question("outer", "weight_norm", "vae/main.py", "test(epoch)", _norm("model", "p.detach()")),
        Question("inner", "kl", "vae/main.py", "loss.backward()", "float(-0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum())"),
    ),
    "word_lm": (
        Question("outer", "annealed", "word_language_model/main.py", "val_loss = evaluate(val_data)", "[lr, best_val_loss]"),
        Question("inner", "grad_norm", "word_language_model/main.py", "torch.nn.utils.clip_grad_norm_(", _norm("model", "p.grad")),
    ),
    "time_seq": (
        Question("outer", "evals", "time_sequence_prediction/train.py", "optimizer.step(closure)",
                 'optimizer.state_dict()["state"][0]["func_evals"]'),
        Question("inner", "grad_norm", "time_sequence_prediction/train.py", "loss.backward()", _norm("seq", "p.grad")),
    ),
    "reinforce": (
        Question("outer", "episode", "reinforcement_learning/reinforce.py", "running_reward = 0.05",
                 "[len(policy.rewards), float(policy.saved_log_probs[-1])]"),
        Question("inner", "entropy", "reinforcement_learning/reinforce.py", "m = Categorical(probs)", "float(m.entropy())"),
    ),
    "dcgan": (
        Question("outer", "weight_norm", "dcgan/main.py", "torch.save(netG.state_dict()", _norm("netG", "p.detach()")),
        Question("inner", "grad_norm", "dcgan/main.py", "optimizerD.step()", _norm("netD", "p.grad")),
    ),
    "nanogpt": (
        Question("outer", "clipped_norm", "train.py", "scaler.update()", _norm("model", "p.grad")),
        Question("inner", "grad_norm", "train.py", "scaler.scale(loss).backward()", _norm("model", "p.grad")),
    ),
    "mingpt_adder": (
        Question("outer", "loss_then", "projects/adder/adder.py", 'print(f"iter_dt', "[trainer.loss.item(), float(top_score)]"),
        Question("inner", "grad_norm", "mingpt/trainer.py", "self.loss.backward()", _norm("model", "p.grad")),
    ),
    "siamese": (
        Question("outer", "lr_now", "siamese_network/main.py", "scheduler.step()", "scheduler.get_last_lr()"),
        Question("inner", "positive", "siamese_network/main.py", "loss.backward()", "float(targets.mean())"),
    ),
    "cleanrl_ppo": (
        Question("outer", "adv_std", "cleanrl/ppo.py", "clipfracs = []", "float(b_advantages.std())"),
        Question("inner", "value", "cleanrl/ppo.py", "actions[step] = action", "float(values[step].mean())"),
    ),
    "cleanrl_dqn": (
        Question("outer", "exploring", "cleanrl/dqn.py", "epsilon = linear_schedule(", "[epsilon, rb.pos]"),
        Question("inner", "td", "cleanrl/dqn.py", "loss = F.mse_loss(td_target, old_val)", "float((td_target - old_val).abs().mean())"),
    ),
}  # fmt: skip


# -- adding the statements -----------------------------------------------------------------------------------------------


def asked(text: str, questions: list[Question]) -> str:
    """The text of a program with the statements of its questions."""
    lines = text.split("\n")
    places = [(_behind(text, one.behind), one) for one in questions]
    for node, one in sorted(places, key=lambda pair: -(pair[0].end_lineno or 0)):
        assert node.end_lineno is not None
        lines.insert(node.end_lineno, " " * node.col_offset + f'rv.log("{one.name}", {one.value})')
    return "\n".join(lines)


def program_of(program: dict[str, Any], base: Path, folder: Path, python: str) -> Copy:
    """A copy of a program, ready to be recorded."""
    name = program["id"]
    copy = Copy(program, base, folder, python, (MORE[name],) if name in MORE else ())
    if name in SEEDED:
        file, behind, statement = SEEDED[name]
        text = (copy.folder / file).read_text()
        node = _behind(text, behind)
        lines = text.split("\n")
        lines.insert(node.end_lineno or node.lineno, " " * node.col_offset + statement)
        (copy.folder / file).write_text("\n".join(lines))
    return copy


def _behind(text: str, begins: str) -> ast.stmt:
    lines = text.split("\n")
    found = [
        node for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.stmt) and lines[node.lineno - 1][node.col_offset :].startswith(begins)
    ]  # fmt: skip
    if not found:
        raise SystemExit(f"no statement of the program begins with {begins!r}: it is not the commit that the questions are for")
    return min(found, key=lambda node: node.lineno)


def add(copy: Copy, questions: tuple[Question, ...]) -> None:
    """Write the statements into a copy of a program."""
    for file in {one.file for one in questions}:
        path = copy.folder / file
        path.write_text(asked(path.read_text(), [one for one in questions if one.file == file]))


# -- asking --------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    """What became of one question."""

    question: Question
    values: int = 0
    verdict: str = ""
    scan: str = ""
    seconds: float = 0.0
    differing: int = 0
    """Values that a run with the statement from the start has otherwise, or not at all; and those that it has more."""
    refused: str = ""
    """Said by the plan, before anything was run."""
    trouble: str = ""

    @property
    def right(self) -> bool:
        return bool(self.refused) or (not self.trouble and not self.differing and self.verdict == "identical")


def values(copy: Copy, name: str) -> list[dict[str, Any]]:
    """The column of a name: each value with its place."""
    code, text, errors = copy.rearview("df", name, "--json")
    if code == 3:  # no row at all
        return []
    if code:
        raise SystemExit(f"`rearview df {name}` ended with {code}: {errors[-400:]}")
    return [{key: value for key, value in row.items() if key not in _KEYS} for row in json.loads(text)["rows"]]


def ask(copy: Copy, question: Question, workers: int) -> tuple[Found, list[dict[str, Any]]]:
    """Ask a recorded program; what came of it, and the values."""
    code, text, errors = copy.rearview("replay", question.name, "--json", "--yes", "--workers", str(workers))
    facts = json.loads(text) if text.startswith("{") else {}
    (answer, *_) = facts.get("answers") or [None]
    (plan, *_) = facts.get("plans") or [{"scans": [], "left_out": []}]
    if answer is None:
        others = [str(one.get("why")) for one in facts.get("others", ())]
        said = next(iter([*plan["left_out"], *others]), "") or (errors.strip().splitlines() or ["?"])[-1]
        return Found(question, refused=said if code in (1, 2, 3) else "", trouble="" if code in (1, 2, 3) else errors[-400:]), []
    scan = "+".join(one["name"] for one in plan["scans"])
    why = "" if code == 0 else "; ".join([*answer["why"], *answer["lost"]]) or errors[-400:]
    found = Found(question, answer["values"], answer["verdict"], scan, answer["seconds"], trouble=why)
    return found, values(copy, question.name)


def hashes(folder: Path) -> dict[str, str]:
    """Every file of a project by what is in it."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*")) if path.is_file() and not any(part in OURS for part in path.relative_to(folder).parts)
    }  # fmt: skip


def differing(replayed: list[dict[str, Any]], true: list[dict[str, Any]]) -> int:
    """How many rows of two columns are not the same, NaN equal to itself."""
    rows = [[json.dumps(row, sort_keys=True) for row in rows] for rows in (replayed, true)]
    return sum(a != b for a, b in zip(*rows, strict=False)) + abs(len(rows[0]) - len(rows[1]))


def program_asked(program: dict[str, Any], base: Path, chosen: argparse.Namespace) -> dict[str, Any]:
    """One program: recorded, asked, and run with the statements from the start."""
    name = program["id"]
    folder = chosen.work / "asked" / name / "w"
    questions = QUESTIONS[name]
    copy = program_of(program, base, folder, chosen.python)
    code, _, errors = copy.start().wait()
    if code:
        return {"right": False, "why": f"recorded, it ended with {code}: {errors[-400:]}", "questions": []}
    add(copy, questions)
    before = hashes(folder)
    answers = [ask(copy, one, chosen.workers) for one in questions]
    touched = sorted(path for path, digest in (before.items() ^ hashes(folder).items()))
    copy = program_of(program, base, folder, chosen.python)
    add(copy, questions)
    code, _, errors = copy.start().wait()
    if code:
        return {"right": False, "why": f"with the statements, it ended with {code}: {errors[-400:]}", "questions": []}
    rows = []
    for found, column in answers:
        true = values(copy, found.question.name)
        count = 0 if found.refused else differing(column, true)
        rows.append({**vars(found), "question": vars(found.question), "differing": count, "true": len(true)})
        rows[-1]["right"] = found.right and not count and (bool(found.refused) or len(true) > 0)
    right = all(row["right"] for row in rows) and not touched
    return {"right": right, "questions": rows, "why": f"files of the project differ: {touched}" if touched else ""}


def lines_of(name: str, found: dict[str, Any]) -> list[str]:
    """A program in the table."""
    lines = [f"{name:16} {found['why']}"] if found["why"] else []
    for row in found["questions"]:
        asked_for = f"{row['question']['level']}: {row['question']['name']}"
        verdict = f"refused: {row['refused']}" if row["refused"] else row["verdict"]
        lines.append(f"{name:16} {asked_for:22} {row['values']:6} {row['differing']:9}  {row['scan']:18} {row['seconds']:6.1f}s  {verdict}")
        lines += [f"    {' '.join(row['trouble'].split())[:300]}"] if row["trouble"] else []
    return lines


if __name__ == "__main__":
    heading = f"{'program':16} {'question':22} {'values':>6} {'differing':>9}  {'scan':18} {'took':>7}  verdict"
    over_programs(str(__doc__), {"workers": 2}, heading, program_asked, lines_of)
