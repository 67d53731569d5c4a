"""What counts as a log unit, and AST helpers shared by the making of the cases and by the scoring."""
import ast
import copy
import re

ATTRS = {"info", "debug", "warning", "warn", "error", "log", "write", "add_scalar", "add_scalars", "add_histogram",
         "add_image", "add_images", "add_figure", "add_text", "scalar", "log_metrics", "log_dict", "log_metric",
         "log_scalar", "logkv", "record_tabular", "dump_tabular", "dumpkvs", "display", "print", "set_description",
         "set_postfix", "set_postfix_str", "image", "report", "log_print", "print0", "summary"}
RECV = re.compile(r"(log|writer|wandb|tb|tensorboard|tqdm|pbar|progress|print|console|summary|accelerator|tracker|"
                  r"run|fabric|self|meter|stdout|stderr|iterator|^t$|^f$)", re.IGNORECASE)
NAMES = {"print", "pprint", "log", "print0", "print_rank_0", "progress_bar", "log_stats", "print_stats", "logprint",
         "tqdm_write"}
METER = re.compile(r"(loss|top\d|acc|time|meter|_m$|metric)", re.IGNORECASE)
BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


def dump(node):
    """A tree as text."""
    return ast.dump(node)


def is_log_call(st):
    """A call, for its own sake, of what logs, prints or counts."""
    if not (isinstance(st, ast.Expr) and isinstance(st.value, ast.Call)):
        return False
    f = st.value.func
    if isinstance(f, ast.Name):
        return f.id in NAMES
    if isinstance(f, ast.Attribute):
        recv = ast.unparse(f.value)
        if f.attr in ATTRS and RECV.search(recv):
            return True
        return f.attr == "update" and bool(METER.search(recv)) and len(st.value.args) in (1, 2)
    return False


def is_unit(st):
    """A log call, or an `if` without else that holds nothing but log calls."""
    if is_log_call(st):
        return True
    return isinstance(st, ast.If) and not st.orelse and all(is_log_call(b) for b in st.body)


def blocks(node):
    """(name, statements) of each list directly in a node."""
    for f in ("body", "orelse", "finalbody"):
        b = getattr(node, f, None)
        if isinstance(b, list):
            yield f, b
    for f in ("handlers", "cases"):
        for i, h in enumerate(getattr(node, f, []) or []):
            yield f"{f}{i}", h.body


def walk_blocks(node, path=(), scope=()):
    """Yield (path, scope, owner, block) for every statement list."""
    for f, b in blocks(node):
        yield path + (f,), scope, node, b
        for i, st in enumerate(b):
            sc = scope + (st.name,) if isinstance(st, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) else scope
            yield from walk_blocks(st, path + (f, i), sc)


def norm(tree):
    """One unparse round trip (so that reformatted output compares equal), `pass` dropped."""
    tree = ast.parse(ast.unparse(tree))
    for _, _, _, b in list(walk_blocks(tree)):
        b[:] = [s for s in b if not isinstance(s, ast.Pass)]
    return tree


def whole_lines(lines, a, b):
    """Does the unit own its lines a..b (1-based) entirely?"""
    head = lines[a - 1]
    if ";" in lines[b - 1].split("#")[0].rsplit(")", 1)[-1]:
        return False
    return bool(head.strip()) and not head[:len(head) - len(head.lstrip())].strip()


def other_units(tree, line, end):
    """Line ranges of all log units except the one at line..end: topmost ones, never enclosing or inside it."""
    out = []

    def go(node):
        for _, b in blocks(node):
            for st in b:
                inside = st.lineno <= line and end <= st.end_lineno
                if is_unit(st) and not inside:
                    out.append((st.lineno, st.end_lineno))
                elif not (st.lineno == line and st.end_lineno == end):
                    go(st)
    go(tree)
    return out


def strip_many(src, ranges):
    """Cut the given statements (line ranges, whole lines each) out; a block left empty gets `pass`."""
    tree, lines, gone = ast.parse(src), src.split("\n"), set(ranges)
    for _, _, _, b in walk_blocks(tree):
        hit = [st for st in b if (st.lineno, st.end_lineno) in gone]
        if hit:
            empty = len(hit) == len(b)
            for st in hit:
                head = lines[st.lineno - 1]
                for k in range(st.lineno - 1, st.end_lineno):
                    lines[k] = None
                if empty and st is hit[0]:
                    lines[st.lineno - 1] = head[:len(head) - len(head.lstrip())] + "pass"
    return "\n".join(s for s in lines if s is not None)


def versions_of_x(x_src, line, end, strip):
    """(X as the tool gets it, X as it should come back). strip='one': only the unit itself is cut out;
    strip='all': X has none of its log units, and only this one should come back."""
    if strip == "one":
        return strip_many(x_src, [(line, end)]), x_src
    tree, lines = ast.parse(x_src), x_src.split("\n")
    rest = [r for r in other_units(tree, line, end) if whole_lines(lines, *r)]
    return strip_many(x_src, rest + [(line, end)]), strip_many(x_src, rest)


def find_insertion(a, b):
    """Where does b hold exactly one more statement than a? -> (path, index, stmt), None if equal, 'other' if else."""
    def go(na, nb, path):  # noqa: PLR0912
        ba, bb = list(blocks(na)), list(blocks(nb))
        if [f for f, _ in ba] != [f for f, _ in bb]:
            return "other"
        ca, cb = copy.copy(na), copy.copy(nb)
        found = None
        for (f, la), (_, lb) in zip(ba, bb, strict=True):
            da, db = [dump(s) for s in la], [dump(s) for s in lb]
            if da == db:
                continue
            if found is not None:
                return "other"
            if len(db) == len(da) + 1:
                i = next((k for k in range(len(da)) if da[k] != db[k]), len(da))
                if da[i:] != db[i + 1:]:
                    return "other"
                found = (path + (f,), i, lb[i])
            elif len(da) == len(db):
                diff = [k for k in range(len(da)) if da[k] != db[k]]
                if len(diff) != 1 or type(la[diff[0]]) is not type(lb[diff[0]]):
                    return "other"
                found = go(la[diff[0]], lb[diff[0]], path + (f, diff[0]))
                if found is None or found == "other":
                    return "other"
            else:
                return "other"
        # anything outside the blocks (conditions, headers) must be equal
        for n in (ca, cb):
            for f in ("body", "orelse", "finalbody", "handlers", "cases"):
                if hasattr(n, f):
                    setattr(n, f, [])
        if dump(ca) != dump(cb):
            return "other"
        return found
    return go(a, b, ())
