"""`rearview pin`: checkpoints that stay, whatever the retention policy says."""

from __future__ import annotations

import click

from rearview.cli import options
from rearview.cli.shown import output, screen, text


@click.command("pin", short_help="Keep checkpoints whatever the policy says.")
@options.run_argument()
@click.option("--at", metavar="PLACE", help="Only there: epoch=3, epoch=3/step=120, epoch#3 by number, epoch=10..20.")
@click.option("--remove", is_flag=True, help="Take pins away instead.")
@options.as_json
def command(run_ref: str, at: str | None, remove: bool, as_json: bool) -> None:
    """Pin the checkpoints that a run has now, or those at a place: no policy and no budget drops them.

    With --remove they are as any other again; nothing is dropped before the next `rearview gc`.
    """
    from rearview.catalog import checkpoints, paths
    from rearview.cli import opening
    from rearview.errors import NoCheckpoint
    from rearview.store import manifests

    with opening.catalog() as catalog:
        run = catalog.run(run_ref).run
        listed = catalog.checkpoints(run)
    chosen = checkpoints.every(listed, run, paths.parse(at)) if at is not None else [one for one in listed if one.usable]
    if not chosen:
        raise NoCheckpoint(f"run {run} has no whole checkpoint to pin: `rearview checkpoints {run}` lists what it has")
    decisions = {one.decision for one in chosen}
    both = [one for one in listed if one.decision in decisions and (remove or one.usable)]  # the parts of a checkpoint go together
    store = opening.store()
    changed = []
    for one in both:
        if one.pinned != remove:
            continue
        for name in checkpoints.names_of(one):
            if remove:
                manifests.remove_pin(store, name)
            else:
                manifests.put_mark(store, name, manifests.PIN)
        changed.append(one)
    if as_json:
        output.write("rearview.pin/1", run=run, removed=remove, changed=[one.named for one in changed], chosen=[one.named for one in both])
    else:
        word = "took the pin from" if remove else "pinned"
        same = f" ({len(both) - len(changed)} already {'without' if remove else 'pinned'})" if len(changed) < len(both) else ""
        told = changed if remove and changed else both  # a pin that was not there was not taken
        places = ", ".join(dict.fromkeys(one.named for one in checkpoints.along(told)))
        screen.write([f"{word} {text.count(len(changed), 'checkpoint')} of run {run}{same}: {text.shorten(text.escape(places), 200)}"])
